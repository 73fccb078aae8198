"""The hosts on the way to a host: ProxyJump, over as many of them as it takes. Pure: configurations in, a list out."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from tianjictl.remote.failures import HostFailure, Phase

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tianjictl.remote.openssh_config import SshConfig

MOST_HOPS = 8
_HOP = re.compile(r"(?:ssh://)?(?:(?P<user>[^@]+)@)?(?:\[(?P<six>[^\]]+)\]|(?P<name>[^:\[\]]+))(?::(?P<port>\d+))?/?")


class Jump(NamedTuple):
    """One entry of a ProxyJump list."""

    host: str
    user: str | None
    port: int | None

    @property
    def words(self) -> tuple[str, ...]:
        """The same as options of `ssh`."""
        port = ("-p", str(self.port)) if self.port else ()
        return (*port, *(("-l", self.user) if self.user else ()))


def parse_jumps(value: str) -> list[Jump]:
    """`ann@b1:2222,b2` as entries; ValueError names the one that is none."""
    jumps = []
    for entry in value.split(","):
        match = _HOP.fullmatch(entry.strip())
        if match is None:
            raise ValueError(f"'{entry.strip()}' is not of the form user@host:port")
        port = match["port"]
        jumps.append(Jump(match["six"] or match["name"], match["user"], int(port) if port else None))
    return jumps


def way_to(host: str, words: Sequence[str], resolve: Callable[[str, Sequence[str]], SshConfig]) -> list[SshConfig]:
    """The configurations of every host on the way, the host itself last.

    As in OpenSSH: of a list of jumps the first one may have jumps of its own in its configuration; those after it are
    reached from the one before, whatever their own configuration says. HostFailure where the way turns in a circle.
    """
    way = [resolve(host, words)]
    carried = _carried(words)
    while (jumps := way[0].proxy_jump) is not None:
        if way[0].proxy_command is not None:
            break
        try:
            entries = parse_jumps(jumps)
        except ValueError as error:
            raise HostFailure(host, Phase.CONFIGURATION, f"ProxyJump of {way[0].host}: {error}") from error
        before = [resolve(jump.host, (*carried, *jump.words)) for jump in entries]
        if len(before) == 1 and (before[0].hostname, before[0].port) == (way[0].hostname, way[0].port):
            break  # `Host *` with a ProxyJump is about the jump host too; nobody jumps over himself
        seen = {(hop.hostname, hop.port) for hop in way}
        for hop in before:
            if (hop.hostname, hop.port) in seen:
                told = " > ".join(each.host for each in (*before, *way))
                raise HostFailure(host, Phase.CONFIGURATION, f"ProxyJump leads in a circle: {told}")
        way = [*before, *way]
        if len(way) > MOST_HOPS:
            raise HostFailure(host, Phase.CONFIGURATION, f"ProxyJump leads over more than {MOST_HOPS} hosts")
    return way


def _carried(words: Sequence[str]) -> tuple[str, ...]:
    """Options that hold for the jumps too: the configuration file, as OpenSSH hands it on."""
    pairs = pairwise(words)
    return tuple(word for option, value in pairs if option == "-F" for word in (option, value))
