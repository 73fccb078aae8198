"""The five deadlines of reaching a host, each for one phase, so that a failure can say which one passed."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self


@dataclass(frozen=True, slots=True)
class Deadlines:
    """Seconds that each phase may take. A host may use up all of them, one after the other, but none of them twice."""

    connect_s: float = 5.0  #: until the TCP connection, or the channel through a jump host, is there
    banner_s: float = 15.0  #: until the server has said who it is and keys are agreed on; slow where it looks up names
    login_s: float = 15.0  #: for each key that is tried
    channel_s: float = 10.0  #: until a command can be sent
    command_s: float = 60.0  #: for a command, where the call sets no other limit

    def with_connect(self, seconds: float | None) -> Self:
        """The same with another limit for connecting, as an inventory may set it."""
        return self if seconds is None else replace(self, connect_s=seconds)
