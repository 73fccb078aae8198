"""What the screen's actions do to a real run: no change is made but the one that was shown."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from runtime.contract.operator import Difference
from runtime.contract.record import RunRecord
from support.running import ENDLESS, LiveRun
from tianjictl.runs.registry import Run
from tianjictl.tui.actions import RunActions

JOB = Path(__file__).resolve().parents[2] / "playbooks" / "train" / "cartpole-ppo.yaml"


@pytest.fixture
def run(tmp_path: Path) -> Iterator[LiveRun]:
    made = LiveRun(tmp_path, JOB, *ENDLESS, "distributed.actors=1", "env.num_envs=8")
    yield made
    made.stop()


def test_a_scale_is_made_as_it_was_shown_or_else_shown_again(run: LiveRun) -> None:
    actions = RunActions(Run(run.paths, RunRecord.model_validate_json(run.paths.record.read_bytes())))
    shown = actions.difference("L1A2")
    assert [line.partition(" ")[0] for line in shown.starts] == ["actor-1"]
    told: list[str] = []
    assert str(actions.scale("L1A2", shown, told.append)).startswith("it is L1A2 after")
    wanted = run.view().shape.wanted
    again = actions.scale("L1A1", actions.difference("L1A3"), told.append)
    assert isinstance(again, Difference), "another change than the one that was shown"
    assert again.leaves == ("actor-1 on localhost",)
    assert isinstance(actions.scale("L1A2", shown, told.append), Difference), "the plan is another since"
    assert run.view().shape.wanted == wanted == "L1A2"
    assert len(run.events("scale.requested")) == 1
