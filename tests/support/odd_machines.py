"""Recorded and composed machines of tests/fixtures/facts: what a host said, and what is true of it.

A file holds one RawFacts as YAML (JSON is YAML, so a recorded one can be saved as it is), kept short by a notation:
`{0-3}` in a path stands for four files; their text is the same, or one word each after `each:`. There and where numbers
are expected `0-3` stands for four words and `0*3` for three. Expected facts are named by dotted paths; a name after a
list is asked of every item of it.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel

from tianjictl.profiling.facts.raw import RawFacts

FOLDER = Path(__file__).parents[1] / "fixtures" / "facts"
_RANGES = re.compile(r"\{([\d,-]+)\}")


def machines() -> list[Path]:
    """All of them, by name."""
    return sorted(FOLDER.glob("*.yml"))


def read_machine(path: Path) -> tuple[RawFacts, dict[str, Any]]:
    """What the machine said, and the facts that are expected of it: dotted names and their values."""
    text = yaml.safe_load(path.read_text())
    raw = dict(text["raw"])
    raw["host"] = path.stem
    raw["files"] = {at: said for pattern, value in raw.get("files", {}).items() for at, said in _files(pattern, value)}
    if isinstance(raw.get("affinity"), str):
        raw["affinity"] = tuple(int(word) for word in _words(raw["affinity"]))
    return RawFacts.model_validate(raw), text["expect"]


def raw_of(name: str) -> RawFacts:
    """What the machine with this name said."""
    return read_machine(FOLDER / f"{name}.yml")[0]


def fact(facts: object, name: str) -> Any:
    """The value with a dotted name, as JSON has it."""
    value: Any = facts
    for part in name.split("."):
        if isinstance(value, tuple) and part.isdigit():
            value = value[int(part)]
        elif isinstance(value, tuple):
            value = tuple(getattr(item, part) for item in value)
        else:
            value = value[part] if isinstance(value, dict) else getattr(value, part)
    return _plain(value)


def expected(value: Any, found: Any) -> Any:
    """What was written as expected, numbers spelt out where a list of them was found."""
    if isinstance(value, str) and isinstance(found, list):
        return [int(word) for word in _words(value)]
    return value


def _plain(value: Any) -> Any:
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    return [_plain(item) for item in value] if isinstance(value, tuple) else value


def _files(pattern: str, value: str) -> list[tuple[str, str]]:
    match = _RANGES.search(pattern)
    text = value if value.endswith("\n") else value + "\n"
    if match is None:
        return [(pattern, text)]
    numbers = _words(match[1])
    texts = [f"{word}\n" for word in _words(value.removeprefix("each:"))] if value.startswith("each:") else None
    assert texts is None or len(texts) == len(numbers), f"{pattern}: {len(numbers)} files, {len(texts or ())} texts"
    return [(pattern.replace(match[0], number), texts[at] if texts else text) for at, number in enumerate(numbers)]


def _words(text: str) -> list[str]:
    """Words between blanks or commas, with `0-3` and `0*3` spelt out."""
    found: list[str] = []
    for word in text.replace(",", " ").split():
        if ranged := re.fullmatch(r"(\d+)-(\d+)", word):
            found += [str(number) for number in range(int(ranged[1]), int(ranged[2]) + 1)]
        elif repeated := re.fullmatch(r"(.+)\*(\d+)", word):
            found += [repeated[1]] * int(repeated[2])
        else:
            found.append(word)
    return found
