"""`tianjictl plan`: parse, plan, print. Touches nothing but the file of `-o`."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tianjictl.cli import completion as complete
from tianjictl.cli.options import Algo, Env, Inventory, Json, Oversubscribe, Profile, Set, Shape

if TYPE_CHECKING:
    from runtime.contract.job import Job
    from runtime.contract.plan import Plan
    from tianjictl.cli.job_input import Wanted
    from tianjictl.errors import Infeasible
    from tianjictl.hosts.types import Inventory as Hosts
    from tianjictl.planning.problem import Problem
    from tianjictl.planning.solution import Solution

JobFile = Annotated[Path | None, typer.Argument(metavar="JOB", help="Job file; may be left out with --env and --algo.")]
Output = Annotated[Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write the plan to a file.")]
HostFile = Annotated[
    Path | None,
    typer.Option("--hostfile", metavar="FILE", help="Write Open MPI's hostfile, and MPICH's beside it as FILE.mpich."),
]
RankFile = Annotated[Path | None, typer.Option("--rankfile", metavar="FILE", help="Write Open MPI's rankfile.")]
Against = Annotated[
    str | None,
    typer.Option(
        "--against",
        metavar="RUN",
        help="Show what a living run would have to change.",
        autocompletion=complete.runs,
    ),
]
Explain = Annotated[bool, typer.Option("--explain", help="Say why: what binds, what more would be worth, who idles.")]


def plan(
    job: JobFile = None,
    inventory: Inventory = None,
    output: Output = None,
    json: Json = False,
    shape: Shape = None,
    profile: Profile = None,
    env: Env = None,
    algo: Algo = None,
    overrides: Set = None,
    oversubscribe: Oversubscribe = False,
    explain: Explain = False,
    against: Against = None,
    hostfile: HostFile = None,
    rankfile: RankFile = None,
) -> int:
    """Solve what runs where and how fast it should be; touches nothing."""
    from tianjictl.cli.job_input import Wanted
    from tianjictl.cli.plan_against import difference_from, living_run
    from tianjictl.cli.plan_answer import Answer
    from tianjictl.errors import Infeasible
    from tianjictl.hosts.reader import load
    from tianjictl.planning.explain import explain as explained

    saved = None if profile is None else Path(profile)
    wanted = Wanted(job, env, algo, tuple(overrides or ()), shape, oversubscribe, saved)
    loaded = wanted.job()
    hosts = load(inventory)
    run = None if against is None else living_run(against)
    try:
        made = _planned(hosts, loaded, wanted, want_cores=rankfile is not None)
    except Infeasible as error:
        raise _copyable(error, wanted, hosts.file) from error
    files = _files(made, wanted, hosts.file, output, hostfile, rankfile)
    for path, content in files.items():
        _write(path, content)
    answer = Answer(
        plan=made.plan,
        wanted=wanted,
        hosts=hosts,
        why=explained(made.problem, made.solution, made.plan) if explain else None,
        run=run,
        difference=None if run is None else difference_from(run, made.plan),
    )
    if json:
        answer.emit()
    else:
        answer.show()
        _tell_files(made.plan, files, hostfile, rankfile)
    return 0


@dataclass(frozen=True, slots=True)
class Planned:
    """A plan, what it was decided from, and hwloc's number of every core by host if they were wanted."""

    plan: Plan
    problem: Problem
    solution: Solution
    cores: dict[str, dict[int, int]]


def _tell_files(plan: Plan, files: dict[Path, bytes], hostfile: Path | None, rankfile: Path | None) -> None:
    from tianjictl.cli.output import note
    from tianjictl.planning.mpi_files import commands

    if files:
        note(f"written to {', '.join(str(path) for path in files)}")
    if hostfile is not None:
        for line in commands(plan, hostfile, mpich_twin(hostfile), rankfile):
            note(line)


def _copyable(error: Infeasible, wanted: Wanted, inventory: str | None) -> Infeasible:
    """The same with whole command lines where the hint names options: here it is known what else was typed."""
    hosts = ("-i", inventory) if inventory else ()

    def command(option: re.Match[str]) -> str:
        shape = option["shape"]
        words = wanted.words(shape=shape) if shape else wanted.words(oversubscribe=True)
        return shlex.join(("tianjictl", "plan", *words, *hosts))

    if error.hint is not None:
        error.hint = re.sub(r"--shape (?P<shape>L\d+A\d+)|--oversubscribe", command, error.hint)
    return error


def _planned(hosts: Hosts, job: Job, wanted: Wanted, *, want_cores: bool) -> Planned:
    """On this machine, or on the hosts, which are reached for it. `want_cores`: find out hwloc's numbers, too."""
    from tianjictl.cli.output import note
    from tianjictl.launching.cluster_plan import is_this_machine, plan_for
    from tianjictl.planning.mpi_files import hwloc_cores

    decided: list[tuple[Problem, Solution]] = []

    def keep(problem: Problem, solution: Solution) -> None:
        decided.append((problem, solution))

    if is_this_machine(hosts):
        from tianjictl.launching.local_plan import plan_for_this_machine
        from tianjictl.profiling.local import local_facts

        made = plan_for_this_machine(job, shape=wanted.shape, profile_path=wanted.profile, progress=note, decided=keep)
        facts = [local_facts()] if want_cores else []
    else:
        from tianjictl.launching.fleet import Fleet, of_all
        from tianjictl.profiling.nodes import look_at

        with Fleet({host.name: host for host in hosts.hosts}) as fleet:
            if failures := fleet.reach(progress=note):
                raise of_all(failures)
            made = plan_for(
                hosts,
                fleet.connections,
                job,
                shape=wanted.shape,
                profile_path=wanted.profile,
                progress=note,
                decided=keep,
            )
            facts = [node.facts for node in look_at(hosts.hosts, fleet.connections)] if want_cores else []
    known = {fact.name: hwloc_cores(fact.cpu) for fact in facts}
    numbers = {name: found for name, found in known.items() if found is not None}
    return Planned(made, *decided[-1], cores=numbers)


def _files(
    made: Planned,
    wanted: Wanted,
    inventory: str | None,
    output: Path | None,
    hostfile: Path | None,
    rankfile: Path | None,
) -> dict[Path, bytes]:
    """The files that were asked for, by name."""
    from tianjictl.planning import mpi_files
    from tianjictl.planning.build import plan_bytes

    files: dict[Path, bytes] = {}
    if output is not None:
        from tianjictl.launching.stale import with_origin

        files[output] = plan_bytes(with_origin(made.plan, wanted.path, wanted.profile, inventory))
    if hostfile is not None:
        files[hostfile] = mpi_files.openmpi_hostfile(made.plan).encode()
        files[mpich_twin(hostfile)] = mpi_files.mpich_hostfile(made.plan).encode()
    if rankfile is not None:
        files[rankfile] = mpi_files.openmpi_rankfile(made.plan, made.cores).encode()
    return files


def mpich_twin(hostfile: Path) -> Path:
    """Where MPICH's hostfile lies: beside Open MPI's."""
    return hostfile.with_name(f"{hostfile.name}.mpich")


def _write(path: Path, content: bytes) -> None:
    from runtime.contract.files import write_whole
    from tianjictl.errors import UsageProblem

    try:
        write_whole(path, content)
    except OSError as error:
        hint = "give a file in a folder that exists and may be written to"
        raise UsageProblem(f"{path} cannot be written: {error.strerror or error}", hint=hint) from error
