"""`tianjictl doctor`: looks at every host before a run, and says for each finding what mends it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tianjictl.cli import completion as complete
from tianjictl.cli.options import Algo, Env, Inventory, Json, Set
from tianjictl.errors import UsageProblem

if TYPE_CHECKING:
    from collections.abc import Sequence

    from runtime.contract.job import Job
    from tianjictl.doctor.report import Report
    from tianjictl.hosts.types import Host
    from tianjictl.hosts.types import Inventory as Hosts

_FAILED = 5  #: exit code; the table is in tianjictl/errors.py


def doctor(
    job: Annotated[
        Path | None, typer.Argument(metavar="JOB", help="Job whose environment is to be made on each host too.")
    ] = None,
    inventory: Inventory = None,
    json: Json = False,
    strict: Annotated[bool, typer.Option("--strict", help="Warnings count as failures.")] = False,
    quick: Annotated[
        bool, typer.Option("--quick", help="Only facts: no packages, no proofs of the learning code, no ports.")
    ] = False,
    full: Annotated[
        bool, typer.Option("--full", help="Also what takes seconds: couriers meet by MPI, torch is compared.")
    ] = False,
    only: Annotated[
        str | None, typer.Option("--only", metavar="IDS", help="Only these checks or themes, as in cpu,network.ports.")
    ] = None,
    limit: Annotated[
        str | None,
        typer.Option(
            "--limit", metavar="HOSTS", help="Only these hosts or groups.", autocompletion=complete.host_pattern
        ),
    ] = None,
    env: Env = None,
    algo: Algo = None,
    set_: Set = None,
) -> int:
    """Check every host before a run: reach, software, cores, memory, disk, network, and the learning code itself.

    Ends with 5 where a check failed, or with --strict warned.
    """
    from tianjictl.cli.output import emit_json
    from tianjictl.cli.progress import Progress
    from tianjictl.doctor.checks.learning import PREFIX
    from tianjictl.doctor.command import examine_hosts
    from tianjictl.doctor.looking import Wish
    from tianjictl.doctor.registry import wanted_at_all
    from tianjictl.hosts.reader import load

    chosen = _chosen(only)
    if quick and full:
        raise UsageProblem("--quick and --full contradict each other")
    wish = Wish(_job(job, env, algo, set_ or ()), quick=quick, full=full, proofs=wanted_at_all(chosen, PREFIX))
    found = load(inventory)
    hosts = _limited(found, limit)
    with Progress("looking at the hosts") as progress:
        report = examine_hosts(hosts, found.file, wish, only=chosen, progress=progress)
    failed = report.failed(strict=strict)
    if json:
        emit_json("doctor", _data(report), warnings=[str(problem) for problem in found.notes], errors=_errors(report))
    else:
        from tianjictl.cli.doctor_screen import show

        show(report)
    return _FAILED if failed else 0


def _chosen(only: str | None) -> frozenset[str]:
    from tianjictl.doctor.registry import CHECKS, chosen

    words = [word.strip() for word in (only or "").split(",") if word.strip()]
    try:
        return chosen(words)
    except ValueError as problem:
        from runtime.contract.yaml_source import nearest

        known = [check.id for check in CHECKS]
        near = nearest(str(problem), known)
        hint = f"did you mean {near}?" if near else f"known: {', '.join(known)}, learning"
        raise UsageProblem(f"--only: there is no check {str(problem)!r}", hint=hint) from problem


def _job(path: Path | None, env: str | None, algo: str | None, overrides: Sequence[str]) -> Job | None:
    if path is None and env is None and algo is None:
        if overrides:
            raise UsageProblem("--set changes a job, and none is named", hint="tianjictl doctor JOB --set KEY=VALUE")
        return None
    from tianjictl.cli.job_input import read_job

    return read_job(path, env=env, algo=algo, overrides=overrides)


def _limited(found: Hosts, limit: str | None) -> tuple[Host, ...]:
    """The hosts that `--limit` names: hosts and groups, parted by commas."""
    if limit is None:
        return found.hosts
    names: set[str] = set()
    for word in filter(None, (part.strip() for part in limit.split(","))):
        if word in found.groups:
            names |= set(found.groups[word])
        elif found.find(word) is not None:
            names.add(word)
        else:
            known = ", ".join(host.name for host in found.hosts)
            raise UsageProblem(f"--limit: there is no host or group {word!r}", hint=f"hosts: {known}")
    return tuple(host for host in found.hosts if host.name in names)


def _data(report: Report) -> dict[str, Any]:
    rows = [
        {
            "check": row.check,
            "host": row.host,
            "severity": row.severity,
            "evidence": row.evidence,
            "why": row.why,
            "mend": row.mend,
        }
        for row in report.findings
    ]
    return {"hosts": list(report.hosts), "checks": rows, "summary": report.counts}


def _errors(report: Report) -> list[dict[str, object]]:
    from tianjictl.doctor.finding import Severity

    return [
        {"code": _FAILED, "message": f"{row.host}: {row.check}: {row.evidence}", "hint": row.mend}
        for row in report.of(Severity.FAIL)
    ]
