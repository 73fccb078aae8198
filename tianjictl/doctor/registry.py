"""Every check, in the order in which they are read: what the others rest on comes first."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tianjictl.doctor.checks import access, devices, limits, memory, networks, processors, software, storage
from tianjictl.doctor.checks.learning import PREFIX

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tianjictl.doctor.finding import Check

CHECKS: tuple[Check, ...] = (
    *access.CHECKS,
    *storage.CHECKS,
    *software.CHECKS,
    *processors.CHECKS,
    *memory.CHECKS,
    *limits.CHECKS,
    *networks.CHECKS,
    *devices.CHECKS,
)
REACH = "ssh.reach"


def chosen(words: Sequence[str]) -> frozenset[str]:
    """Ids that `--only` names: whole ones, or a theme such as `cpu`. ValueError holds a word that is neither."""
    known = [check.id for check in CHECKS]
    found: set[str] = set()
    for word in words:
        if word.startswith(PREFIX) or word == PREFIX.removesuffix("."):
            found.add(word)
            continue
        matching = {check for check in known if check == word or check.startswith(f"{word}.")}
        if not matching:
            raise ValueError(word)
        found |= matching
    return frozenset(found)


def facts_suffice(only: frozenset[str]) -> bool:
    """Whether facts alone decide all that is asked for."""
    return bool(only) and only <= {check.id for check in CHECKS if check.quick}


def wanted_at_all(only: frozenset[str], theme: str) -> bool:
    """Whether any row of a theme is asked for; `theme` with its dot."""
    return not only or any(f"{word}.".startswith(theme) for word in only)


def wanted(check: str, only: frozenset[str]) -> bool:
    """Whether a row is asked for; an empty choice asks for all."""
    theme = PREFIX.removesuffix(".")
    return not only or check in only or (check.startswith(PREFIX) and theme in only)
