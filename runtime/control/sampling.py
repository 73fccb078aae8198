"""What the agent reads from shared memory and /proc, turned into reports. Reads only."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import psutil

from runtime.contract.messages import ComponentReport, EpisodeReport, RingLedger
from runtime.contract.states import PHASES, Role
from runtime.memory.block import COUNTERS, GAUGES
from runtime.memory.ring import read_ledger

if TYPE_CHECKING:
    from runtime.control.component_life import Life
    from runtime.memory.block import StatsBlock
    from runtime.resources import Resources
    from runtime.wiring import Wiring

USAGE_EVERY_S = 1.0  #: CPU and memory are read this often: /proc is not free


class Usage:
    """CPU and memory of one component's present process."""

    def __init__(self) -> None:
        self._process: psutil.Process | None = None
        self.cpu_percent: float | None = None
        self.rss_bytes: int | None = None

    def read(self, pid: int | None) -> None:
        """Look again; a process that is gone has no usage."""
        try:
            if pid is None:
                raise psutil.NoSuchProcess(0)
            if self._process is None or self._process.pid != pid:
                self._process = psutil.Process(pid)
                self._process.cpu_percent()
                self.cpu_percent = None
            else:
                self.cpu_percent = self._process.cpu_percent()
            self.rss_bytes = self._process.memory_info().rss
        except psutil.NoSuchProcess:
            self._process = self.cpu_percent = self.rss_bytes = None


class Sampler:
    """Reports over all components of a node."""

    def __init__(self, wiring: Wiring, resources: Resources, blocks: dict[str, StatsBlock]) -> None:
        self._wiring = wiring
        self._resources = resources
        self._blocks = blocks
        self._usage = {name: Usage() for name in blocks}
        self._usage_at = -math.inf
        self._episodes_seen = dict.fromkeys(blocks, 0)

    def components(self, lives: dict[str, Life], now: float) -> tuple[ComponentReport, ...]:
        """One report a component; `now` is the agent's monotonic clock."""
        if now - self._usage_at >= USAGE_EVERY_S:
            self._usage_at = now
            for name, usage in self._usage.items():
                usage.read(lives[name].pid)
        return tuple(self._component(life, now) for life in lives.values())

    def _component(self, life: Life, now: float) -> ComponentReport:
        block, usage = self._blocks[life.name], self._usage[life.name]
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
            rss_bytes=usage.rss_bytes,
            counters={name: int(values[name]) for name in COUNTERS},
            gauges={name: values[name] for name in GAUGES if values[name] and math.isfinite(values[name])},
            lag_histogram=lags,
            checkpoint_done=block.checkpoint_done,
        )

    def episodes(self) -> tuple[EpisodeReport, ...]:
        """Those that ended since the last call, but for returns that are no numbers: JSON has no word for them."""
        found = []
        for name, block in self._blocks.items():
            self._episodes_seen[name], ended = block.episodes_since(self._episodes_seen[name])
            found += [
                EpisodeReport(component=name, episode_return=ret, length=length)
                for ret, length in ended
                if math.isfinite(ret)
            ]
        return tuple(found)

    def ledgers(self) -> dict[str, RingLedger]:
        """Every ring's totals, those nearer to the learner first: nothing may seem consumed before it was made."""
        order = sorted(self._wiring.rings, key=lambda name: name.startswith("fragments."))
        ledgers = {}
        for name in order:
            ledger = read_ledger(self._resources.segment(name), self._wiring.rings[name])
            ledgers[name] = RingLedger(
                produced=ledger.produced,
                consumed=ledger.consumed,
                dropped_stale=ledger.dropped_stale,
                dropped_other=ledger.dropped_other,
            )
        return ledgers
