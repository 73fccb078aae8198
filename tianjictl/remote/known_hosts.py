"""known_hosts as OpenSSH reads it: a line that cannot be understood is passed over and told, the others still count.

Pure, except for `remember`, which adds a line under a lock.
"""

from __future__ import annotations

import base64
import binascii
import fcntl
import fnmatch
import hashlib
import hmac
import os
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

REVOKED, AUTHORITY = "@revoked", "@cert-authority"


@dataclass(frozen=True, slots=True)
class KnownKey:
    """One key of one host, and where it is written."""

    kind: str  #: `ssh-ed25519`
    blob: bytes
    place: str  #: `file:line`

    @property
    def fingerprint(self) -> str:
        return fingerprint(self.blob)


@dataclass(frozen=True, slots=True)
class Line:
    """A line that could be read: a marker or none, the patterns of hosts, a key."""

    marker: str | None
    hosts: str
    key: KnownKey


@dataclass(frozen=True, slots=True)
class Known:
    """What is known of one host. `authorities` are places of @cert-authority lines, which are not acted on."""

    keys: tuple[KnownKey, ...] = ()
    revoked: tuple[KnownKey, ...] = ()
    authorities: tuple[str, ...] = ()

    @property
    def kinds(self) -> tuple[str, ...]:
        """Types of key to ask the server for, in the order of the files."""
        return tuple(dict.fromkeys(key.kind for key in self.keys))


def fingerprint(blob: bytes) -> str:
    """`SHA256:…`, as OpenSSH prints it."""
    return "SHA256:" + base64.b64encode(hashlib.sha256(blob).digest()).decode().rstrip("=")


def parse(text: str, file: str) -> tuple[list[Line], list[str]]:
    """Every line that can be understood, and a warning with its place for every other."""
    lines: list[Line] = []
    warnings: list[str] = []
    for number, written in enumerate(text.splitlines(), start=1):
        words = written.split()
        if not words or words[0].startswith("#"):
            continue
        place = f"{file}:{number}"
        marker = words.pop(0) if words[0].startswith("@") else None
        problem = _problem(marker, words)
        if problem is not None:
            warnings.append(f"{place}: passed over: {problem}")
            continue
        lines.append(Line(marker, words[0], KnownKey(words[1], base64.b64decode(words[2]), place)))
    return lines, warnings


def read(files: Iterable[Path]) -> tuple[list[Line], list[str]]:
    """The lines of several files, in their order; a missing file is an empty one."""
    lines: list[Line] = []
    warnings: list[str] = []
    for file in files:
        try:
            text = file.read_text(encoding="utf-8", errors="replace")
        except FileNotFoundError:
            continue
        except OSError as error:
            warnings.append(f"{file}: passed over: {error.strerror}")
            continue
        more, told = parse(text, str(file))
        lines += more
        warnings += told
    return lines, warnings


def look_up(lines: Iterable[Line], host: str, port: int = 22) -> Known:
    """What is known of `host`: entries `[host]:port`, and where there are none for another port than 22, `host`."""
    lines = list(lines)
    known = _matching(lines, _name(host, port))
    if port != 22 and not known.keys:
        plain = _matching(lines, host.lower())
        known = Known(plain.keys, (*known.revoked, *plain.revoked), (*known.authorities, *plain.authorities))
    return known


def remember(file: Path, host: str, port: int, kind: str, blob: bytes) -> None:
    """Add a host's key to `file`, which is made if it is missing; whole lines only, whoever else writes to it."""
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    with open(descriptor, "r+b") as handle:  # noqa: PTH123 - the descriptor is already there
        fcntl.flock(handle, fcntl.LOCK_EX)
        before = handle.read()
        line = f"{_name(host, port)} {kind} {base64.b64encode(blob).decode()}\n".encode()
        if line not in before:
            handle.write(line if before.endswith(b"\n") or not before else b"\n" + line)


def _problem(marker: str | None, words: list[str]) -> str | None:
    if marker not in (None, REVOKED, AUTHORITY):
        return f"unknown marker {marker}"
    if len(words) < 3:
        return "not of the form: hosts, type, key"
    if words[1].isdigit():
        return "a key of SSH version 1"
    try:
        blob = base64.b64decode(words[2], validate=True)
    except binascii.Error as error:
        return f"the key is damaged ({error})"
    kind = words[1].encode()
    if blob[4 : 4 + len(kind)] != kind or int.from_bytes(blob[:4], "big") != len(kind) or len(blob) < len(kind) + 36:
        return "the key is damaged (it is not of the type that is written before it)"
    return None


def _matching(lines: list[Line], name: str) -> Known:
    found = [line for line in lines if matches(line.hosts, name)]
    return Known(
        tuple(line.key for line in found if line.marker is None),
        tuple(line.key for line in found if line.marker == REVOKED),
        tuple(line.key.place for line in found if line.marker == AUTHORITY),
    )


def matches(patterns: str, name: str) -> bool:
    """Whether a line's first word is about `name`: hashed, or patterns with `*` and `?`, of which `!` takes back."""
    if patterns.startswith("|1|"):
        return _hash_matches(patterns, name)
    hit = False
    for pattern in patterns.lower().split(","):
        denied = pattern.startswith("!")
        # fnmatch knows sets in brackets, known_hosts does not: `[host]:port` is meant literally.
        literal = re.sub(r"\[", "[[]", pattern.removeprefix("!"))
        if fnmatch.fnmatchcase(name, literal):
            if denied:
                return False
            hit = True
    return hit


def _hash_matches(word: str, name: str) -> bool:
    try:
        salt, wanted = (base64.b64decode(part, validate=True) for part in word.split("|")[2:4])
    except (binascii.Error, ValueError):
        return False
    return hmac.compare_digest(hmac.new(salt, name.encode(), hashlib.sha1).digest(), wanted)


def _name(host: str, port: int) -> str:
    return host.lower() if port == 22 else f"[{host.lower()}]:{port}"
