"""Host names with ranges, `cn[01:10].lab`, as Ansible writes them: both ends included."""

from __future__ import annotations

import itertools
import re
import string

MOST_HOSTS = 20_000  #: of one name; more is a slip of the keyboard
_RANGE = re.compile(r"\[([^\[\]]*)\]")
_PORT = re.compile(r"(?P<name>.+):(?P<port>[0-9]+)")


class RangeError(ValueError):
    """Why a name cannot be expanded; the text is complete except for the place."""


def split_port(pattern: str) -> tuple[str, int | None]:
    """`cn[1:3]:2222` → (`cn[1:3]`, 2222): a port after the name; a colon inside brackets belongs to a range."""
    match = _PORT.fullmatch(pattern)
    if match is None or match["name"].count("[") != match["name"].count("]") or ":" in _RANGE.sub("", match["name"]):
        return pattern, None
    return match["name"], int(match["port"])


def expand(pattern: str) -> list[str]:
    """Every name that `pattern` stands for, in order; a name without a range stands for itself."""
    if not ("[" in pattern or "]" in pattern):
        return [pattern]
    plain = _RANGE.sub("", pattern)
    if "[" in plain or "]" in plain:
        raise RangeError(f"'{pattern}' has a bracket without its partner")
    parts = _RANGE.split(pattern)  # text, range, text, range, …, text
    choices: list[list[str]] = []
    total = 1
    for index, part in enumerate(parts):
        names = _members(part, pattern) if index % 2 else [part]
        total *= len(names)
        if total > MOST_HOSTS:
            raise RangeError(f"'{pattern}' stands for more than {MOST_HOSTS:,} hosts")
        choices.append(names)
    return ["".join(chosen) for chosen in itertools.product(*choices)]


def _members(text: str, pattern: str) -> list[str]:
    bounds = text.split(":")
    if len(bounds) not in (2, 3):
        hint = "write [01:10]; '-' and ',' are for host lists on the command line"
        raise RangeError(f"range [{text}] of '{pattern}' is not begin:end or begin:end:step: {hint}")
    begin, end = bounds[0] or "0", bounds[1]
    step_text = bounds[2] if len(bounds) == 3 else "1"
    if not end:
        raise RangeError(f"range [{text}] of '{pattern}' has no end")
    if not re.fullmatch(r"[0-9]{1,6}", step_text) or int(step_text) == 0:
        raise RangeError(f"range [{text}] of '{pattern}': the step must be a whole number of at least 1")
    step = int(step_text)
    if re.fullmatch(r"[0-9]{1,9}", begin) and re.fullmatch(r"[0-9]{1,9}", end):
        return _numbers(begin, end, step, text, pattern)
    return _letters(begin, end, step, text, pattern)


def _numbers(begin: str, end: str, step: int, text: str, pattern: str) -> list[str]:
    width = 0
    if len(begin) > 1 and begin.startswith("0"):
        width = len(begin)
        if len(end) != width:
            raise RangeError(f"range [{text}] of '{pattern}': with leading zeros both ends must be equally long")
    first, last = int(begin), int(end)
    if first > last:
        raise RangeError(f"range [{text}] of '{pattern}' runs backwards")
    if (last - first) // step >= MOST_HOSTS:
        raise RangeError(f"'{pattern}' stands for more than {MOST_HOSTS:,} hosts")
    return [str(number).zfill(width) for number in range(first, last + 1, step)]


def _letters(begin: str, end: str, step: int, text: str, pattern: str) -> list[str]:
    for alphabet in (string.ascii_lowercase, string.ascii_uppercase):
        if len(begin) == len(end) == 1 and begin in alphabet and end in alphabet:
            if begin > end:
                raise RangeError(f"range [{text}] of '{pattern}' runs backwards")
            return list(alphabet[alphabet.index(begin) : alphabet.index(end) + 1 : step])
    raise RangeError(f"range [{text}] of '{pattern}': both ends must be numbers, or single letters of one case")
