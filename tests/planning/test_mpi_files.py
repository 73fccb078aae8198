"""Plans as hostfiles and rankfiles, in the words of each launcher."""

from __future__ import annotations

import re

import pytest
from planning_problems import CARTPOLE, PRINTS, job, one

from runtime.contract.plan import HostPlan, Plan
from tianjictl.errors import UsageProblem
from tianjictl.planning.build import make_plan
from tianjictl.planning.mpi_files import (
    logical_cores,
    mpich_hostfile,
    openmpi_hostfile,
    openmpi_rankfile,
    ranks,
)
from tianjictl.profiling.facts.cpus import Core


@pytest.fixture
def plan() -> Plan:
    """L1A3 on 4 cores, its last two actors on a second host."""
    made = make_plan(one(4, learners=1, actors=3), job(), CARTPOLE, PRINTS)
    moved = tuple(
        p.model_copy(update={"host": "cn02", "cores": (p.index, p.index + 1)})
        if p.name in ("actor-1", "actor-2")
        else p
        for p in made.placements
    )
    hosts = (*made.hosts, HostPlan(name="cn02", cores=(0, 1, 2, 3)))
    return made.model_copy(update={"placements": moved, "hosts": hosts})


def body(text: str) -> list[str]:
    return [line for line in text.splitlines() if not line.startswith("#")]


def test_both_hostfiles_name_each_host_once_with_its_ranks(plan: Plan) -> None:
    here = plan.hosts[0].name
    mine = [p for p in plan.placements if p.host == here]
    assert body(openmpi_hostfile(plan)) == [f"{here} slots={len(mine)}", "cn02 slots=2"]
    cpus = ",".join("+".join(map(str, p.cores)) for p in mine)
    assert body(mpich_hostfile(plan)) == [f"{here}:{len(mine)} binding=user:{cpus}", "cn02:2 binding=user:1+2,2+3"]


def test_a_rank_is_the_same_component_in_every_file(plan: Plan) -> None:
    told = [re.findall(r"^# rank (\d+): (\S+)$", make, re.M) for make in (openmpi_hostfile(plan), mpich_hostfile(plan))]
    assert told[0] == told[1] == [(str(rank), p.name) for rank, p in enumerate(ranks(plan))]
    lines = body(openmpi_rankfile(plan, {}))
    assert [line.split()[1].split("=") for line in lines] == [[str(r), p.host] for r, p in enumerate(ranks(plan))]
    assert [p.host for p in ranks(plan)] == sorted(
        (p.host for p in plan.placements), key=[h.name for h in plan.hosts].index
    )


def test_a_rankfile_counts_cores_as_hwloc_does_and_says_where_it_cannot(plan: Plan) -> None:
    known = {plan.hosts[0].name: {0: 0, 1: 7, 2: 8, 3: 9}}
    text = openmpi_rankfile(plan, known)
    assert "# cn02: hardware threads are not known" in text
    assert body(text)[0] == f"rank 0={plan.hosts[0].name} slot=0"
    assert body(text)[-1] == "rank 4=cn02 slot=2-3"
    assert {line.split("slot=")[1] for line in body(text) if plan.hosts[0].name in line} == {"0", "7", "7-9"}


def test_hwloc_numbers_cores_by_package_whatever_the_system_does() -> None:
    # Two packages of two cores with two threads each; the system deals CPU numbers round the packages.
    cores = [
        Core(cpu=cpu, package=cpu % 2, core=(cpu // 2) % 2, thread=cpu // 4)
        for cpu in range(8)
    ]  # fmt: skip
    assert logical_cores(cores) == {0: 0, 2: 1, 4: 0, 6: 1, 1: 2, 3: 3, 5: 2, 7: 3}


@pytest.mark.parametrize("name", ["fd00::1", "nœud", "a b", "a#b"])
def test_a_name_that_a_launcher_would_misread_is_refused(plan: Plan, name: str) -> None:
    hosts = (plan.hosts[0], HostPlan(name=name, cores=(0,)))
    with pytest.raises(UsageProblem, match="cannot stand in an MPI hostfile"):
        openmpi_hostfile(plan.model_copy(update={"hosts": hosts}))
    assert openmpi_hostfile(plan).isascii()
    assert "\r" not in mpich_hostfile(plan)
