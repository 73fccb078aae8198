"""What an inventory says, as types: hosts with the settings that tianjictl honours, and where each came from."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tianjictl.hosts.local import LOCALHOST

if TYPE_CHECKING:
    from collections.abc import Mapping

    from runtime.contract.yaml_source import Place, Problem


@dataclass(frozen=True, slots=True)
class Setting:
    """One value of one host: as written, and where it was written."""

    value: Any
    owner: str  #: `host cn01`, or `group actors`
    place: Place

    @property
    def origin(self) -> str:
        """Where the value came from, in words: `group actors, cluster.yaml:12:7`."""
        where = self.place.file if self.place.line is None else f"{self.place.file}:{self.place.line}"
        return f"{self.owner}, {where}"


@dataclass(frozen=True, slots=True)
class Host:
    """One host. `name` is its identity in plans and runs; `address` only says how to reach it."""

    name: str
    address: str  #: what SSH is asked for; the name where the inventory gives no ansible_host
    connection: str = "ssh"  #: `ssh` or `local`
    port: int | None = None  #: none where SSH's own configuration decides
    user: str | None = None
    key_file: str | None = None
    ssh_words: tuple[str, ...] = ()  #: options for `ssh`, already split: ("-o", "ProxyJump=bastion")
    connect_timeout_s: float | None = None
    host_keys: str = "strict"  #: `strict` or `accept-new`
    python: str | None = None  #: interpreter on the host; none where it is looked for
    network: str | None = None  #: CIDR of the network that training data takes
    max_cores: int | None = None
    reserve_cores: int = 0
    roles: tuple[str, ...] = ()  #: what may run there; empty means anything
    workdir: str | None = None  #: folder on the host for runs; none means the host's own default
    link: str = "lan"  #: `lan` or `wan`
    ports: tuple[int, int] | None = None  #: first and last TCP port that a run may listen on; none: any
    mpiexec: str | None = None  #: starts couriers on the host; none where it is looked for
    mpi_abi: str | None = None  #: MPI library that mpi4py loads in place of its own, as MPI4PY_MPIABI names it
    labels: tuple[str, ...] = ()  #: words of the site's own, shown and otherwise left alone
    groups: tuple[str, ...] = ()
    variables: Mapping[str, Any] = field(default_factory=dict)  #: every variable of the host as written
    settings: Mapping[str, Setting] = field(default_factory=dict)  #: the same with their origins


@dataclass(frozen=True, slots=True)
class Inventory:
    """The hosts of a file in the order in which they first appear, and what is odd but allowed."""

    file: str | None
    hosts: tuple[Host, ...]
    groups: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  #: group → its hosts, also by way of children
    notes: tuple[Problem, ...] = ()

    def find(self, name: str) -> Host | None:
        """The host of this name, or none."""
        return next((host for host in self.hosts if host.name == name), None)


def this_machine() -> Inventory:
    """The inventory where none is given: this machine, without SSH."""
    host = Host(LOCALHOST, LOCALHOST, connection="local", groups=("all", "ungrouped"))
    return Inventory(None, (host,), {"all": (LOCALHOST,), "ungrouped": (LOCALHOST,)})
