"""The TCP connection to a host, and what it means when it does not become an SSH session."""

from __future__ import annotations

import errno
import socket
from typing import TYPE_CHECKING

from tianjictl.remote.failures import HostFailure, Phase

if TYPE_CHECKING:
    from tianjictl.remote.deadlines import Deadlines
    from tianjictl.remote.openssh_config import SshConfig

_SILENCE_MS = 30_000  #: a peer that acknowledges nothing for so long is gone
_NOBODY_THERE = "is the host up, and no firewall between?"


def connect_tcp(config: SshConfig, limit_s: float) -> socket.socket:
    """A connection to the host's SSH port; HostFailure says what stands in the way."""
    where = f"{config.hostname} port {config.port}"
    try:
        sock = socket.create_connection((config.hostname, config.port), timeout=limit_s)
    except TimeoutError as error:
        why = f"{where} does not answer within {limit_s:g} s"
        raise HostFailure(config.host, Phase.CONNECT, why, hint=_NOBODY_THERE) from error
    except ConnectionRefusedError as error:
        hint = "is sshd running there, and is the port right?"
        raise HostFailure(config.host, Phase.CONNECT, f"{where} refuses connections", hint=hint) from error
    except socket.gaierror as error:
        hint = "write its address as ansible_host"
        raise HostFailure(config.host, Phase.CONNECT, f"the name {config.hostname} is not known", hint=hint) from error
    except OSError as error:
        nobody = error.errno in (errno.EHOSTUNREACH, errno.ENETUNREACH)
        raise HostFailure(
            config.host, Phase.CONNECT, f"{where}: {error.strerror or error}", hint=_NOBODY_THERE if nobody else None
        ) from error
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _SILENCE_MS)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # else each small request waits for an acknowledgement
    return sock


def no_session(config: SshConfig, said: str, took_s: float, deadlines: Deadlines) -> HostFailure:
    """Why there is a connection and no session: what the protocol said about it, and how long it took to say so."""
    if took_s >= deadlines.banner_s * 0.95:
        why = f"it accepts the connection and says nothing of use for {deadlines.banner_s:g} s"
        return HostFailure(config.host, Phase.BANNER, why, hint="is it an SSH server, and is it overloaded?")
    if "Indecipherable" in said or "Invalid SSH banner" in said:
        return HostFailure(config.host, Phase.BANNER, f"port {config.port} is no SSH server: {said}")
    if "Incompatible" in said:
        return HostFailure(config.host, Phase.BANNER, f"nothing in common with its SSH server: {said}")
    why = f"it closed the connection before the login ({said.strip()}); it may limit how many log in at a time"
    return HostFailure(config.host, Phase.BANNER, why, hint="see MaxStartups of its sshd", passing=True)
