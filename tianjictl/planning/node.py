"""One node as the planner sees it: what it has, what may run there, and how fast it is. Pure arithmetic."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from runtime.contract.rates import HostRates
    from runtime.contract.states import Role
    from tianjictl.profiling.facts.cpus import Core

_MEMORY_SHARE = 0.9  #: of the limit: the rest is for the system and for what these estimates miss


@dataclass(frozen=True, slots=True)
class Node:
    """Usable CPUs, how much time they have together, bytes of memory, and what the network carries."""

    name: str
    cores: tuple[Core, ...]
    capacity: float  #: CPUs' worth of time; less than the cores where a quota says so
    memory_bytes: int
    roles: tuple[Role, ...] = ()  #: what may run there; empty: anything. A buffer goes with its learner
    mb_per_s: float | None = None  #: what its network carries in either direction; none: not known, no limit
    wan: bool = False
    rates: HostRates | None = None  #: none: not measured

    def may(self, role: Role) -> bool:
        """Whether a component of this role may run there."""
        return not self.roles or role in self.roles

    @property
    def usable_memory(self) -> int:
        """Bytes that the run may plan with."""
        return int(self.memory_bytes * _MEMORY_SHARE)

    @property
    def domains(self) -> tuple[int, ...]:
        """Cores of each NUMA domain, the largest first."""
        return tuple(sorted(Counter(core.numa for core in self.cores).values(), reverse=True))

    def learner_places(self, learner_cores: int) -> int:
        """How many learners its cores can hold: each inside one NUMA domain where any domain is large enough."""
        within = sum(domain // learner_cores for domain in self.domains)
        return within or len(self.cores) // learner_cores
