"""The files of a plan, read by the real launchers: ranks run where the plan has them, on its cores."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from pathlib import Path

import pytest
from planning_problems import CARTPOLE, PRINTS, job, one

from runtime.contract.plan import HostPlan, Plan
from support import mpi_launchers
from support.mpi_launchers import OPEN_MPI, run_ranks
from tianjictl.planning.build import make_plan
from tianjictl.planning.mpi_files import commands, hwloc_cores, mpich_hostfile, openmpi_hostfile, openmpi_rankfile
from tianjictl.profiling.facts.cpus import Core, CpuFacts
from tianjictl.profiling.facts.sources import Source
from tianjictl.profiling.local import local_facts


def with_cores(cores: Sequence[tuple[int, ...]]) -> Plan:
    """A plan for this machine whose ranks have these CPUs."""
    made = make_plan(one(4, learners=1, actors=len(cores) - 2), job(), CARTPOLE, PRINTS)
    places = tuple(
        p.model_copy(update={"host": "localhost", "cores": mine})
        for p, mine in zip(made.placements, cores, strict=True)
    )
    host = HostPlan(name="localhost", cores=tuple(sorted({cpu for mine in cores for cpu in mine})))
    return made.model_copy(update={"placements": places, "hosts": (host,)})


def written(plan: Plan, place: Path) -> tuple[list[str], list[str]]:
    """The files in `place`, and the words of the two commands up to PROGRAM: Open MPI's, MPICH's."""
    known = hwloc_cores(local_facts().cpu)
    hostfile, mpich, rankfile = place / "hosts", place / "hosts.mpich", place / "ranks"
    hostfile.write_text(openmpi_hostfile(plan))
    mpich.write_text(mpich_hostfile(plan))
    rankfile.write_text(openmpi_rankfile(plan, {} if known is None else {"localhost": known}))
    lines = commands(plan, hostfile, mpich, rankfile)
    ours, theirs = [shlex.split(line.partition(": mpirun ")[2].partition(" PROGRAM")[0]) for line in lines]
    return ours, theirs


CPUS = sorted(os.sched_getaffinity(0))
FIRST, LAST = (CPUS[0],), (CPUS[-1],)
SHARED = (LAST, FIRST, FIRST, (*CPUS[:1], *CPUS[-1:]) if len(CPUS) > 1 else FIRST)
needs_two = pytest.mark.skipif(len(CPUS) < 2, reason="needs two CPUs")


def test_mpich_binds_every_rank_to_its_cores(tmp_path: Path) -> None:
    program = mpi_launchers.mpich()
    if program is None:
        pytest.skip("there is no mpirun of MPICH beside this Python or on the PATH")
    _, words = written(with_cores(SHARED), tmp_path)
    said = run_ranks([program, *words], tmp_path)
    assert {rank: cpus for rank, (_, cpus) in said.items()} == {rank: set(cores) for rank, cores in enumerate(SHARED)}


@needs_two
@pytest.mark.parametrize("cores", [SHARED, (LAST, FIRST, LAST)], ids=["several on one core", "two on one core"])
def test_open_mpi_binds_every_rank_to_its_cores(cores: tuple[tuple[int, ...], ...], tmp_path: Path) -> None:
    program = mpi_launchers.open_mpi()
    if program is None:
        pytest.skip(f"there is no mpirun of Open MPI on the PATH; {OPEN_MPI} may name one")
    known = hwloc_cores(local_facts().cpu)
    if known is None:
        pytest.skip("an affinity mask hides CPUs of this machine, so how hwloc counts its cores is not known")
    plan = with_cores(cores)
    words, _ = written(plan, tmp_path)
    said = run_ranks([program, *words], tmp_path)
    for rank, placement in enumerate(plan.placements):
        numbers = {known[cpu] for cpu in placement.cores}
        assert said[rank][1] == {cpu for cpu, number in known.items() if number in numbers}  # whole cores


def test_open_mpi_takes_the_hostfile_alone_though_ranks_outnumber_cores(tmp_path: Path) -> None:
    program = mpi_launchers.open_mpi()
    if program is None:
        pytest.skip(f"there is no mpirun of Open MPI on the PATH; {OPEN_MPI} may name one")
    plan = with_cores([FIRST] * (len(CPUS) + 2))
    (tmp_path / "hosts").write_text(openmpi_hostfile(plan))
    line, _ = commands(plan, tmp_path / "hosts", tmp_path / "mpich", None)
    words = shlex.split(line.partition(": mpirun ")[2].partition(" PROGRAM")[0])
    assert sorted(run_ranks([program, *words], tmp_path)) == list(range(len(CPUS) + 2))


def facts(allowed: Sequence[int], **sources: str) -> CpuFacts:
    """Four CPUs, two threads on each core, of which `allowed` may be used; `sources` say which sources say what."""
    says = {"online": "CPUs 0-3", **{name.replace("_", "/"): text for name, text in sources.items()}}
    return CpuFacts(
        online=(0, 1, 2, 3),
        allowed=tuple(Core(cpu=cpu, core=cpu % 2, thread=cpu // 2) for cpu in allowed),
        usable=tuple(allowed),
        capacity=len(allowed),
        sources=tuple(Source(name=name, says=text) for name, text in says.items()),
    )


def test_hwloc_counts_what_a_control_group_leaves_and_what_a_mask_hides() -> None:
    assert hwloc_cores(facts([0, 1, 2, 3], affinity="CPUs 0-3")) == {0: 0, 2: 0, 1: 1, 3: 1}
    grouped = facts([1, 3], affinity="CPUs 1,3", _sys_fs_cgroup_a_cpuset="CPUs 1,3", _sys_quota="quota of 2 CPUs")
    assert hwloc_cores(grouped) == {1: 0, 3: 0}
    assert hwloc_cores(facts([1, 3], affinity="CPUs 1,3")) is None


def test_the_commands_say_that_shared_cores_are_meant_and_how_far_hosts_are_reached() -> None:
    files = Path("H"), Path("H.mpich"), Path("R")
    shared, apart = with_cores([(0,), (0,), (1,)]), with_cores([(0,), (1,), (2,)])
    assert commands(shared, *files) == [
        "Open MPI 5: mpirun --hostfile H --map-by rankfile:file=R --bind-to core:overload-allowed -np 3 PROGRAM",
        "MPICH: mpirun -f H.mpich -n 3 PROGRAM",
    ]
    assert "--bind-to core -np 3" in commands(apart, *files)[0]
    over = shared.model_copy(update={"hosts": (*shared.hosts, HostPlan(name="cn02", cores=(0,)))})
    assert commands(over, *files)[1].startswith("MPICH: mpirun -launcher ssh -localhost ")
