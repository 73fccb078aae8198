"""From a look at something to a finding: timed, and never a crash."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from runtime.contract.selfcheck import SelfcheckFinding


@dataclass(frozen=True, slots=True)
class Seen:
    """What a check found out, for people; `ok` as in `SelfcheckFinding`."""

    ok: bool | None
    evidence: str
    expected: str = ""
    seen: str = ""


class NotSeenError(Exception):
    """What the check is about did not show itself; the message says why."""


Check = tuple[str, Callable[[], Seen]]  #: its name, and the look


def found(name: str, look: Callable[[], Seen], clock: Callable[[], float] = time.perf_counter) -> SelfcheckFinding:
    """Run one check. Whatever is raised becomes a failing finding that names it."""
    began = clock()
    try:
        seen = look()
    except NotSeenError as cause:
        seen = Seen(None, str(cause))
    except Exception as cause:  # a broken installation may raise anything at all, and that is the finding
        seen = Seen(False, f"the check could not be carried out: {type(cause).__name__}: {cause}")
    took_s = round(clock() - began, 4)
    return SelfcheckFinding(
        check=name, ok=seen.ok, evidence=seen.evidence, expected=seen.expected, seen=seen.seen, took_s=took_s
    )


class Deadline:
    """The end of a span of seconds that begins now."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._at = time.perf_counter() + seconds

    @property
    def over(self) -> bool:
        return time.perf_counter() >= self._at
