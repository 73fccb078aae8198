"""From what was found to a report: every check of every host, and what all of it comes to. Pure."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tianjictl.doctor.checks.learning import learning_findings
from tianjictl.doctor.finding import Finding, Severity, skip
from tianjictl.doctor.registry import CHECKS, REACH, wanted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tianjictl.doctor.finding import Check
    from tianjictl.doctor.situation import Examined, Situation

#: Severities, the worst first.
WORST_FIRST = (Severity.FAIL, Severity.WARN, Severity.INFO, Severity.SKIP, Severity.OK)


@dataclass(frozen=True, slots=True)
class Report:
    """All rows: by check in reading order, then by host in the inventory's order."""

    hosts: tuple[str, ...]
    findings: tuple[Finding, ...]

    @property
    def checks(self) -> tuple[str, ...]:
        """Ids of the rows, each once, in reading order."""
        return tuple(dict.fromkeys(finding.check for finding in self.findings))

    def of(self, *severities: Severity) -> tuple[Finding, ...]:
        """The rows of these severities."""
        return tuple(finding for finding in self.findings if finding.severity in severities)

    def at(self, check: str, host: str) -> Finding | None:
        """One row."""
        return next((row for row in self.findings if row.check == check and row.host == host), None)

    @property
    def counts(self) -> dict[str, int]:
        """How many rows there are of each severity."""
        counted = Counter(finding.severity for finding in self.findings)
        return {str(severity): counted[severity] for severity in Severity}

    def failed(self, *, strict: bool = False) -> bool:
        """Whether a run should not be started: a failure, or with `strict` a warning."""
        return bool(self.of(Severity.FAIL, *([Severity.WARN] if strict else [])))


def alike(rows: Sequence[Finding]) -> list[list[Finding]]:
    """Findings that say the same of several hosts, together."""
    groups: dict[tuple[str, str], list[Finding]] = {}
    for row in rows:
        groups.setdefault((row.check, row.evidence), []).append(row)
    return list(groups.values())


def judge(situation: Situation, *, only: frozenset[str] = frozenset(), quick: bool = False) -> Report:
    """Every check that is asked for, on every host. `quick` leaves out what facts alone do not decide."""
    findings = [
        judge_one(check, one, situation)
        for check in CHECKS
        if wanted(check.id, only) and (check.quick or not quick)
        for one in situation.hosts
    ]
    if not quick:
        findings += _by_proof([row for one in situation.hosts for row in learning_findings(one, situation)], only)
    return Report(tuple(one.name for one in situation.hosts), tuple(findings))


def judge_one(check: Check, one: Examined, situation: Situation) -> Finding:
    """One check of one host; of a host that was not reached only that is known."""
    verdict = check.judge(one, situation) if one.node is not None or check.id == REACH else skip("not reached")
    return Finding(check.id, one.name, verdict.severity, verdict.evidence, check.why, verdict.mend)


def _by_proof(rows: Sequence[Finding], only: frozenset[str]) -> list[Finding]:
    """Rows that are asked for, those of one proof together."""
    order = list(dict.fromkeys(row.check for row in rows))
    return sorted((row for row in rows if wanted(row.check, only)), key=lambda row: order.index(row.check))
