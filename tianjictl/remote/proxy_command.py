"""ProxyCommand: a program of the user's whose standard input and output are the way to the host's SSH port."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import tempfile
import threading
from contextlib import suppress
from typing import IO, TYPE_CHECKING

from tianjictl.remote.failures import HostFailure, Phase

if TYPE_CHECKING:
    from tianjictl.remote.openssh_config import SshConfig

_LEAVES_WITHIN_S = 0.2  #: after its input has ended, before TERM
_ENDS_WITHIN_S = 1.0  #: between TERM and KILL


class ProxySocket(socket.socket):
    """A socket whose other end is the program; closing it ends the program, with all that it has started."""

    def __init__(self, descriptor: int, program: subprocess.Popen[bytes], command: str, complaints: IO[bytes]) -> None:
        super().__init__(fileno=descriptor)
        self._program = program
        self._command = command
        self._complaints = complaints
        self._alone = False  #: it has ended by itself
        self._last_words = ""
        self._ending = threading.Lock()  # the SSH library closes sockets in a thread of its own

    def explained(self, failure: HostFailure) -> HostFailure:
        """Why there is no SSH session over this socket: the program's own end, where it has come to one."""
        self.close()
        if failure.phase is not Phase.BANNER or not self._alone:
            return failure
        said = f": {self._last_words}" if self._last_words else ""
        why = f"its ProxyCommand has ended with status {self._program.returncode}{said}"
        return HostFailure(failure.host, Phase.CONNECT, why, hint=f"run it by hand: {self._command}")

    def close(self) -> None:
        with self._ending:
            if self._complaints.closed:
                return
            self._alone = self._is_over()
            super().close()
            self._end()
            self._complaints.seek(0)
            lines = self._complaints.read().decode("utf-8", "replace").strip().splitlines()
            self._last_words = lines[-1][-300:] if lines else ""
            self._complaints.close()

    def _is_over(self) -> bool:
        """Whether the program has closed its output, and so is at its end."""
        try:
            return self.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT) == b""
        except OSError:
            return self._program.poll() is not None

    def _end(self) -> None:
        with suppress(subprocess.TimeoutExpired):
            self._program.wait(_LEAVES_WITHIN_S)
        for way in (signal.SIGTERM, signal.SIGKILL):
            with suppress(ProcessLookupError):
                os.killpg(self._program.pid, way)
            with suppress(subprocess.TimeoutExpired):
                self._program.wait(_ENDS_WITHIN_S)
                return


def expanded(config: SshConfig) -> str:
    """The command with its tokens replaced, as OpenSSH does for ProxyCommand: %h, %n, %p, %r and %%."""
    tokens = {"%": "%", "h": config.hostname, "n": config.host, "p": str(config.port), "r": config.user}
    return re.sub(r"%([%hnpr])", lambda match: tokens[match[1]], config.proxy_command or "")


def connect_by_command(config: SshConfig) -> ProxySocket:
    """Start the program. It runs in a session of its own, so that Ctrl-C here does not reach it by itself."""
    ours, theirs = socket.socketpair()
    complaints = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the socket
    command = expanded(config)
    try:
        program = subprocess.Popen(
            ["/bin/sh", "-c", f"exec {command}"],
            stdin=theirs.fileno(),
            stdout=theirs.fileno(),
            stderr=complaints,
            start_new_session=True,
        )
    except OSError as error:
        ours.close()
        complaints.close()
        raise HostFailure(config.host, Phase.CONNECT, f"its ProxyCommand cannot be started: {error}") from error
    finally:
        theirs.close()
    return ProxySocket(ours.detach(), program, command, complaints)
