"""MPI hostfiles: Open MPI's `host slots=4 max_slots=8`, MPICH's (Hydra's) and Intel's `host:4`, and both in one file.

What names hosts by exclusion or by number (`^host`,
`+n0`) has a meaning inside an allocation only and is refused.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from runtime.contract.yaml_source import Place, Problem
from tianjictl.errors import UsageProblem
from tianjictl.hosts.importing.found import Found, all_or_problem, named

if TYPE_CHECKING:
    from collections.abc import Iterator

_COUNT = re.compile(r"[1-9][0-9]{0,6}")
_BRACKETED = re.compile(r"(?P<name>\[[^\[\]]*\])(?::(?P<count>.*))?")
_PLAIN = re.compile(r"(?P<name>[^:]*)(?::(?P<count>.*))?")
_PASSED_OVER = ("binding", "ifhn")  #: of MPICH: how ranks are bound, which address is used; a plan says that itself


@dataclass(slots=True)
class _Line:
    """What one line says."""

    name: str
    place: Place
    user: str | None = None
    port: int | None = None
    slots: int | None = None
    most: int | None = None
    times: int = 1  #: lines of this host that say nothing of slots
    kind: str = "bare"  #: whether its slots are said as `slots=`, as a `count` after the name, or not at all


class _WrongError(ValueError):
    """What is wrong with a word; the text is complete except for its place."""


def hostfile_hosts(text: str, file: str) -> list[Found]:
    """The hosts of a hostfile, in its order; slots become tianji_max_cores. UsageProblem lists every bad line."""
    lines: dict[str, _Line] = {}
    found: list[Found | Problem] = []
    for number, content in _contents(text):
        try:
            line = _line(content, Place(file, number, 1))
            if line.name in lines:
                _add(lines[line.name], line)
            else:
                lines[line.name] = line
        except _WrongError as wrong:
            found.append(Place(file, number, 1).problem(str(wrong)))
    found += [named(line.name, line.place, **_variables(line)) for line in lines.values()]
    if not found:
        raise UsageProblem(f"{file}: names no hosts", hint="a line of a hostfile is `host slots=4`, or `host:4`")
    return all_or_problem(found)


def _contents(text: str) -> Iterator[tuple[int, str]]:
    for number, line in enumerate(text.removeprefix("\ufeff").splitlines(), start=1):
        content = re.sub(r"(^|\s)#.*", "", line).strip()
        if content:
            yield number, content


def _line(content: str, place: Place) -> _Line:
    # Blanks may stand around '=': Open MPI's reader splits there too.
    address, *words = re.sub(r"\s*=\s*", "=", content).split()
    user, at, address = address.rpartition("@")
    if at and not user:
        raise _WrongError(f"'@{address}' has no user before the '@'")
    if address.startswith(("^", "+")):
        raise _WrongError(f"'{address}' says which hosts of an allocation to take: name the hosts themselves")
    line = _named(address, place, spoken=bool(words))
    line.user = user or None
    for word in words:
        _setting(line, word)
    if line.slots is not None and line.most is not None and line.slots > line.most:
        raise _WrongError(f"slots={line.slots} is more than max_slots={line.most}")
    return line


def _named(address: str, place: Place, *, spoken: bool) -> _Line:
    if address.count(":") > 1 and not address.startswith("["):
        if spoken:
            return _Line(f"[{address}]", place)  # what follows says that this is all of the address
        raise _WrongError(f"'{address}' may end in an address or in a count: write [{address}], or [address]:count")
    match = (_BRACKETED if address.startswith("[") else _PLAIN).fullmatch(address)
    if match is None or not match["name"]:
        raise _WrongError(f"'{address}' names no host")
    line = _Line(match["name"], place)
    if match["count"] is not None:
        line.kind = "count"
        line.slots = _count(match["count"].partition(":")[0], address)  # a third part names a network card
    return line


def _setting(line: _Line, word: str) -> None:
    key, equals, value = word.partition("=")
    key = key.lower().replace("-", "_")
    if not equals:
        raise _WrongError(f"'{word}' is not understood")
    if key in ("slots", "cpu", "count"):
        line.kind, line.slots = "slots", _count(value, word)
    elif key in ("max_slots", "cpus_max", "count_max", "slots_max"):
        line.most = _count(value, word)
    elif key in ("user", "username", "user_name"):
        line.user = value
    elif key == "port":
        line.port = _count(value, word)
    elif key not in _PASSED_OVER:
        raise _WrongError(f"'{key}' is not understood: slots, max_slots, user and port are")


def _count(text: str, word: str) -> int:
    if not _COUNT.fullmatch(text):
        raise _WrongError(f"'{word}' must hold a number of at least 1")
    return int(text)


def _add(first: _Line, more: _Line) -> None:
    """Another line of the same host: a bare one is one more slot; MPICH's counts add up, Open MPI has slots= once."""
    before = f"line {first.place.line}"
    if (first.user, first.port) != (more.user, more.port):
        raise _WrongError(f"host {more.name} is reached otherwise than at {before}")
    if first.kind != more.kind or more.kind == "slots":
        raise _WrongError(f"host {more.name} has slots given at {before} already")
    if more.kind == "bare":
        first.times += 1
    else:
        first.slots = (first.slots or 0) + (more.slots or 0)


def _variables(line: _Line) -> dict[str, str | int]:
    cores = line.slots or line.most or (line.times if line.times > 1 else None)
    told = {"ansible_user": line.user, "ansible_port": line.port, "tianji_max_cores": cores}
    return {key: value for key, value in told.items() if value is not None}
