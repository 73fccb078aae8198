"""A learner that joins a run, and what a run has counted while groups come and go."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from runtime.components import donor
from runtime.components.donor import NoDonorError
from runtime.contract.plan import Plan
from runtime.contract.states import Role
from runtime.memory.control import Command
from support.groups import Group, put_fragment


class Joining(Group):
    """L2A2, whose second learner begins with the first one's state."""

    def __init__(self, folder: Path, **parts: Any) -> None:
        super().__init__(folder, shape="L2A2", **parts)
        self.plan = self.plan.model_copy(
            update={
                "placements": tuple(
                    p.model_copy(update={"donor": 0}) if p.name == "learner-1" else p for p in self.plan.placements
                )
            }
        )


@pytest.fixture
def group(tmp_path: Path) -> Joining:
    return Joining(tmp_path)


@pytest.fixture
def hurried(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A clock that is a second further at each look."""
    times = iter(range(1000))
    monkeypatch.setattr("runtime.assembly.time.monotonic", lambda: float(next(times)))
    yield
    monkeypatch.undo()


def test_it_waits_with_a_beating_heart_for_a_state_that_is_still_on_its_way(group: Joining) -> None:
    giver, taker, block = group.build("learner-0"), group.build("learner-1"), group.block("learner-1")
    waiting = threading.Thread(target=taker.start)
    waiting.start()
    beats = block.beats
    while block.beats < beats + 3:  # each look beats
        assert waiting.is_alive()
    assert taker._ports.policy.version == -1, "nothing is published that is not the donor's"
    giver._algorithm.params[:] = 7.0
    giver.start()
    waiting.join(10.0)
    assert (taker._algorithm.params == 7.0).all()
    assert taker._ports.policy.version == 0


@pytest.mark.usefixtures("hurried")
def test_a_state_that_never_comes_is_named(group: Joining) -> None:
    with pytest.raises(NoDonorError, match=r"learner-state\.0"):
        group.build("learner-1").start()


def test_a_run_that_ends_meanwhile_is_not_waited_for(group: Joining, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(donor, "_LOOK_EVERY_S", 0.0)
    group.assembly().control.command = Command.STOP
    learner = group.build("learner-1")
    learner.start()
    learner.stop()
    assert learner._ports.policy.version == -1, "its fresh parameters are nobody's"


def test_a_learner_that_has_begun_goes_on_from_its_own_state(group: Joining) -> None:
    group.build("learner-0").start()
    first = group.build("learner-1")
    first.start()
    first._algorithm.params[:] = 3.0
    first._publish()
    second = group.build("learner-1")
    second.start()
    assert (second._algorithm.params == 3.0).all()


def without(plan: Plan, *gone: str) -> Plan:
    return plan.model_copy(update={"placements": tuple(p for p in plan.placements if p.name not in gone)})


def told(buffer: Any) -> int:
    return int(buffer._ports.batches.last.fields["env_steps"][0])


def test_where_nobody_waits_the_run_s_steps_are_what_the_coordinator_says(tmp_path: Path) -> None:
    group = Group(tmp_path, shape="L1A2")
    group.assembly().control.global_env_steps = 12_345
    buffer = group.build("buffer-0")
    for actor in ("actor-0", "actor-1"):
        put_fragment(group.actor_end(actor))
    buffer.tick()
    assert told(buffer) == 12_345


def test_where_the_learner_waits_its_samples_are_counted_and_never_uncounted(tmp_path: Path) -> None:
    group = Group(tmp_path, shape="L1A2", training={"dependencies": "policy-only"})
    group.assembly().control.global_env_steps = 12_345
    buffer = group.build("buffer-0")
    made = sum(put_fragment(group.actor_end(p.name)) for p in group.plan.of_role(Role.ACTOR))
    buffer.tick()
    assert told(buffer) == made
    group.plan = without(group.plan, "actor-0")
    assert group.build("buffer-0")._ports.global_env_steps() == made


@pytest.mark.parametrize(("revision", "limits"), [(1, [3, 2]), (2, [None, None])])
def test_shares_of_the_last_update_are_dealt_out_as_long_as_nobody_has_joined(
    tmp_path: Path, revision: int, limits: list[int | None]
) -> None:
    group = Group(tmp_path, shape="L2A2", training={"stop": {"updates": 5}})
    group.plan = group.plan.model_copy(update={"revision": revision})
    found = [group.build(name)._settings.max_updates for name in ("learner-0", "learner-1")]
    assert sorted(found, key=str) == sorted(limits, key=str)
