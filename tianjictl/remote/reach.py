"""From a host of the inventory to a connection: local or over SSH, as the inventory and SSH's configuration say."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tianjictl.remote.deadlines import Deadlines
from tianjictl.remote.failures import HostFailure
from tianjictl.remote.host_keys import Policy
from tianjictl.remote.jump import way_to
from tianjictl.remote.local import LocalConnection
from tianjictl.remote.openssh_config import SshConfig, resolve

if TYPE_CHECKING:
    from collections.abc import Callable

    from tianjictl.hosts.types import Host
    from tianjictl.remote.base import Connection
    from tianjictl.remote.host_keys import NewKey


def reach(
    host: Host, *, deadlines: Deadlines | None = None, note: Callable[[str], None] = lambda _text: None
) -> Connection:
    """An open connection to `host`; HostFailure says how far it came. `note` hears what a person should know."""
    limits = (deadlines or Deadlines()).with_connect(host.connect_timeout_s)
    if host.connection == "local":
        return LocalConnection(host.name, limits)
    way = ssh_way(host)
    from tianjictl.remote.ssh import connect

    return connect(host.name, way, deadlines=limits, policy=Policy(host.host_keys), note=note)


def first_unknown_key(
    host: Host, *, deadlines: Deadlines | None = None, note: Callable[[str], None] = lambda _text: None
) -> NewKey | None:
    """The first key on the way to `host` that known_hosts does not have; none where all are known.

    HostFailure where it cannot be asked, or shows another key than the one that is known.
    """
    way = ssh_way(host)
    from tianjictl.remote.ssh import unknown_key

    limits = (deadlines or Deadlines()).with_connect(host.connect_timeout_s)
    return unknown_key(host.name, way, deadlines=limits, note=note)


def ssh_way(host: Host) -> list[SshConfig]:
    """Configurations of every host on the way to `host`, itself last."""
    try:
        return way_to(host.address, ssh_words(host), resolve)
    except HostFailure as failure:
        raise failure.of(host.name) from failure


def ssh_words(host: Host) -> tuple[str, ...]:
    """What the inventory says of a host, as options of `ssh`; the first of two that contradict each other wins."""
    said = (("-p", host.port), ("-l", host.user), ("-i", host.key_file))
    return (*(word for option, value in said if value is not None for word in (option, str(value))), *host.ssh_words)


def bastion(host: Host) -> str | None:
    """The first host on the way, where there is one between: what limits how many log in at a time."""
    if host.connection == "local":
        return None
    way = ssh_way(host)
    return f"{way[0].hostname}:{way[0].port}" if len(way) > 1 else None


def lane(host: Host) -> str | None:
    """The same for fan-out; a configuration that cannot be read is no lane: reaching the host says what is wrong."""
    try:
        return bastion(host)
    except HostFailure:
        return None
