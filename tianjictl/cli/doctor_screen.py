"""The doctor's report for a person: hosts × checks, then every finding with its evidence and what mends it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text

from tianjictl.cli.output import print_table, say
from tianjictl.doctor.finding import Severity
from tianjictl.doctor.report import alike

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tianjictl.doctor.finding import Finding
    from tianjictl.doctor.report import Report

MOST_COLUMNS = 6  #: of hosts; more do not fit on a screen, and are counted
#: Sign, word and colour: the sign alone must do without colour, the word without the sign.
_SHOWN = {
    Severity.OK: ("+", "green"),
    Severity.INFO: ("i", "cyan"),
    Severity.WARN: ("!", "yellow"),
    Severity.FAIL: ("X", "bold red"),
    Severity.SKIP: ("-", "dim"),
}


def show(report: Report) -> None:
    """Print the report on standard output."""
    if len(report.hosts) <= MOST_COLUMNS:
        _matrix(report)
    else:
        _counts(report)
    for severity in (Severity.FAIL, Severity.WARN, Severity.INFO):
        for rows in alike(report.of(severity)):
            _finding(rows)
    counts = report.counts
    told = ", ".join(f"{counts[severity]} {severity}" for severity in ("fail", "warn", "info", "ok", "skip"))
    hosts = f"{len(report.hosts)} host{'' if len(report.hosts) == 1 else 's'}"
    say()
    checks = f"{len(report.checks)} check{'' if len(report.checks) == 1 else 's'}"
    say(f"{hosts}, {checks}: {told}", style="bold")


def _matrix(report: Report) -> None:
    rows = [[check, *(_cell(report.at(check, host)) for host in report.hosts)] for check in report.checks]
    print_table(("check", *report.hosts), rows)


def _cell(row: Finding | None) -> Text:
    severity = Severity.SKIP if row is None else row.severity
    sign, style = _SHOWN[severity]
    return Text(f"{sign} {severity}", style=style)


def _counts(report: Report) -> None:
    """Where there are many hosts: how many of each, and the names of those that have something."""
    rows = []
    for check in report.checks:
        found = [row for row in report.findings if row.check == check]
        numbers = [sum(row.severity is severity for row in found) for severity in _SHOWN]
        bad = [row.host for row in found if row.severity in (Severity.FAIL, Severity.WARN)]
        rows.append([check, *numbers, ", ".join(bad)])
    headers = [f"{sign} {severity}" for severity, (sign, _) in _SHOWN.items()]
    print_table(("check", *headers, "hosts that warn or fail"), rows, right=(1, 2, 3, 4, 5))


def _finding(rows: Sequence[Finding]) -> None:
    first = rows[0]
    sign, style = _SHOWN[first.severity]
    hosts = ", ".join(row.host for row in rows)
    say()
    say(f"{sign} {first.severity}  {first.check}  {hosts}", style=style)
    say(f"    {first.evidence}")
    say(f"    why:  {first.why}")
    if first.mend:
        say(f"    mend: {first.mend}")
        if len(rows) > 1:
            say(f"          and likewise for {', '.join(row.host for row in rows[1:])}")
