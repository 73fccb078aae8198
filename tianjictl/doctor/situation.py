"""Everything that the checks look at: what was found on each host, and what lies between hosts."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from runtime.contract.selfcheck import SelfcheckReport
    from tianjictl.errors import TianjiError
    from tianjictl.hosts.types import Host
    from tianjictl.launching.host_check import HostCheck
    from tianjictl.profiling.facts.host import HostFacts
    from tianjictl.profiling.remote_facts import NodeFacts


@dataclass(frozen=True, slots=True)
class Road:
    """One try to connect from one host to another: within the ports of the inventory, on the run's network."""

    source: str
    target: str
    address: str  #: of the target, with its port; empty where nothing could be made to listen there
    took_s: float | None = None  #: none where it did not come through
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Examined:
    """One host. What is none was not looked at: too much was amiss before, or nobody asked."""

    host: Host
    failure: TianjiError | None = None  #: why it could not be reached, or gave no facts
    reached_s: float | None = None
    node: NodeFacts | None = None
    software: HostCheck | None = None
    software_problem: str | None = None  #: why there is no Python to ask
    folder_problem: str | None = None  #: why there can be no folder for runs
    selfcheck: SelfcheckReport | None = None
    selfcheck_problem: str | None = None  #: why the proofs could not be made, though there is a Python

    @property
    def name(self) -> str:
        return self.host.name

    @property
    def here(self) -> bool:
        """Whether it is this machine, without SSH."""
        return self.host.connection == "local"

    @property
    def facts(self) -> HostFacts:
        """Facts of a host that was looked at."""
        assert self.node is not None
        return self.node.facts


@dataclass(frozen=True, slots=True)
class Situation:
    """All hosts, the head first, and what was tried between them."""

    hosts: tuple[Examined, ...]
    inventory: str | None = None  #: its file, for commands
    env_id: str | None = None  #: of the job, if one is named
    env_problem: str | None = None  #: why it cannot be made on this machine
    roads: tuple[Road, ...] | None = None  #: by TCP; none where nobody has tried
    meetings: tuple[Road, ...] | None = None  #: of two couriers, by MPI; none where nobody has tried
    networks: Mapping[str, str | None] = field(default_factory=dict)  #: that each host would take, where known

    @property
    def there(self) -> tuple[Examined, ...]:
        """The hosts that could be looked at."""
        return tuple(each for each in self.hosts if each.node is not None)

    @property
    def head(self) -> Examined | None:
        """The first host that could be looked at."""
        return next(iter(self.there), None)

    @property
    def several(self) -> bool:
        """Whether a run would have more than one machine."""
        return len(self.hosts) > 1 and not all(each.here for each in self.hosts)

    @property
    def linked(self) -> bool:
        """Whether a run would have more than one node, with couriers between them; nodes may share a machine."""
        return len(self.hosts) > 1

    def nodes_of(self, one: Examined) -> tuple[Examined, ...]:
        """All hosts that are the same machine as `one`, itself included."""
        assert one.node is not None
        return tuple(each for each in self.there if each.node and each.node.identity == one.node.identity)

    def playbook(self, name: str, one: Examined, *words: str) -> str:
        """The command that runs a playbook on one host."""
        file = f" -i {shlex.quote(self.inventory)}" if self.inventory else ""
        limit = f" --limit {shlex.quote(one.name)}" if self.inventory else ""
        return " ".join([f"tianjictl playbook {name}{file}{limit}", *words])


def on(one: Examined, command: str) -> str:
    """A shell command to be typed where tianjictl runs, that is carried out on the host."""
    if one.here:
        return command
    from tianjictl.remote.reach import ssh_words

    words = [*ssh_words(one.host), one.host.address]
    return f"ssh {shlex.join(words)} {shlex.quote(command)}"


def setting(one: Examined, name: str, value: str) -> str:
    """What to write into the inventory for one host."""
    return f"set {name}: {value} for {one.name} in the inventory"
