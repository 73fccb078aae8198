"""A plan as the files that `mpirun` reads: hostfiles of Open MPI and of MPICH (Hydra), and Open MPI's rankfile. Pure.

Ranks are numbered host by host, in the order of the plan, because that is how both launchers fill a hostfile: a rank
is the same component whichever file is used. Only what every version accepts is written: ASCII, LF, comments on lines
of their own, one line for each host.

CPU numbers differ between the two: MPICH's `user:` binding takes those of the operating system, Open MPI's `slot=`
takes hwloc's logical cores. On a machine with hardware threads mixing them up goes unnoticed and binds to the wrong
core.

Neither launcher binds by itself as a plan wants it: Open MPI refuses two ranks on one core unless it is told that this
is meant, and binds each rank of a bare hostfile to a core of its own choice. So `commands` belongs to the files.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tianjictl.errors import UsageProblem
from tianjictl.profiling.facts.cpulist import format_cpulist, parse_cpulist

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from runtime.contract.plan import Placement, Plan
    from tianjictl.profiling.facts.cpus import Core, CpuFacts

_OF_THIS_PROCESS = ("online", "affinity")  #: sources of usable CPUs that are no CPU set of a control group


def ranks(plan: Plan) -> list[Placement]:
    """The components in the order of their MPI ranks."""
    order = [host.name for host in plan.hosts]
    return sorted(plan.placements, key=lambda placement: order.index(placement.host))


def commands(plan: Plan, hostfile: Path, mpich: Path, rankfile: Path | None) -> list[str]:
    """The command lines that start a program on the plan's hosts from these files, bound as the plan has it."""
    count, lines = len(plan.placements), []
    if rankfile is None:
        lines.append(
            f"Open MPI: mpirun --hostfile {hostfile} --bind-to none -np {count} PROGRAM (--rankfile binds ranks)"
        )
    else:
        bound = "core:overload-allowed" if _shares_cores(plan) else "core"
        how = f"--map-by rankfile:file={rankfile} --bind-to {bound}"
        lines.append(f"Open MPI 5: mpirun --hostfile {hostfile} {how} -np {count} PROGRAM")
    # MPICH's proxies are told to call this machine by its own name, which the hosts may not know.
    far = "-launcher ssh -localhost ADDRESS_OF_THIS_MACHINE " if len(plan.hosts) > 1 else ""
    lines.append(f"MPICH: mpirun {far}-f {mpich} -n {count} PROGRAM")
    return lines


def openmpi_hostfile(plan: Plan) -> str:
    """`host slots=N`; N counts the components there, so that nothing is oversubscribed in Open MPI's eyes."""
    return _text(plan, (f"{host} slots={len(placed)}" for host, placed in _by_host(plan)))


def mpich_hostfile(plan: Plan) -> str:
    """`host:N binding=user:…` with the CPUs of each rank: `+` joins those of one rank, `,` parts the ranks."""
    lines = []
    for host, placed in _by_host(plan):
        cpus = ",".join("+".join(str(cpu) for cpu in placement.cores) for placement in placed)
        lines.append(f"{host}:{len(placed)} binding=user:{cpus}")
    return _text(plan, lines)


def openmpi_rankfile(plan: Plan, logical: Mapping[str, Mapping[int, int]]) -> str:
    """`rank N=host slot=1-4`, for `--map-by rankfile:file=F` (Open MPI 5) or `-rf F` (4).

    `logical` is, for each host, hwloc's core of every CPU of the operating system (see `logical_cores`). A host that
    is missing from it keeps the operating system's numbers, and a comment says so.
    """
    lines = [
        f"# {host.name}: hardware threads are not known, cores are numbered as the operating system does"
        for host in plan.hosts
        if host.name not in logical
    ]
    for rank, placement in enumerate(ranks(plan)):
        known = logical.get(placement.host)
        slots = {cpu if known is None else known[cpu] for cpu in placement.cores}
        lines.append(f"rank {rank}={placement.host} slot={format_cpulist(sorted(slots))}")
    return _text(plan, lines)


def hwloc_cores(cpu: CpuFacts) -> dict[int, int] | None:
    """hwloc's number of each usable CPU's core; none where it cannot be told.

    hwloc leaves out what a CPU set of a control group leaves out, and counts what only an affinity mask leaves out.
    Facts say nothing of how the latter lie.
    """
    counted = set(cpu.online)
    for source in cpu.sources:
        if source.name not in _OF_THIS_PROCESS and source.says.startswith("CPUs "):
            counted &= set(parse_cpulist(source.says.removeprefix("CPUs ")))
    return logical_cores(cpu.allowed) if counted == {core.cpu for core in cpu.allowed} else None


def logical_cores(cores: Iterable[Core]) -> dict[int, int]:
    """hwloc's number of the core that each CPU belongs to: packages, then cores, each by its lowest CPU."""
    first_of_package: dict[int, int] = {}
    first_of_core: dict[tuple[int, int], int] = {}
    known = sorted(cores, key=lambda core: core.cpu)
    for core in known:
        first_of_package.setdefault(core.package, core.cpu)
        first_of_core.setdefault((core.package, core.core), core.cpu)
    in_order = sorted(first_of_core, key=lambda key: (first_of_package[key[0]], first_of_core[key]))
    number = {key: index for index, key in enumerate(in_order)}
    return {core.cpu: number[core.package, core.core] for core in known}


def _shares_cores(plan: Plan) -> bool:
    taken = [(placement.host, cpu) for placement in plan.placements for cpu in placement.cores]
    return len(set(taken)) < len(taken)


def _by_host(plan: Plan) -> Iterator[tuple[str, Sequence[Placement]]]:
    placed = ranks(plan)
    for host in plan.hosts:
        mine = [placement for placement in placed if placement.host == host.name]
        if mine:
            yield host.name, mine


def _text(plan: Plan, lines: Iterable[str]) -> str:
    for host in plan.hosts:
        if not host.name.isascii() or ":" in host.name or any(c.isspace() or c == "#" for c in host.name):
            raise UsageProblem(
                f"host {host.name!r} cannot stand in an MPI hostfile: only ASCII, without ':', '#' or blanks",
                hint="give it a name in the inventory, and its address as ansible_host",
            )
    head = [f"# {plan.job.name} {plan.shape}, plan of job {plan.fingerprints.job}"]
    head += [f"# rank {rank}: {placement.name}" for rank, placement in enumerate(ranks(plan))]
    return "\n".join([*head, *lines]) + "\n"
