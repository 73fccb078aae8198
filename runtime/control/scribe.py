"""Everything that the coordinator writes down, and what it starts from: state, view, metrics, manifest, record."""

from __future__ import annotations

import logging
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from runtime.checkpoint.manifest import Manifest, RewardHistory, read_manifest
from runtime.checkpoint.names import step_folder
from runtime.contract.files import write_whole
from runtime.contract.record import CompletionRecord, RunRecord
from runtime.contract.states import RunState
from runtime.control.coordinator_state import CoordinatorState, load_state, save_state
from runtime.control.counted import Base, Past, resumed
from runtime.control.fold import Fold
from runtime.control.rewards import RewardRecord
from runtime.control.run_state import Run
from runtime.control.view_builder import Facts, build_view
from runtime.metrics.curves import curves
from runtime.metrics.opening import open_sinks

if TYPE_CHECKING:
    from runtime.contract.paths import RunPaths
    from runtime.contract.plan import Plan
    from runtime.contract.view import Advice, Checkpoints, Drift, Event, RunView
    from runtime.control.checkpoint_round import Round
    from runtime.control.membership import Membership
    from runtime.control.nodes import Node

log = logging.getLogger(__name__)


class Scribe:
    """Knows where this attempt began: at nothing, at a checkpoint, or where an earlier coordinator was killed."""

    def __init__(self, paths: RunPaths, plan: Plan, record: RunRecord, *, now: float) -> None:
        self._paths = paths
        self._plan = plan
        self._record = record
        wall = datetime.now(UTC)
        state = load_state(paths, record.attempt)
        if state is None:
            base = base_of(record)
            self.run = Run()
            self._started_at, self._elapsed_before = wall, base.elapsed_s
            self.fold, self.open_round = Fold(plan, base), None
            self.nodes: tuple[Node, ...] = ()
        else:
            self.run = state.run
            away = max(timedelta(0), wall - state.saved_at).total_seconds()
            self._started_at, self._elapsed_before = state.started_at, state.elapsed_s + away
            base = state.base.model_copy(update={"rewards": state.rewards})
            self.fold = Fold(plan, base, state.progress, state.memory)
            self.open_round, self.nodes = state.round, state.nodes
        self.began_at = now
        self.unwritten: str | None = None  #: why view or state could not be written the last time, if so
        self._metrics = open_sinks(paths, plan)

    @property
    def opening(self) -> str:
        """The first line of this attempt."""
        if self._record.resumed_from is None:
            return f"attempt {self._record.attempt} starts from scratch"
        done = self.fold.progress
        return (
            f"attempt {self._record.attempt} goes on from {Path(self._record.resumed_from).name}: "
            f"{done.env_steps} env steps, {done.updates} updates, {done.episodes} episodes"
        )

    def elapsed_s(self, now: float) -> float:
        """Training time of the run, over all attempts."""
        return self._elapsed_before + now - self.began_at

    def revise(self, plan: Plan) -> None:
        """Another plan holds."""
        self._plan = plan

    def view(
        self,
        run: Run,
        membership: Membership,
        checkpoints: Checkpoints,
        events: tuple[Event, ...],
        now: float,
        *,
        drift: Drift,
        advice: Advice | None,
    ) -> RunView:
        facts = Facts(
            run_id=self._record.run_id,
            name=self._record.name,
            attempt=self._record.attempt,
            state=run.state,
            reason=told_reason(run, checkpoints, self.unwritten),
            started_at=self._record.created_at,
            updated_at=datetime.now(UTC),
            elapsed_s=self.elapsed_s(now),
            checkpoints=checkpoints,
            events=events,
            now=now,
            nodes=membership.nodes,
            links=membership.links,
            drift=drift,
            advice=advice,
        )
        return build_view(self._plan, self.fold, facts)

    def write(self, run: Run, membership: Membership, view: RunView, open_round: Round | None, now: float) -> None:
        """View, own memory, one point of the reward curve and of the metrics. A full disk costs these, not the run."""
        self.fold.rewards.mark(self.elapsed_s(now))
        problem = None
        try:
            write_whole(self._paths.view, view.model_dump_json())
        except OSError as error:
            log.error("view.unwritten error=%s", error)
            problem = error.strerror or str(error)
        state = CoordinatorState(
            attempt=self._record.attempt,
            run=run,
            base=self.fold.base,
            progress=self.fold.progress,
            rewards=self.fold.rewards.record(),
            started_at=self._started_at,
            elapsed_s=self.elapsed_s(now),
            saved_at=datetime.now(UTC),
            round=open_round,
            memory=self.fold.memory(),
            nodes=tuple(membership.nodes.values()),
        )
        self.unwritten = save_state(self._paths, state) or problem
        self._write_metrics(view)

    def _write_metrics(self, view: RunView) -> None:
        if view.progress.updates or view.progress.episodes:
            self._metrics.write(view.progress.env_steps, curves(view), time_s=time.time())

    def manifest(self, step: int, now: float) -> Manifest:
        """What a checkpoint of `step` is of; the store adds the files."""
        rewards = self.fold.rewards.record()
        return Manifest(
            run_id=self._record.run_id,
            name=self._record.name,
            step=step,
            created_at=datetime.now(UTC),
            shape=self._plan.shape,
            attempt=self._record.attempt,
            job_digest=self._plan.fingerprints.job,
            counters=self.fold.progress,
            ledger=self.fold.samples()[0],
            reward=RewardHistory(best_mean_100=rewards.best, returns=rewards.returns, history=rewards.history),
            elapsed_s=self.elapsed_s(now),
            past_updates=self.fold.updates_without_shard(),
        )

    def complete(self, state: RunState, reason: str, checkpoint: int | None) -> None:
        """Write the completion record, durable. OSError where the disk refuses: the run then has not completed."""
        record = CompletionRecord(
            run_id=self._record.run_id,
            attempt=self._record.attempt,
            state=state,
            reason=reason,
            ended_at=datetime.now(UTC),
            env_steps=self.fold.progress.env_steps,
            updates=self.fold.progress.updates,
            checkpoint=None if checkpoint is None else str(step_folder(self._paths.checkpoints, checkpoint)),
        )
        write_whole(self._paths.completion, record.model_dump_json(indent=2) + "\n", durable=True)

    def close(self) -> None:
        """Finish the metrics."""
        self._metrics.close()


def told_reason(run: Run, checkpoints: Checkpoints, unwritten: str | None) -> str:
    """Why the run is in its state, and what goes wrong beside it.

    A run that cannot write is `running` all the same: `degraded` says that components are missing, and each of them
    is there and trains. But nobody should have to read the event log to learn that all of it would be lost.
    """
    if run.state not in (RunState.RUNNING, RunState.DEGRADED):
        return run.reason
    told = [run.reason]
    if checkpoints.failed_in_a_row:
        times = f"{checkpoints.failed_in_a_row} in a row" if checkpoints.failed_in_a_row > 1 else "the last one"
        told.append(f"but checkpoints fail, {times}: {checkpoints.problem}")
    if unwritten is not None:
        told.append(f"but the run's own state cannot be written: {unwritten}")
    return "; ".join(told)


def base_of(record: RunRecord) -> Base:
    """What earlier attempts had done, from the checkpoint that this one starts from; CheckpointError if unreadable."""
    if record.resumed_from is None:
        return Base()
    manifest = read_manifest(Path(record.resumed_from))
    rewards = RewardRecord(
        returns=manifest.reward.returns, best=manifest.reward.best_mean_100, history=manifest.reward.history
    )
    base = Base(
        progress=manifest.counters,
        samples=manifest.ledger,
        elapsed_s=manifest.elapsed_s,
        rewards=rewards,
        past=Past(updates=manifest.past_updates),
    )
    return resumed(base)
