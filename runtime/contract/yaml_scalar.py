"""What an unquoted word in a YAML file means here, and which words are refused because readers disagree on them."""

from __future__ import annotations

import re
from typing import NamedTuple

_BOOLEANS = {"true": True, "false": False}
_NULLS = frozenset({"", "~", "null", "Null", "NULL"})
_YAML_1_1_BOOLEAN = re.compile(r"yes|Yes|YES|no|No|NO|on|On|ON|off|Off|OFF")
_INTEGER = re.compile(r"[-+]?(?:0|[1-9][0-9]*(?:_[0-9]+)*)")
_LEADING_ZERO = re.compile(r"[-+]?0[0-9_]+")
_OTHER_BASE = re.compile(r"[-+]?0[xXoObB][0-9a-fA-F_]+")
_FLOAT = re.compile(r"[-+]?(?:[0-9]+(?:_[0-9]+)*\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?")
_NOT_FINITE = re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")
_SEXAGESIMAL = re.compile(r"[-+]?[0-9][0-9_]*(?::[0-5]?[0-9])+(?:\.[0-9_]*)?")
_TIMESTAMP = re.compile(r"[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}(?:(?:[Tt]|[ \t]+).*)?")
_MOST_DIGITS = 30  #: more is a slip of the keyboard, and Python refuses to convert thousands of digits


class Refusal(NamedTuple):
    """Why a word has no safe meaning, and what to write instead."""

    message: str
    hint: str


def plain_value(word: str) -> bool | int | float | str | Refusal | None:
    """The value of an unquoted scalar: null, true/false, a decimal number, or the text itself.

    Numbers follow YAML 1.2 (`1e-3` and `3e5` are numbers), `2_000_000` is read as Python reads it. What YAML 1.1
    would silently turn into something else (`no`, `0755`, `22:22`, a date) gives a Refusal.
    """
    if word in _NULLS:
        return None
    if word.lower() in _BOOLEANS and word in (word.lower(), word.title(), word.upper()):
        return _BOOLEANS[word.lower()]
    refusal = _refusal(word)
    if refusal is not None:
        return refusal
    if _INTEGER.fullmatch(word):
        return int(word.replace("_", ""))
    if _FLOAT.fullmatch(word):
        number = float(word.replace("_", ""))
        return number if number not in (float("inf"), float("-inf")) else Refusal(f"{word} is too large", "shorten it")
    return word


def _refusal(word: str) -> Refusal | None:
    quoted = f'"{word}"'
    if _YAML_1_1_BOOLEAN.fullmatch(word):
        meaning = "true" if word.lower() in ("yes", "on") else "false"
        return Refusal(f"'{word}' means {meaning} to some YAML readers", f"write {meaning}, or quote it: {quoted}")
    if _LEADING_ZERO.fullmatch(word):
        return Refusal(
            f"'{word}' is an octal number to some YAML readers", f"drop the leading zero, or quote it: {quoted}"
        )
    if _OTHER_BASE.fullmatch(word):
        return Refusal(f"'{word}' is a number to some YAML readers", f"write it in decimal, or quote it: {quoted}")
    if _SEXAGESIMAL.fullmatch(word):
        return Refusal(f"'{word}' is a base-60 number to some YAML readers", f"quote it: {quoted}")
    if _TIMESTAMP.fullmatch(word):
        return Refusal(f"'{word}' is a date to some YAML readers", f"quote it: {quoted}")
    if _NOT_FINITE.fullmatch(word):
        return Refusal(f"'{word}' is not a finite number", f"write a number, or quote it: {quoted}")
    if sum(c.isdigit() for c in word) > _MOST_DIGITS and (_INTEGER.fullmatch(word) or _FLOAT.fullmatch(word)):
        return Refusal(f"a number of {len(word)} characters", "shorten it, or quote it")
    return None
