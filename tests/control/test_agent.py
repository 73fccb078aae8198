"""The agent's shell over real shared memory, with the test in the place of the forkserver and the coordinator."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from runtime.contract.messages import AskStop, Checkpoint, Hello, Report, Stop
from runtime.contract.paths import RunPaths
from runtime.contract.record import CompletionRecord
from runtime.contract.states import PHASES, ComponentState, Phase, RunState
from runtime.control import fork_protocol as fork
from runtime.control import process
from runtime.control.crew import FORKSERVER_PATIENCE_S
from runtime.control.wire import make_keys
from runtime.memory.block import StatsBlock
from runtime.memory.control import Command
from support.agent_rig import Rig

NAMES = ("learner-0", "buffer-0", "actor-0")


@pytest.fixture
def rig(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Rig]:
    rig = Rig(tmp_path, monkeypatch)
    yield rig
    rig.crew.close()
    rig.resources.close()


def test_an_agent_that_was_stopped_for_long_blames_nobody_for_its_own_silence(rig: Rig) -> None:
    rig.hear(fork.Ready())
    for name in NAMES:
        rig.born(name)
    rig.look()
    rig.ack()
    rig.look(after_s=60.0, beating=())
    assert set(rig.states().values()) == {ComponentState.RUNNING}
    assert not rig.agent._over
    assert max(rig.keeper.silences) <= 2.0


def test_an_agent_whose_coordinator_answers_no_more_ends_after_the_orphan_timeout(rig: Rig) -> None:
    for _ in range(10):
        rig.look(after_s=0.9)
    assert not rig.agent._over
    rig.ack()
    for _ in range(11):
        rig.look(after_s=0.9)
    assert not rig.agent._over
    rig.look(after_s=0.9)
    assert rig.agent._over


def test_a_new_coordinator_is_told_again_that_the_run_shall_stop(rig: Rig) -> None:
    rig.agent._on_signal(15, None)
    rig.look()
    rig.look()
    assert len(rig.wire.of(AskStop)) == 1
    rig.keeper.restarts_now = True
    rig.look()
    rig.keeper.restarts_now = False
    rig.look()
    assert [type(message) for message in rig.wire.sent if isinstance(message, Hello | AskStop)] == [
        AskStop, Hello, AskStop,
    ]  # fmt: skip


def test_an_agent_leaves_with_a_coordinator_that_has_ended_the_run_even_if_it_was_not_told(rig: Rig) -> None:
    rig.look()
    assert not rig.agent._over
    rig.keeper.ended = True
    rig.look()
    assert rig.agent._over
    assert rig.control.command == Command.STOP


def test_components_that_were_ordered_from_a_forkserver_that_died_are_not_waited_for(rig: Rig) -> None:
    rig.hear(fork.Ready())
    rig.born("learner-0")
    rig.tell(Stop(reason="enough"))
    rig.hear(None)
    rig.look()
    assert rig.states() == {
        "learner-0": ComponentState.STOPPING,
        "buffer-0": ComponentState.EXITED,
        "actor-0": ComponentState.EXITED,
    }
    assert rig.wire.of(AskStop)


def test_a_forkserver_that_owes_an_answer_for_too_long_is_killed(rig: Rig) -> None:
    rig.hear(fork.Ready())
    for _ in range(int(FORKSERVER_PATIENCE_S)):
        rig.look(after_s=0.9)
        rig.ack()
    assert not rig.forks.killed
    for _ in range(5):
        rig.look(after_s=0.9)
        rig.ack()
    assert rig.forks.killed


def test_a_forkserver_that_is_ready_after_the_run_was_stopped_makes_nothing(rig: Rig) -> None:
    rig.tell(Stop(reason="changed my mind"))
    rig.hear(fork.Ready())
    rig.look()
    assert rig.forks.ordered == []
    assert set(rig.states().values()) == {ComponentState.EXITED}


def test_a_checkpoint_that_is_asked_for_again_is_not_begun_again(rig: Rig) -> None:
    for step in (500, 500, 400):
        rig.tell(Checkpoint(step=step))
    assert rig.control.checkpoint_request == 500


def test_returns_that_are_no_numbers_are_not_reported(rig: Rig) -> None:
    rig.block("actor-0").add_episodes([1.0, float("nan"), 3.0, float("inf")], [1, 2, 3, 4])
    rig.look()
    assert [episode.episode_return for episode in rig.wire.of(Report)[-1].episodes] == [1.0, 3.0]


def test_a_new_life_is_not_taken_for_the_steady_work_of_the_one_before(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the block says from the moment on at which it bears the number of the new life."""
    found: list[Phase] = []

    class Building:
        control = None

        def __init__(self, *_: object, **__: object) -> None: ...

        def block(self, name: str) -> StatsBlock:
            return rig.block(name)

        def build(self, name: str, attempt: int) -> Any:
            assert rig.block(name).attempt == attempt
            found.append(PHASES[rig.block(name).phase])
            raise ValueError("enough seen")

    rig.block("actor-0").phase = PHASES.index(Phase.STEADY)
    monkeypatch.setattr(process, "Assembly", Building)
    for what in ("_redirect_output", "_show_name", "_settle"):
        monkeypatch.setattr(process, what, lambda *_: None)
    monkeypatch.setattr(process.os, "nice", lambda _: 0)  # every test after this one would be slower
    rig.paths.plan.write_text(rig.plan.model_dump_json())
    run = process.RunOnNode(rig.paths, rig.plan.head, 1, None)
    assert process.run_component("actor-0", 2, run, rig.resources, 0) == 1
    assert found == [Phase.INIT]


def test_a_coordinator_whose_agent_died_before_it_looked_for_it_ends_the_run(
    run_folder: RunPaths, make_plan: Any, write_run_files: Any
) -> None:
    write_run_files(run_folder, make_plan())
    make_keys(run_folder.keys)
    gone = subprocess.Popen(["true"])
    gone.wait()
    command = [sys.executable, "-m", "runtime", "coordinator", str(run_folder.root), str(gone.pid)]
    subprocess.run(command, check=True, timeout=120, capture_output=True)
    ended = CompletionRecord.model_validate_json(run_folder.completion.read_bytes())
    assert ended.state is RunState.LOST
