"""What the agent reads from shared memory and /proc, turned into reports. Reads only."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import psutil

from runtime.contract.messages import ComponentReport, EpisodeReport, RingLedger
from runtime.contract.states import PHASES, Role
from runtime.control.core_wait import waited_s
from runtime.control.throttling import Throttling
from runtime.memory.block import COUNTERS, GAUGES
from runtime.memory.ring import read_ledger

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from runtime.control.component_life import Life
    from runtime.memory.block import StatsBlock
    from runtime.memory.ring import RingSpec
    from runtime.resources import Resources
    from runtime.wiring import Wiring

USAGE_EVERY_S = 1.0  #: CPU and memory are read this often: /proc is not free


class _Look(NamedTuple):
    at: float
    waited_s: float  #: so far, ready to run
    stopped_s: float  #: so far, its group by quotas


class Usage:
    """CPU and memory of one component's present process, and how much of its time it waited for a core or a quota."""

    def __init__(self) -> None:
        self._process: psutil.Process | None = None
        self.cpu_percent: float | None = None
        self.waiting_percent = 0.0
        self.throttled_percent = 0.0
        self.rss_bytes: int | None = None
        self._looked = _Look(0.0, 0.0, 0.0)

    def read(self, pid: int | None, now: float, stopped_s: float) -> None:
        """Look again, at `now` (monotonic); a process that is gone has no usage. `stopped_s`: by quotas, so far."""
        try:
            if pid is None:
                raise psutil.NoSuchProcess(0)
            if self._process is None or self._process.pid != pid:
                self._process = psutil.Process(pid)
                self._process.cpu_percent()
                self.cpu_percent = None
                self.waiting_percent = self.throttled_percent = 0.0
                self._looked = _Look(now, waited_s(pid), stopped_s)
            else:
                self.cpu_percent = self._process.cpu_percent()
                self._wait(_Look(now, waited_s(pid), stopped_s))
            self.rss_bytes = self._process.memory_info().rss
        except psutil.NoSuchProcess:
            self._process = self.cpu_percent = self.rss_bytes = None
            self.waiting_percent = self.throttled_percent = 0.0

    def _wait(self, look: _Look) -> None:
        """What a quota may have been the cause of was nobody else's fault."""
        before, self._looked = self._looked, look
        took = look.at - before.at
        waited = min(took, max(0.0, look.waited_s - before.waited_s))
        stopped = min(waited, max(0.0, look.stopped_s - before.stopped_s))
        self.throttled_percent = round(100.0 * stopped / took, 1)
        self.waiting_percent = round(100.0 * (waited - stopped) / took, 1)


class Sampler:
    """Reports over all components of a node. `blocks` are theirs, by name; they come and go."""

    def __init__(self, resources: Resources, blocks: Mapping[str, StatsBlock]) -> None:
        self._resources = resources
        self._blocks = blocks
        self._rings: dict[str, RingSpec] = {}
        self._usage: dict[str, Usage] = {}
        self._usage_at = -math.inf
        self._throttling = Throttling()
        self._episodes_seen: dict[str, int] = {}

    def rewire(self, wiring: Wiring) -> None:
        """Look at the rings of this wiring from now on, those nearer to the learner first.

        In this order nothing may seem consumed before it was made.
        """
        self._rings = dict(sorted(wiring.rings.items(), key=lambda item: item[0].startswith("fragments.")))

    def components(
        self, lives: Sequence[Life], blocks: Mapping[str, StatsBlock], now: float
    ) -> tuple[ComponentReport, ...]:
        """One report a component; `blocks` hold those of all `lives`. `now` is the agent's monotonic clock."""
        if now - self._usage_at >= USAGE_EVERY_S:
            self._usage_at = now
            self._usage = {life.name: self._usage.get(life.name) or Usage() for life in lives}
            stopped_s = self._throttling.stopped_s()
            for life in lives:
                self._usage[life.name].read(life.pid, now, stopped_s)
        return tuple(self._component(life, blocks[life.name], now) for life in lives)

    def _component(self, life: Life, block: StatsBlock, now: float) -> ComponentReport:
        usage = self._usage.get(life.name) or Usage()
        values = block.snapshot()
        lags = tuple(block.lag_histogram.tolist()) if life.role is Role.LEARNER else ()
        return ComponentReport(
            name=life.name,
            role=life.role,
            pid=life.pid,
            state=life.state,
            reason=life.reason,
            attempt=life.attempt,
            restarts=life.restarts,
            beat_age_s=life.beat_age_s(now),
            phase=PHASES[block.phase],
            cpu_percent=usage.cpu_percent,
            waiting_percent=usage.waiting_percent,
            throttled_percent=usage.throttled_percent,
            rss_bytes=usage.rss_bytes,
            counters={name: int(values[name]) for name in COUNTERS},
            gauges={name: values[name] for name in GAUGES if values[name] and math.isfinite(values[name])},
            lag_histogram=lags,
            checkpoint_done=block.checkpoint_done,
        )

    def episodes(self) -> tuple[EpisodeReport, ...]:
        """Those that ended since the last call, but for returns that are no numbers: JSON has no word for them."""
        found = []
        self._episodes_seen = {name: self._episodes_seen.get(name, 0) for name in self._blocks}
        for name, block in self._blocks.items():
            self._episodes_seen[name], ended = block.episodes_since(self._episodes_seen[name])
            found += [
                EpisodeReport(component=name, episode_return=ret, length=length)
                for ret, length in ended
                if math.isfinite(ret)
            ]
        return tuple(found)

    def ledgers(self) -> dict[str, RingLedger]:
        """Every ring's totals."""
        ledgers = {}
        for name, spec in self._rings.items():
            ledger = read_ledger(self._resources.segment(name), spec)
            ledgers[name] = RingLedger(
                produced=ledger.produced,
                consumed=ledger.consumed,
                dropped_stale=ledger.dropped_stale,
                dropped_other=ledger.dropped_other,
            )
        return ledgers
