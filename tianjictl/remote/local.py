"""This machine as a host: the same frames through the same shell, without a network."""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from tianjictl.remote.failures import CommandTimedOut, ConnectionLost, HostFailure, Phase
from tianjictl.remote.framing import KILL_AFTER_S, Answer, frame, new_nonce
from tianjictl.remote.shell import ShellConnection

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tianjictl.remote.base import Completed
    from tianjictl.remote.deadlines import Deadlines

_PIECE = 1 << 16


class LocalConnection(ShellConnection):
    """`ansible_connection: local`. Scripts run as the user who runs tianjictl."""

    def __init__(self, host: str, deadlines: Deadlines | None = None) -> None:
        super().__init__(host, deadlines)
        self._running: set[subprocess.Popen[bytes]] = set()
        self._closed = False

    def close(self) -> None:
        self._closed = True
        for process in list(self._running):
            with suppress(OSError):
                assert process.stdin is not None
                process.stdin.close()  # the guard's signal

    def _exchange(
        self, script: str, args: tuple[str, ...], payload: Iterator[bytes] | None, limit_s: float
    ) -> Completed:
        if self._closed:
            raise ConnectionLost(self._host, Phase.CHANNEL, "the connection is closed")
        nonce = new_nonce()
        framed = frame(script, args, nonce, takes_input=payload is not None)
        shell = subprocess.Popen(
            ["/bin/sh", "-s"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            start_new_session=True, bufsize=0,
        )  # fmt: skip
        self._running.add(shell)
        answer = Answer(nonce)
        try:
            self._converse(shell, answer, framed, payload, time.monotonic() + limit_s)
        except TimeoutError as error:
            raise CommandTimedOut(self._host, f"not done after {limit_s:g} s, and ended") from error
        except OverflowError as error:
            raise HostFailure(self._host, Phase.COMMAND, str(error), hint="write it into a file") from error
        finally:
            self._end(shell, finished=answer.whole)
        done = answer.result()
        if done is None:
            raise ConnectionLost(self._host, Phase.COMMAND, f"the shell ended early: {answer.outside or 'no output'}")
        return done

    def _converse(
        self,
        shell: subprocess.Popen[bytes],
        answer: Answer,
        framed: bytes,
        payload: Iterator[bytes] | None,
        deadline: float,
    ) -> None:
        assert shell.stdin is not None
        assert shell.stdout is not None
        assert shell.stderr is not None
        sending = _Sending(shell.stdin.fileno(), framed)
        with selectors.DefaultSelector() as waiting:
            waiting.register(shell.stdout, selectors.EVENT_READ, "out")
            waiting.register(shell.stderr, selectors.EVENT_READ, "err")
            waiting.register(shell.stdin, selectors.EVENT_WRITE, "in")
            writing, open_streams = True, 2
            while open_streams and not answer.whole:
                left = deadline - time.monotonic()
                if left <= 0:
                    raise TimeoutError
                for key, _ in waiting.select(left):
                    if key.data == "in":
                        sending.go_on()
                    else:
                        piece = os.read(key.fd, _PIECE)
                        answer.feed(**{key.data: piece})
                        if not piece:
                            waiting.unregister(key.fileobj)
                            open_streams -= 1
                if writing and sending.done:
                    waiting.unregister(shell.stdin)
                    writing = False
                if payload is not None and not writing and not shell.stdin.closed and answer.begun:
                    if sending.next(payload):
                        waiting.register(shell.stdin, selectors.EVENT_WRITE, "in")
                        writing = True
                    else:
                        shell.stdin.close()

    def _end(self, shell: subprocess.Popen[bytes], *, finished: bool) -> None:
        """Close the shell's streams, and kill its group where it has not come to its end by itself."""
        self._running.discard(shell)
        for stream in (shell.stdin, shell.stdout, shell.stderr):
            if stream is not None:
                stream.close()
        for way in () if finished else (signal.SIGTERM, signal.SIGKILL):
            with suppress(ProcessLookupError):
                os.killpg(shell.pid, way)
            with suppress(subprocess.TimeoutExpired):
                shell.wait(KILL_AFTER_S)
        shell.wait()


class _Sending:
    """What is still to be written to a pipe, without ever waiting for its reader."""

    def __init__(self, descriptor: int, first: bytes) -> None:
        os.set_blocking(descriptor, False)
        self._descriptor = descriptor
        self._rest = memoryview(first)
        self._refused = False

    @property
    def done(self) -> bool:
        return not self._rest

    def go_on(self) -> None:
        try:
            self._rest = self._rest[os.write(self._descriptor, self._rest) :]
        except BlockingIOError:
            pass  # the pipe is full: its reader is slow, and the deadline is watched elsewhere
        except BrokenPipeError:  # nobody reads any more; what they answer says why
            self._refused = True
            self._rest = memoryview(b"")

    def next(self, payload: Iterator[bytes]) -> bool:
        """Take up the next piece; false where there is none, or nobody to read it."""
        self._rest = memoryview(b"" if self._refused else next(payload, b""))
        return bool(self._rest)
