"""Slurm's way to write many hosts, `cn[01-04,07],gpu1`, and its counts of CPUs, `36(x2),20`.

What is read is what `scontrol show hostnames` reads, and text behind a bracket, which other tools of this kind take
too. Where Slurm guesses (a bracket without its partner, a range without an end, a name without a number), this
refuses: a host too few goes unnoticed.
"""

from __future__ import annotations

import itertools
import re

from runtime.contract.yaml_source import Place, Problem
from tianjictl.errors import UsageProblem
from tianjictl.hosts.importing.found import Found, all_or_problem, named
from tianjictl.hosts.ranges import MOST_HOSTS

_ITEM = re.compile(r"(?:[^\[\],\s]|\[[^\[\]]*\])+")  # a name with any number of closed brackets
_BETWEEN = re.compile(r",(?![^\[]*\])")  # a comma outside brackets
_BRACKET = re.compile(r"\[([^\[\]]*)\]")
_RANGE = re.compile(r"([0-9]{1,18})(?:-([0-9]{1,18}))?")
_COUNT = re.compile(r"([1-9][0-9]{0,6})(?:\(x([1-9][0-9]{0,6})\))?")
_EXAMPLE = "write it as in cn[01-04,07],gpu1"


class ListError(ValueError):
    """Why a list cannot be read; the text is complete."""


def slurm_hosts(text: str, source: str, cpus: str | None = None) -> list[Found]:
    """The hosts of a list; `cpus` (SLURM_JOB_CPUS_PER_NODE) gives each of them its tianji_max_cores.

    UsageProblem begins with `source`, the option or variable that the list came from.
    """
    try:
        names = hostnames(text)
        counts = cpu_counts(cpus) if cpus else []
    except ListError as error:
        raise UsageProblem(f"{source}: {error}", hint=_EXAMPLE) from error
    if counts and len(counts) != len(names):
        raise UsageProblem(
            f"{source} names {len(names)} hosts, but SLURM_JOB_CPUS_PER_NODE={cpus} counts the CPUs of {len(counts)}",
            hint="both come from one job: unset the one that is not of this job",
        )
    place = Place(source)
    found: list[Found | Problem] = []
    for index, name in enumerate(names):
        limit = {"tianji_max_cores": counts[index]} if counts else {}
        found.append(named(name, place, **limit))
    return all_or_problem(found)


def hostnames(text: str) -> list[str]:
    """Every name of the list, in its order, parted by commas or blanks; a range keeps the width of its first number."""
    if not text.strip():
        raise ListError("names no hosts")
    names: list[str] = []
    for part in _BETWEEN.split(text):
        if not part.strip():
            raise ListError(f"there is nothing between two commas, or at an end, of '{text}'")
        for item in part.split():
            if not _ITEM.fullmatch(item):
                raise ListError(f"'{item}' has a bracket without its partner, or one within another")
            names += _expand(item)
        if len(names) > MOST_HOSTS:
            raise ListError(f"names more than {MOST_HOSTS:,} hosts")
    return names


def cpu_counts(text: str) -> list[int]:
    """CPUs of each node, `36(x2),20` → 36, 36, 20: hardware threads where the machine has them switched on."""
    counts: list[int] = []
    for part in text.strip().split(","):
        match = _COUNT.fullmatch(part)
        times = int(match[2] or 1) if match else 0
        if match is None or len(counts) + times > MOST_HOSTS:
            raise ListError(f"'{part}' of SLURM_JOB_CPUS_PER_NODE={text} is no count of CPUs such as 36 or 36(x2)")
        counts += [int(match[1])] * times
    return counts


def _expand(item: str) -> list[str]:
    parts = _BRACKET.split(item)  # text, ranges, text, ranges, …, text
    choices = [_numbers(part, item) if index % 2 else [part] for index, part in enumerate(parts)]
    total = 1
    for choice in choices:
        total *= len(choice)
    if total > MOST_HOSTS:
        raise ListError(f"'{item}' stands for more than {MOST_HOSTS:,} hosts")
    return ["".join(chosen) for chosen in itertools.product(*choices)]


def _numbers(ranges: str, item: str) -> list[str]:
    numbers: list[str] = []
    for part in ranges.split(","):
        match = _RANGE.fullmatch(part)
        if match is None:
            raise ListError(f"'{part}' in '{item}' is neither a number nor a range such as 01-04")
        first, last = match[1], match[2] or match[1]
        if int(last) < int(first):
            raise ListError(f"range {part} of '{item}' runs backwards")
        if int(last) - int(first) >= MOST_HOSTS:
            raise ListError(f"'{item}' stands for more than {MOST_HOSTS:,} hosts")
        numbers += [str(number).zfill(len(first)) for number in range(int(first), int(last) + 1)]
    return numbers
