"""What a check comes to: how bad it is, what was seen, why that matters, and the command that mends it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tianjictl.doctor.situation import Examined, Situation


class Severity(StrEnum):
    """`fail` breaks a run, `warn` slows it or makes it fragile without a word, `info` is worth knowing."""

    OK = "ok"
    INFO = "info"
    WARN = "warn"
    FAIL = "fail"
    SKIP = "skip"  #: could not be looked at, or does not apply here; the evidence says which


@dataclass(frozen=True, slots=True)
class Verdict:
    """One check of one host. A warning or failure names what mends it, as a command where there is one."""

    severity: Severity
    evidence: str
    mend: str | None = None

    def __post_init__(self) -> None:
        if self.severity in (Severity.WARN, Severity.FAIL) and not self.mend:
            raise ValueError(f"nothing is said to mend: {self.evidence}")


def ok(evidence: str) -> Verdict:
    """All is well."""
    return Verdict(Severity.OK, evidence)


def info(evidence: str, mend: str | None = None) -> Verdict:
    """Worth knowing."""
    return Verdict(Severity.INFO, evidence, mend)


def warn(evidence: str, mend: str) -> Verdict:
    """Slows a run, or makes it fragile, without a word."""
    return Verdict(Severity.WARN, evidence, mend)


def fail(evidence: str, mend: str) -> Verdict:
    """Breaks a run."""
    return Verdict(Severity.FAIL, evidence, mend)


def skip(evidence: str) -> Verdict:
    """Not looked at, or not of interest here."""
    return Verdict(Severity.SKIP, evidence)


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that is looked at on every host. `judge` decides by facts alone."""

    id: str
    why: str  #: what goes wrong where it fails
    judge: Callable[[Examined, Situation], Verdict]
    quick: bool = False  #: decided by a host's facts alone, without asking more of it


@dataclass(frozen=True, slots=True)
class Finding:
    """A row of the report."""

    check: str
    host: str
    severity: Severity
    evidence: str
    why: str
    mend: str | None = None
