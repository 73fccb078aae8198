"""A script's way to a host and its answer's way back, through whatever login shell lies between.

The command asked of the server is always `exec /bin/sh -s`, which every login shell understands; the script follows on
standard input. What rc files print comes before a marker that nobody can guess, so it is told apart from the answer.
Pure: text in, text out.
"""

from __future__ import annotations

import re
import secrets
import shlex
from dataclasses import dataclass, field

from tianjictl.remote.base import Completed

SHELL = "exec /bin/sh -s"
MOST_SCRIPT = 96 << 10  #: bytes of a script with its arguments: the kernel takes 128 KiB as one argument
MOST_ANSWER = 256 << 20  #: bytes of an answer; more is a mistake, and would fill this machine's memory
KILL_AFTER_S = 1  #: seconds between TERM and KILL for what a lost connection leaves

# Everything is one compound command: the shell has read all of it before it runs the first word of it, so standard
# input is free for what comes after the script. The guard reads it to its end, which is the end of the connection.
_GUARD = """exec 3<&0
read -r _ _ _ _ tj_group _ </proc/$$/stat
( trap '' TERM HUP; while read -r _; do :; done
kill -s TERM -- "-$tj_group"; sleep {kill_after}; kill -s KILL -- "-$tj_group" ) <&3 >/dev/null 2>&1 &
tj_guard=$!
"""
_TEMPLATE = """{{
export LC_ALL=C.UTF-8
{guard}printf '\\n%s\\n' '{begin}'
printf '\\n%s\\n' '{begin}' >&2
/bin/sh -c {script} {arguments} {stdin}
tj_status=$?
printf '\\n%s %s@@\\n' '{end}' "$tj_status"
printf '\\n%s %s@@\\n' '{end}' "$tj_status" >&2
{release}exit 0
}}
"""


def new_nonce() -> str:
    """A word that no output holds by chance."""
    return secrets.token_hex(12)


def frame(script: str, args: tuple[str, ...], nonce: str, *, takes_input: bool = False) -> bytes:
    """What is written to the remote shell's standard input.

    The script runs in a shell of its own, so that a mistake in it cannot break the frame. It ends with the connection;
    with `takes_input` it reads what follows instead, and ends with that. ValueError if it is too long.
    """
    body = script.replace("\r\n", "\n").replace("\r", "\n")
    if "\0" in body or any("\0" in word for word in args):
        raise ValueError("a script cannot hold a NUL character")
    framed = _TEMPLATE.format(
        guard="" if takes_input else _GUARD.format(kill_after=KILL_AFTER_S),
        begin=_begin(nonce),
        end=_end(nonce),
        script=shlex.quote(body),
        arguments=" ".join(shlex.quote(word) for word in ("sh", *args)),
        stdin="" if takes_input else "</dev/null 3<&-",
        release="" if takes_input else 'kill -s KILL "$tj_guard" 2>/dev/null\n',
    ).encode()
    if len(framed) > MOST_SCRIPT:
        raise ValueError(f"a script of {len(framed)} bytes is too long: put it into a file first")
    return framed


class Answer:
    """Collects what comes back, piece by piece, until the frame is complete."""

    def __init__(self, nonce: str) -> None:
        self._begin = f"\n{_begin(nonce)}\n".encode()
        self._last = re.compile(rb"\n" + re.escape(_end(nonce).encode()) + rb" ([0-9]{1,3})@@\n")
        self._streams = {"out": _Stream(), "err": _Stream()}

    def feed(self, out: bytes = b"", err: bytes = b"") -> None:
        """Take what has arrived on either stream; OverflowError if it is too much to keep."""
        for name, piece in (("out", out), ("err", err)):
            stream = self._streams[name]
            begin = max(0, len(stream.data) - len(self._begin) - 8)
            stream.data += piece
            if stream.ended is None and piece:
                stream.ended = self._last.search(bytes(stream.data[begin:]))
                stream.end = begin + stream.ended.start() if stream.ended else -1
        if sum(len(stream.data) for stream in self._streams.values()) > MOST_ANSWER:
            raise OverflowError(f"more than {MOST_ANSWER >> 20} MiB of output")

    @property
    def begun(self) -> bool:
        """Whether the script is about to start, and so may be sent its input."""
        return self._begin in self._streams["out"].data

    @property
    def whole(self) -> bool:
        """Whether both streams have come to the frame's end; who still holds them then is not waited for."""
        return all(stream.ended is not None for stream in self._streams.values())

    def result(self) -> Completed | None:
        """What lies inside the frame, or none where it is not whole."""
        ended = self._streams["out"].ended
        if ended is None or not self.begun:
            return None
        out = self._streams["out"].data
        before = bytes(out[: out.find(self._begin)])
        return Completed(int(ended[1]), self._inside("out"), self._inside("err"), before)

    @property
    def outside(self) -> str:
        """What came instead of a frame, shortened to its last lines: the login shell's own words, as a rule."""
        text = b"\n".join(bytes(stream.data[-2000:]) for stream in self._streams.values()).decode("utf-8", "replace")
        return " / ".join(line.strip() for line in text.splitlines() if line.strip() and "@@TJ-" not in line)[-300:]

    def _inside(self, name: str) -> bytes:
        stream = self._streams[name]
        start = stream.data.find(self._begin)
        if start < 0:
            return b""
        return bytes(stream.data[start + len(self._begin) : stream.end if stream.ended else len(stream.data)])


@dataclass(slots=True)
class _Stream:
    data: bytearray = field(default_factory=bytearray)
    ended: re.Match[bytes] | None = None
    end: int = -1  #: where the frame's last line begins


def _begin(nonce: str) -> str:
    return f"@@TJ-{nonce}-BEGIN@@"


def _end(nonce: str) -> str:
    return f"@@TJ-{nonce}-END"
