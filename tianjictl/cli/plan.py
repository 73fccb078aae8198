"""`tianjictl plan`: parse, plan, print. Touches nothing but the file of `-o`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tianjictl.cli.options import Algo, Env, Json, Oversubscribe, Profile, Set, Shape

if TYPE_CHECKING:
    from runtime.contract.plan import Plan

JobFile = Annotated[
    Path | None, typer.Argument(metavar="[JOB]", help="Job file; may be left out with --env and --algo.")
]
Output = Annotated[Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write the plan to a file.")]
HostFile = Annotated[
    Path | None,
    typer.Option("--hostfile", metavar="FILE", help="Write Open MPI's hostfile, and MPICH's beside it as FILE.mpich."),
]
RankFile = Annotated[Path | None, typer.Option("--rankfile", metavar="FILE", help="Write Open MPI's rankfile.")]
Explain = Annotated[bool, typer.Option("--explain", help="Say why: what binds, who idles, the next best shape.")]


def plan(
    job: JobFile = None,
    output: Output = None,
    json: Json = False,
    shape: Shape = None,
    profile: Profile = None,
    env: Env = None,
    algo: Algo = None,
    overrides: Set = None,
    oversubscribe: Oversubscribe = False,
    explain: Explain = False,
    hostfile: HostFile = None,
    rankfile: RankFile = None,
) -> int:
    """Solve what runs where and how fast it should be; touches nothing."""
    from tianjictl.cli.job_input import read_job
    from tianjictl.cli.output import emit_json, note
    from tianjictl.launching.local_plan import plan_for_this_machine

    loaded = read_job(job, overrides=overrides or (), env=env, algo=algo, oversubscribe=oversubscribe)
    made = plan_for_this_machine(
        loaded, shape=shape, profile_path=None if profile is None else Path(profile), progress=note
    )
    written = _write_all(made, job, profile, output, hostfile, rankfile)
    if json:
        emit_json("plan", made, warnings=made.notes)
        return 0
    _print(made, job, explain=explain)
    if written:
        note(f"written to {', '.join(str(path) for path in written)}")
    return 0


def _write_all(
    plan: Plan, job: Path | None, profile: str | None, output: Path | None, hostfile: Path | None, rankfile: Path | None
) -> list[Path]:
    """Write the files that were asked for; returns their names."""
    from tianjictl.planning import mpi_files
    from tianjictl.planning.build import plan_bytes

    files: dict[Path, bytes] = {}
    if output is not None:
        from tianjictl.launching.stale import with_origin

        files[output] = plan_bytes(with_origin(plan, job, None if profile is None else Path(profile)))
    if hostfile is not None:
        files[hostfile] = mpi_files.openmpi_hostfile(plan).encode()
        files[hostfile.with_name(f"{hostfile.name}.mpich")] = mpi_files.mpich_hostfile(plan).encode()
    if rankfile is not None:
        from tianjictl.profiling.local import local_facts

        facts = local_facts()
        files[rankfile] = mpi_files.openmpi_rankfile(
            plan, {facts.name: mpi_files.logical_cores(facts.cpu.allowed)}
        ).encode()
    for path, content in files.items():
        _write(path, content)
    return list(files)


def _write(path: Path, content: bytes) -> None:
    from runtime.contract.files import write_whole
    from tianjictl.errors import UsageProblem

    try:
        write_whole(path, content)
    except OSError as error:
        hint = "give a file in a folder that exists and may be written to"
        raise UsageProblem(f"{path} cannot be written: {error.strerror or error}", hint=hint) from error


def _print(plan: Plan, job: Path | None, *, explain: bool) -> None:
    from tianjictl.cli.output import print_table, say
    from tianjictl.profiling.facts.cpulist import format_cpulist

    hosts = ", ".join(f"{host.name} (CPUs {format_cpulist(host.cores)})" for host in plan.hosts)
    say(f"{plan.job.name}: {plan.shape} on {hosts}", style="bold")
    say(f"solver: {plan.solver}")
    rows = [
        (p.name, p.group, p.host, format_cpulist(p.cores), f"{p.core_share:.2f}", p.threads) for p in plan.placements
    ]
    say()
    print_table(("component", "group", "host", "CPUs", "cores", "threads"), rows, right=(1, 4, 5))
    say()
    for line in _sizes(plan):
        say(line)
    for line in _rates(plan, job):
        say(line)
    shown = plan.predicted.explanation if explain else plan.predicted.explanation[:1]
    for line in shown:
        say(f"- {line}" if explain else line)
    for text in plan.notes:
        say(f"note: {text}")


def _sizes(plan: Plan) -> list[str]:
    sizes = plan.sizes
    return [
        f"each actor: {sizes.num_envs} environments × {sizes.rollout} steps = fragments of {sizes.fragment_samples}",
        f"each learner: batches of {sizes.batch_size} from a buffer of {sizes.buffer_size}, "
        f"P = {sizes.pool_ratio:.3g} (tolerance {sizes.staleness_tolerance:g})",
    ]


def _rates(plan: Plan, job: Path | None) -> list[str]:
    rates = plan.predicted
    if rates.env_steps_per_s is None or rates.samples_per_s is None or rates.updates_per_s is None:
        return [f"rates: not predicted; tianjictl profile {job or 'JOB'} measures them"]
    return [
        f"predicted: {rates.env_steps_per_s:,.0f} env steps/s, {rates.samples_per_s:,.0f} samples/s, "
        f"{rates.updates_per_s:,.1f} updates/s"
    ]
