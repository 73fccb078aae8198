"""Max-min fair flows under linear limits, by progressive filling (Bertsekas and Gallager, Data Networks, 6.5). Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping, Sequence

_ALIKE = 1e-9  #: relative: limits that are reached together


@dataclass(frozen=True, slots=True)
class Limit:
    """Σ weight · flow ≤ `most`. `weights` names the flows that count, each with a weight above 0."""

    name: Hashable
    weights: Mapping[int, float]
    most: float


@dataclass(frozen=True, slots=True)
class Filled:
    """Each flow, and the names of the limits that stopped it (more than one where they are reached together)."""

    flows: tuple[float, ...]
    stopped_by: tuple[tuple[Hashable, ...], ...]


def fill(paces: Sequence[float], limits: Sequence[Limit]) -> Filled:
    """Raise all flows together, flow i by `paces[i]` per unit of level, and stop each where a limit on it is reached.

    Every flow must be in some limit. A limit that is below 0 from the start counts as 0: its flows stay at 0.
    """
    flows = [0.0] * len(paces)
    stopped: list[tuple[Hashable, ...]] = [()] * len(paces)
    rising = {index for index, pace in enumerate(paces) if pace > 0}
    level = 0.0
    while rising:
        reached: list[tuple[float, Limit]] = []
        for limit in limits:
            growth = sum(weight * paces[i] for i, weight in limit.weights.items() if i in rising)
            if growth > 0:
                held = sum(weight * flows[i] for i, weight in limit.weights.items() if i not in rising)
                reached.append((max(level, (limit.most - held) / growth), limit))
        if not reached:
            raise ValueError("a flow has no limit")
        level = min(at for at, _ in reached)
        full = [limit for at, limit in reached if at <= level * (1 + _ALIKE)]
        for index in sorted(rising):
            names = tuple(limit.name for limit in full if index in limit.weights)
            if names:
                flows[index] = paces[index] * level
                stopped[index] = names
        rising = {index for index in rising if not stopped[index]}
    return Filled(tuple(flows), tuple(stopped))
