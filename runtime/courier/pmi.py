"""The process manager of one: what an MPI library asks of the program that started it, answered by the courier itself.

MPI programs speak PMI-1 with their launcher: who am I, how many are we, what is our world called. A courier is alone in
its world, so nobody else is needed to answer; launchers bring processes of their own that may outlive it, and some
listen on every address of the host. Worlds can only meet if they have different names, hence a random one.
"""

from __future__ import annotations

import os
import secrets
import socket
import threading
from collections.abc import Iterable

_SIZES = {"kvsname_max": "256", "keylen_max": "256", "vallen_max": "1024"}


class LonelyWorld:
    """Answers PMI-1 requests for a world of one process; keeps what that process puts."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._values: dict[str, str] = {}

    def answer(self, request: str) -> str:
        """The reply to one line, neither with its newline. What is not known is refused with rc=-1."""
        words = fields(request)
        match words.get("cmd", ""):
            case "init":
                return _reply("response_to_init", pmi_version="1", pmi_subversion="1")
            case "get_maxes":
                return _reply("maxes", **_SIZES)
            case "get_appnum":
                return _reply("appnum", appnum="0")
            case "get_universe_size":
                return _reply("universe_size", size="1")
            case "get_my_kvsname":
                return _reply("my_kvsname", kvsname=self.name)
            case "put":
                self._values[words.get("key", "")] = words.get("value", "")
                return _reply("put_result")
            case "get":
                return self._get(words.get("key", ""))
            case "barrier_in":
                return _reply("barrier_out")
            case "finalize":
                return _reply("finalize_ack")
            case other:
                return f"cmd={other}_result rc=-1 msg=not_known"

    def _get(self, key: str) -> str:
        if key in self._values:
            return _reply("get_result", value=self._values[key])
        return "cmd=get_result rc=-1 msg=key_not_found"

    def serve(self, channel: socket.socket) -> None:
        """Answer until the other end is closed."""
        with channel, channel.makefile("r", encoding="utf-8", newline="\n") as requests:
            for request in requests:
                channel.sendall(f"{self.answer(request.removesuffix(chr(10)))}\n".encode())


def fields(request: str) -> dict[str, str]:
    """`cmd=put key=a value=b c` → its parts; a value is everything to the end of the line."""
    front, mark, value = request.partition(" value=")
    made = dict(word.partition("=")[::2] for word in front.split())
    return {**made, "value": value} if mark else made


def _reply(command: str, **words: str) -> str:
    return " ".join([f"cmd={command}", "rc=0", *(f"{name}={value}" for name, value in words.items())])


def launched(environ: Iterable[str]) -> bool:
    """Whether names of variables show that a launcher has started this process and answers its PMI requests."""
    return any(name.startswith(("PMI_", "PMIX_", "PMI2_", "PALS_")) for name in environ)


def become_alone() -> None:
    """Answer this process's own requests from a thread, unless a launcher does. Call before MPI is initialised.

    The thread must be able to run while MPI initialises: that call has to be one that lets go of Python's lock.
    """
    if launched(os.environ):
        return
    ours, mpis = socket.socketpair()
    os.environ.update(PMI_FD=str(mpis.detach()), PMI_RANK="0", PMI_SIZE="1")  # that end is MPI's for good
    world = LonelyWorld(f"courier_{secrets.token_hex(16)}")
    threading.Thread(target=world.serve, args=(ours,), name="pmi", daemon=True).start()
