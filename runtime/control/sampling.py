"""What the agent reads from shared memory and /proc, turned into reports. Reads only."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import psutil

from runtime.contract.messages import ComponentReport, EpisodeReport, RingLedger
from runtime.contract.states import PHASES, Role
from runtime.control.core_wait import waited_s
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


class Usage:
    """CPU and memory of one component's present process, and how much of its time it waited for a core."""

    def __init__(self) -> None:
        self._process: psutil.Process | None = None
        self.cpu_percent: float | None = None
        self.waiting_percent = 0.0
        self.rss_bytes: int | None = None
        self._waited: tuple[float, float] = (0.0, 0.0)  # (when it was looked at, seconds so far)

    def read(self, pid: int | None, now: float) -> None:
        """Look again, at `now` (monotonic); a process that is gone has no usage."""
        try:
            if pid is None:
                raise psutil.NoSuchProcess(0)
            if self._process is None or self._process.pid != pid:
                self._process = psutil.Process(pid)
                self._process.cpu_percent()
                self.cpu_percent, self.waiting_percent = None, 0.0
                self._waited = (now, waited_s(pid))
            else:
                self.cpu_percent = self._process.cpu_percent()
                self._wait(pid, now)
            self.rss_bytes = self._process.memory_info().rss
        except psutil.NoSuchProcess:
            self._process = self.cpu_percent = self.rss_bytes = None
            self.waiting_percent = 0.0

    def _wait(self, pid: int, now: float) -> None:
        before, waited = self._waited
        self._waited = (now, waited_s(pid))
        self.waiting_percent = round(100.0 * min(1.0, max(0.0, (self._waited[1] - waited) / (now - before))), 1)


class Sampler:
    """Reports over all components of a node. `blocks` are theirs, by name; they come and go."""

    def __init__(self, resources: Resources, blocks: Mapping[str, StatsBlock]) -> None:
        self._resources = resources
        self._blocks = blocks
        self._rings: dict[str, RingSpec] = {}
        self._usage: dict[str, Usage] = {}
        self._usage_at = -math.inf
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
            for life in lives:
                self._usage[life.name].read(life.pid, now)
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
