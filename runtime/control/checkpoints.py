"""The coordinator's part in checkpoints: when, which step, are all shards there, the manifest, what is kept."""

from __future__ import annotations

import logging
import os
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

from runtime.checkpoint.errors import CheckpointError
from runtime.checkpoint.manifest import Manifest
from runtime.checkpoint.partial import PartialCheckpoint
from runtime.checkpoint.store import listing, prune
from runtime.contract.view import Checkpoints
from runtime.control.checkpoint_round import Round, Verdict, judge
from runtime.control.orphan_record import read_orphan_record
from runtime.control.run_state import CheckpointFailed, CheckpointWritten
from runtime.control.shipping import Inbox

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable
    from datetime import datetime
    from pathlib import Path

    from runtime.contract.messages import Part, PartTaken
    from runtime.contract.paths import RunPaths
    from runtime.contract.plan import Plan
    from runtime.control.event_log import EventLog
    from runtime.control.fold import Fold

log = logging.getLogger(__name__)

GUARDIAN_SILENCE_S = 5.0  #: how long the guardian's word may be missing once every component process is gone

Outcome = CheckpointWritten | CheckpointFailed


@dataclass(slots=True)
class _Orphans:
    """Components whose agent is gone: their guardian's word is waited for."""

    cause: str
    since: float
    processes_gone_at: float | None = None


@dataclass(frozen=True, slots=True)
class _Finished:
    """What the thread that sealed a checkpoint found out."""

    folder: Path
    removed: tuple[str, ...]
    unpruned: str | None


class CheckpointDesk:
    """Runs one round at a time. Hashing and fsync of the shards take a second per GB: a thread does them."""

    def __init__(
        self, plan: Plan, paths: RunPaths, events: EventLog, wall: Callable[[], datetime], *, now: float
    ) -> None:
        self._plan = plan
        self._paths = paths
        self._events = events
        self._wall = wall
        self._seal = ThreadPoolExecutor(1, thread_name_prefix="seal")
        self._sealing: Future[_Finished] | None = None
        self._partial: PartialCheckpoint | None = None
        self._inbox = Inbox(paths.checkpoints)
        self._round: Round | None = None
        self._orphans: _Orphans | None = None
        self._counted_from = now
        known = [info for info in listing(paths.checkpoints, now=wall()) if info.complete]
        self._complete = len(known)
        self._last = known[0].step if known else None
        self._newest_step = self._last or 0
        self._last_at = known[0].created_at if known else None
        self._failures, self._problem, self._hint = 0, "", ""

    @property
    def round(self) -> Round | None:
        """The one being written; its `step` is what components are asked for."""
        return self._round

    @property
    def last(self) -> int | None:
        """Step of the newest complete checkpoint."""
        return self._last

    @property
    def sealing(self) -> bool:
        """Whether a thread is at work, so that `look` is worth calling often."""
        return self._sealing is not None

    def due(self, now: float) -> bool:
        """Whether the job's interval has passed since the last one."""
        every = self._plan.job.checkpoint.every
        return every is not None and self._round is None and now - self._counted_from >= every

    def begin(
        self, reason: str, cause: str, *, env_steps: int, now: float, away: Collection[str] = ()
    ) -> CheckpointFailed | None:
        """Open a round. Its step is the run's env steps, or one above the last where those have not moved.

        `away`: components whose node is lost already: the checkpoint is written without them.
        """
        step = self._newest_step = max(env_steps, self._newest_step + 1)
        event = self._events.write("checkpoint.requested", f"checkpoint {step}: {reason}", cause=cause)
        round_ = Round.of(self._plan, step, event, now)
        there = round_.without(away)
        return self._open(there if there.needed else round_, now, adopt=False)

    def _open(self, round_: Round, now: float, *, adopt: bool) -> CheckpointFailed | None:
        self._round = round_
        try:
            self._partial = PartialCheckpoint(self._paths.checkpoints, round_.step, adopt=adopt)
        except CheckpointError as error:
            return self._failed(error.message, now, error.hint)
        head = self._plan.head
        self._inbox.expect(round_.step, {p.name: p.host for p in self._plan.placements if p.host != head})
        return None

    def take(self, peer: str, part: Part, blob: bytes | None) -> PartTaken | None:
        """Part of a shard of another node, and what to answer it."""
        return self._inbox.take(peer, part, blob)

    def revise(self, plan: Plan) -> None:
        """The plan has changed: nobody waits for the shard of a component that is no longer part of the run."""
        gone = {p.name for p in self._plan.placements} - {p.name for p in plan.placements}
        self._plan = plan
        if self._round is not None and self._sealing is None:
            self._round = self._round.without(gone)

    def resume(self, round_: Round, now: float) -> Outcome | None:
        """Go on with a round that a coordinator before this one had opened; its end, if it has ended."""
        self._newest_step = max(self._newest_step, round_.step)
        if round_.step != self._last:
            return self._open(round_, now, adopt=True)
        self._round = round_  # sealed, but its coordinator did not live to say so
        return self._written(round_, now)

    def adopt(self, cause: str, now: float) -> None:
        """The agent is gone: from now on wait for what its guardian leaves. What is being sealed is sealed first."""
        self._orphans = _Orphans(cause, since=now)
        if self._partial is not None:  # the guardian may have chosen the very same step: nothing may be removed
            self._partial.let_go()
            self._partial = None
        if self._sealing is None:
            self._close_round(now)

    def look(
        self, fold: Fold, manifest: Callable[[int], Manifest], *, now: float, away: Collection[str] = ()
    ) -> Outcome | None:
        """How the open round has ended, if it has. `manifest` is asked once, when all shards are there.

        `away`: components whose node is lost.
        """
        if self._sealing is not None:
            ended = self._look_at_seal(now) if self._sealing.done() else None
            return ended if self._orphans is None else None
        if self._orphans is not None and (failed := self._look_at_guardian(self._orphans, fold, now)) is not None:
            return failed
        if self._round is None:
            return None
        arrived = self._inbox.arrived(self._round.step) if self._round.shipped else ()
        limit = self._plan.job.health.checkpoint
        self._round, verdict, reason = judge(
            self._round, fold.reports, now=now, limit_s=limit, arrived=arrived, away=away
        )
        if verdict is Verdict.FAILED:
            return self._failed(reason, now)
        if verdict is Verdict.WHOLE:
            self._begin_seal(manifest(self._round.step))
        return None

    def _look_at_guardian(self, orphans: _Orphans, fold: Fold, now: float) -> CheckpointFailed | None:
        """Once it has spoken there is a round again, for which other nodes may have to be asked."""
        record = read_orphan_record(self._paths.orphaned)
        reason = self._guardian_is_late(orphans, fold, now) if record is None else record.reason
        if record is None or record.step is None:
            return self._failed(reason, now) if reason else None
        self._orphans = None
        return self._open(Round.of_orphans(self._plan, record.step, orphans.cause, now), now, adopt=True)

    def _guardian_is_late(self, orphans: _Orphans, fold: Fold, now: float) -> str | None:
        if orphans.processes_gone_at is None and not any(map(_exists, _pids(fold))):
            orphans.processes_gone_at = now
        if orphans.processes_gone_at is not None and now - orphans.processes_gone_at > GUARDIAN_SILENCE_S:
            return "every component is gone and no checkpoint was left"
        health = self._plan.job.health
        limit = health.checkpoint + 2 * health.stop_grace
        if now - orphans.since > limit:
            return f"the orphaned components left no checkpoint within {limit:g} s"
        return None

    def _begin_seal(self, manifest: Manifest) -> None:
        assert self._round is not None
        assert self._partial is not None
        self._inbox.close()  # who comes now is late, and must not write where digests are being taken
        partial, needed, now = self._partial, self._round.needed, self._wall()
        self._partial = None  # from here on it is the thread's, which also removes it if it fails
        self._sealing = self._seal.submit(_seal, partial, manifest, needed, self._plan.job.checkpoint.keep, now)

    def _look_at_seal(self, now: float) -> Outcome:
        assert self._round is not None
        assert self._sealing is not None
        sealing, current = self._sealing, self._round
        self._sealing = None
        try:
            finished = sealing.result()
        except CheckpointError as error:
            return self._failed(error.message, now, error.hint)
        self._complete = self._complete + 1 - len(finished.removed)
        self._last, self._last_at = current.step, self._wall()
        written = self._written(current, now)
        if finished.unpruned:
            text = f"old checkpoints could not be removed: {finished.unpruned}"
            self._events.write("checkpoint.unpruned", text, cause=written.id)
        elif finished.removed:
            self._events.write("checkpoint.pruned", f"removed {', '.join(finished.removed)}", cause=written.id)
        return written

    def _written(self, current: Round, now: float) -> CheckpointWritten:
        took = max(0.0, now - current.began_at)
        text = f"checkpoint {current.step} is complete, {took:.2f} s after it was asked for"
        event = self._events.write("checkpoint.written", text, cause=current.event)
        self._close_round(now)
        self._failures, self._problem, self._hint = 0, "", ""
        return CheckpointWritten(id=event, step=current.step)

    def _failed(self, reason: str, now: float, hint: str | None = None) -> CheckpointFailed:
        what, cause = (self._round.step, self._round.event) if self._round is not None else ("of the orphans", None)
        if self._orphans is not None and cause is None:
            cause, self._orphans = self._orphans.cause, None
        event = self._events.write("checkpoint.failed", f"checkpoint {what}: {reason}", cause=cause)
        self._close_round(now)
        self._failures, self._problem, self._hint = self._failures + 1, reason, hint or ""
        return CheckpointFailed(id=event, reason=reason)

    def _close_round(self, now: float) -> None:
        self._inbox.close()
        if self._partial is not None:
            self._partial.abandon()
            self._partial = None
        self._round = None
        self._counted_from = now

    def view(self) -> Checkpoints:
        """For the RunView."""
        age = (self._wall() - self._last_at).total_seconds() if self._last_at is not None else None
        return Checkpoints(
            last_step=self._last,
            last_age_s=age,
            complete=self._complete,
            failed_in_a_row=self._failures,
            problem=self._problem,
            hint=self._hint,
        )

    def close(self) -> None:
        """Wait for the thread."""
        self._inbox.close()
        self._seal.shutdown()


def _seal(partial: PartialCheckpoint, manifest: Manifest, needed: Iterable[str], keep: int, now: datetime) -> _Finished:
    folder = partial.complete(manifest, needed)
    try:
        removed = prune(partial.checkpoints, keep, now=now.timestamp(), intact=folder)
    except OSError as error:
        return _Finished(folder, (), f"{error}")
    return _Finished(folder, tuple(old.name for old in removed if not old.name.startswith(".")), None)


def _pids(fold: Fold) -> Iterable[int]:
    return (report.pid for report in fold.reports.values() if report.pid is not None)


def _exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return False  # the number belongs to somebody else by now
    return True
