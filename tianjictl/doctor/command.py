"""From hosts to a report: reached, looked at, tried against each other, judged."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tianjictl.doctor.looking import situation_of, visit
from tianjictl.doctor.registry import facts_suffice, wanted
from tianjictl.doctor.report import judge
from tianjictl.doctor.roads import try_roads
from tianjictl.errors import TianjiError, UsageProblem
from tianjictl.launching.cluster_plan import head_of
from tianjictl.launching.fleet import Fleet
from tianjictl.profiling.probing import EnvProbe

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from runtime.contract.job import Job
    from tianjictl.doctor.looking import Wish
    from tianjictl.doctor.report import Report
    from tianjictl.hosts.types import Host


def examine_hosts(
    hosts: Sequence[Host],
    inventory: str | None,
    wish: Wish,
    *,
    only: frozenset[str] = frozenset(),
    progress: Callable[[str], None] = lambda _line: None,
) -> Report:
    """Look at every host and judge what was found; what is amiss is in the report and raises nothing."""
    wish = replace(wish, quick=wish.quick or facts_suffice(only))
    if wish.job is not None and not wish.quick and not all(host.connection == "local" for host in hosts):
        wish = with_spec(wish, wish.job, progress)
    with Fleet({host.name: host for host in head_first(hosts)}) as fleet:
        found = visit(fleet, wish, progress)
        situation = situation_of(found, inventory, wish)
        if situation.several and not wish.quick and wanted("network.ports", only):
            progress("trying ports both ways")
            situation = replace(situation, roads=try_roads(fleet, situation))
        if situation.linked and wish.full and wanted("mpi.launch", only):
            progress("having couriers meet by MPI")
            situation = replace(situation, meetings=try_roads(fleet, situation, mpi=True))
    return judge(situation, only=only, quick=wish.quick)


def with_spec(wish: Wish, job: Job, progress: Callable[[str], None]) -> Wish:
    """The wish with the environment as it is on this machine, where a launch would plan for it; or why it is not."""
    progress(f"making {job.env.id} on this machine")
    try:
        with EnvProbe(job.env) as probe:
            return replace(wish, spec=probe.spec(progress))
    except TianjiError as error:
        return replace(wish, env_problem=error.message)


def head_first(hosts: Sequence[Host]) -> list[Host]:
    """The hosts in the order in which a plan has them; as they are where none may be the head."""
    try:
        head = head_of(hosts)
    except UsageProblem:
        return list(hosts)
    return [head, *(host for host in hosts if host is not head)]
