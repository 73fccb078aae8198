"""How a host can fail to answer: every failure names the host, the phase, why, and what to do about it."""

# ruff: noqa: N818 - outcomes, as in tianjictl.errors

from __future__ import annotations

from enum import StrEnum

from tianjictl.errors import TianjiError, TimedOut, Unreachable


class Phase(StrEnum):
    """How far it came."""

    CONFIGURATION = "configuration"
    CONNECT = "connect"
    BANNER = "banner"
    HOST_KEY = "host key"
    LOGIN = "login"
    CHANNEL = "channel"
    COMMAND = "command"
    FILE = "file"


class HostFailure(Unreachable):
    """The host, or a host on the way to it, cannot be used. `passing` says whether another try may well succeed."""

    usual_hint = "ssh -v to the host by hand shows more"

    def __init__(self, host: str, phase: Phase, why: str, *, hint: str | None = None, passing: bool = False) -> None:
        super().__init__(f"{host}: {phase}: {why}", hint=hint)
        self.host = host
        self.phase = phase
        self.why = why
        self.passing = passing

    def of(self, host: str, hop: str | None = None) -> HostFailure:
        """The same failure as one of `host`, by its name in the inventory, met at `hop` on the way there."""
        why = f"{hop}: {self.why}" if hop else self.why
        return type(self)(host, self.phase, why, hint=self.hint, passing=self.passing)


class HostKeyRefused(HostFailure):
    """The host's key is unknown, changed, revoked, or of another kind than the one that is known."""


class LoginRefused(HostFailure):
    """The host takes none of the keys that were offered."""


class ConnectionLost(HostFailure):
    """The connection was there and is gone."""


class CommandTimedOut(TimedOut):
    """A command did not end in time; it has been told to end, with all its process group."""

    def __init__(self, host: str, why: str, *, phase: Phase = Phase.COMMAND, hint: str | None = None) -> None:
        super().__init__(f"{host}: {phase}: {why}", hint=hint)
        self.host = host
        self.phase = phase
        self.why = why


class RemoteFileProblem(TianjiError):
    """A file on a host cannot be read or written."""

    def __init__(self, host: str, path: str, why: str) -> None:
        super().__init__(f"{host}: {Phase.FILE}: {path}: {why}")
        self.host = host
        self.phase = Phase.FILE
        self.why = why
