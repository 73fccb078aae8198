"""The desk where a run has several nodes: a round counts what has arrived at the head."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from runtime.checkpoint.manifest import Manifest
from runtime.checkpoint.names import partial_folder, step_folder
from runtime.checkpoint.shard import save_shard
from runtime.checkpoint.store import verify
from runtime.contract.messages import ComponentReport, Part
from runtime.contract.paths import RunPaths
from runtime.contract.plan import HostPlan, Plan
from runtime.contract.states import ComponentState
from runtime.control.checkpoint_round import ACTOR_PATIENCE_S, Round, Verdict, judge
from runtime.control.checkpoints import CheckpointDesk
from runtime.control.event_log import EventLog
from runtime.control.orphan_record import OrphanRecord
from runtime.control.run_state import CheckpointFailed, CheckpointWritten
from support.wires import PATIENCE_S, folder_content

HERE, THERE = ("learner-0", "buffer-0", "actor-0"), ("learner-1", "buffer-1", "actor-1")


def wall() -> datetime:
    return datetime.now(UTC)


def manifest(step: int) -> Manifest:
    return Manifest(run_id="r", name="r", step=step, created_at=wall(), shape="L2A2", job_digest="-")


class Table:
    """A desk over a folder, for a run on n1 (the head) and n2."""

    def __init__(self, folder: Path, plan: Plan) -> None:
        self.paths, self.plan = RunPaths(folder), plan
        self.paths.checkpoints.mkdir()
        self.reports: dict[str, ComponentReport] = {}
        self.desk = CheckpointDesk(plan, self.paths, EventLog(self.paths.events, wall), wall, now=0.0)

    def report(self, *names: str, done: int = 0, state: ComponentState = ComponentState.RUNNING) -> None:
        roles = {p.name: p.role for p in self.plan.placements}
        for name in names:
            self.reports[name] = ComponentReport(name=name, role=roles[name], state=state, checkpoint_done=done)

    def write(self, *names: str, step: int) -> None:
        """As components of the head do it, and say so."""
        for name in names:
            save_shard(partial_folder(self.paths.checkpoints, step), name, {}, {})
        self.report(*names, done=step)

    def send(self, name: str, step: int, node: str = "n2") -> str | None:
        answer = self.desk.take(node, Part(step=step, name=f"{name}.json", offset=0, size=2, last=True), b"{}")
        assert answer is not None
        return answer.error

    def look(self, now: float = 1.0, away: tuple[str, ...] = ()) -> Any:
        fold: Any = type("Fold", (), {"reports": self.reports})
        return self.desk.look(fold, manifest, now=now, away=away)

    def outcome(self) -> Any:
        """What comes of what is being sealed."""
        assert self.desk.sealing
        assert self.desk._sealing is not None
        self.desk._sealing.exception(PATIENCE_S)
        return self.look()


@pytest.fixture
def two_nodes(make_plan: Any) -> Plan:
    plan: Plan = make_plan(learners=2, actors=2)
    hosts = (HostPlan(name="n1", cores=(0,)), HostPlan(name="n2", cores=(0,)))
    there = tuple(p.model_copy(update={"host": "n2" if p.group == 1 else "n1"}) for p in plan.placements)
    return plan.model_copy(update={"hosts": hosts, "placements": there})


@pytest.fixture
def table(tmp_path: Path, two_nodes: Plan) -> Iterator[Table]:
    table = Table(tmp_path, two_nodes)
    yield table
    table.desk.close()


def begun(table: Table) -> None:
    assert table.desk.begin("it is time", "ev-1", env_steps=500, now=0.0) is None
    table.report(*HERE, *THERE)


def test_a_shard_that_is_written_elsewhere_counts_when_it_has_arrived(table: Table) -> None:
    begun(table)
    table.write(*HERE, step=500)
    table.report(*THERE, done=500)
    assert table.look() is None
    assert not table.desk.sealing
    assert [table.send(name, 500) for name in THERE] == [None, None, None]
    assert table.look() is None
    assert "not being written" in (table.send("actor-1", 500) or ""), "nothing may come in while it is sealed"
    assert isinstance(table.outcome(), CheckpointWritten)
    folder = step_folder(table.paths.checkpoints, 500)
    assert verify(folder) == []
    assert {name.removesuffix(".json") for name in folder_content(folder)} == {*HERE, *THERE, "manifest"}


def test_an_actors_shard_from_elsewhere_is_waited_for_a_moment_only(table: Table) -> None:
    begun(table)
    table.write(*HERE, step=500)
    for name in THERE[:2]:
        table.send(name, 500)
    table.look(1.0)
    assert not table.desk.sealing
    table.look(1.0 + ACTOR_PATIENCE_S)
    assert isinstance(table.outcome(), CheckpointWritten)


def test_a_shard_on_its_way_from_a_component_that_has_left_is_waited_for(table: Table) -> None:
    begun(table)
    table.write(*HERE, step=500)
    table.report(*THERE, done=500, state=ComponentState.EXITED)
    assert table.look() is None
    for name in THERE[:2]:
        table.send(name, 500)
    table.look()
    assert isinstance(table.outcome(), CheckpointWritten)


@pytest.mark.parametrize("arrived", [False, True])
def test_a_lost_node_fails_the_round_unless_its_shards_have_arrived(table: Table, arrived: bool) -> None:
    begun(table)
    table.write(*HERE, step=500)
    if arrived:
        for name in THERE[:2]:
            table.send(name, 500)
    outcome = table.look(away=THERE)
    if arrived:
        assert isinstance(table.outcome(), CheckpointWritten)
    else:
        assert isinstance(outcome, CheckpointFailed)
        assert outcome.reason == "learner-1 is on a node that is lost"
        assert list(table.paths.checkpoints.iterdir()) == []


def test_who_is_no_longer_part_of_the_run_is_not_waited_for(table: Table) -> None:
    begun(table)
    table.write(*HERE, step=500)
    assert table.look() is None
    table.desk.revise(
        table.plan.model_copy(update={"placements": tuple(p for p in table.plan.placements if p.group == 0)})
    )
    table.look()
    assert isinstance(table.outcome(), CheckpointWritten)


def test_who_leaves_is_welcome_and_not_needed(two_nodes: Plan) -> None:
    leaving = tuple(p.model_copy(update={"leaving": p.group == 1}) for p in two_nodes.placements)
    round_ = Round.of(two_nodes.model_copy(update={"placements": leaving}), 7, "ev-1", 0.0)
    assert set(round_.needed) == {"learner-0", "buffer-0"}
    assert set(round_.welcome) == {*THERE, "actor-0"}
    assert set(round_.shipped) == set(THERE)
    gone = ComponentReport(name="learner-1", role=two_nodes.placements[0].role, state=ComponentState.EXITED)
    here = {name: gone.model_copy(update={"name": name, "checkpoint_done": 7}) for name in ("learner-0", "buffer-0")}
    assert judge(round_, {**here, "learner-1": gone}, now=1.0, limit_s=60)[1] is Verdict.WHOLE


def test_a_successor_goes_on_with_what_had_arrived(table: Table) -> None:
    begun(table)
    table.send("learner-1", 500)
    open_round, reports = table.desk.round, table.reports
    assert open_round is not None
    table.desk._partial.let_go()  # type: ignore[union-attr]
    table.desk = CheckpointDesk(table.plan, table.paths, EventLog(table.paths.events, wall), wall, now=2.0)
    restored = Round.model_validate_json(open_round.model_dump_json())
    assert table.desk.resume(restored, 2.0) is None
    table.reports = reports
    table.write(*HERE, step=500)
    table.look()
    assert table.send("buffer-1", 500) is None
    table.look(2.0 + ACTOR_PATIENCE_S)
    table.look(3.0 + ACTOR_PATIENCE_S)
    assert isinstance(table.outcome(), CheckpointWritten)


def test_the_guardians_checkpoint_waits_for_the_shards_of_nodes_that_live(table: Table) -> None:
    begun(table)
    table.desk.adopt("ev-2", now=0.5)
    for name in HERE:
        save_shard(partial_folder(table.paths.checkpoints, 600), name, {}, {})
    table.paths.orphaned.write_text(OrphanRecord(step=600, reason="its agent is gone").model_dump_json())
    assert table.look() is None
    assert table.desk.round is not None
    assert (table.desk.round.step, table.desk.sealing) == (600, False), "the other nodes have to be asked for it"
    for name in THERE:
        table.send(name, 600)
    table.look()
    outcome = table.outcome()
    assert isinstance(outcome, CheckpointWritten)
    assert outcome.step == 600
    assert verify(step_folder(table.paths.checkpoints, 600)) == []


def test_the_guardians_checkpoint_fails_where_the_other_node_is_lost_too(table: Table) -> None:
    begun(table)
    table.desk.adopt("ev-2", now=0.5)
    table.paths.orphaned.write_text(OrphanRecord(step=600, reason="its agent is gone").model_dump_json())
    outcome = table.look(away=THERE)
    assert isinstance(outcome, CheckpointFailed)
    assert "learner-1 is on a node that is lost" in outcome.reason
