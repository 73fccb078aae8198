"""The doctor's visit: every host at once, one look at each, then its software and its proofs.

What fails is written down. Nothing is judged here: what was found goes to the checks.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pydantic import ValidationError

from runtime.contract.selfcheck import SelfcheckReport, SelfcheckRequest
from tianjictl.doctor.checks.software import MPI_MODULE, OLDEST
from tianjictl.doctor.situation import Examined, Situation
from tianjictl.errors import DoctorFailed, TianjiError, UsageProblem
from tianjictl.launching.fleet import Fleet
from tianjictl.launching.host_check import MODULES, FolderRefused, env_modules, examine
from tianjictl.launching.staging import runtime_archive, stage, staged_at
from tianjictl.profiling.networks import choose_networks
from tianjictl.profiling.probing import last_line
from tianjictl.profiling.remote_facts import node_facts
from tianjictl.remote.failures import HostFailure
from tianjictl.remote.fanout import Err, Limits, Ok, fan_out
from tianjictl.remote.reach import lane, reach

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from runtime.contract.envspec import EnvSpec
    from runtime.contract.job import Job
    from tianjictl.hosts.types import Host
    from tianjictl.launching.host_check import HostCheck
    from tianjictl.profiling.remote_facts import NodeFacts
    from tianjictl.remote.base import Connection

_TRIES = Limits(tries=2)  #: a doctor tells of a host that answers at the third knock
_PROOFS_WITHIN_S = 60.0
MOST_THREADS = 8  #: of a learner that is asked whether it would have them
# $1 interpreter, $2 PYTHONPATH or "", $3 what to prove
_PROVE = """[ -z "$2" ] || export PYTHONPATH="$2"
export OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 MKL_NUM_THREADS=1 NUMEXPR_NUM_THREADS=1
exec "$1" -m runtime selfcheck "$3"
"""


@dataclass(frozen=True, slots=True)
class Wish:
    """How far a visit goes."""

    job: Job | None = None
    spec: EnvSpec | None = None  #: of the job's environment, as it is on this machine, where it is planned
    env_problem: str | None = None  #: why it cannot be made on this machine
    quick: bool = False  #: facts only
    proofs: bool = True  #: of the learning code, unless `quick`
    full: bool = False  #: also what takes seconds

    @property
    def modules(self) -> tuple[str, ...]:
        """What must be importable besides the runtime's own needs."""
        return () if self.job is None else env_modules(self.job.env.id)

    def request(self, cores: int) -> SelfcheckRequest:
        """What a host with so many cores is asked to prove."""
        asked = SelfcheckRequest(full=self.full, threads=max(1, min(cores, MOST_THREADS)))
        if self.job is None:
            return asked
        job = {"env": self.job.env, "spec": self.spec, "algorithm": self.job.algorithm, "seed": self.job.training.seed}
        return asked.model_copy(update=job)


def visit(fleet: Fleet, wish: Wish, progress: Callable[[str], None]) -> tuple[Examined, ...]:
    """Reach every host of the fleet and look at it; no host waits for another, and none is left out."""
    found = _reach_all(fleet, progress)

    def done(name: str, came: Ok[Examined] | Err) -> None:
        progress(f"{name}: {'looked at' if isinstance(came, Ok) and came.value.failure is None else 'cannot be used'}")

    outcomes = fan_out(
        {name: one for name, one in found.items() if one.failure is None},
        lambda one: look(fleet.connections[one.name], one, wish),
        limits=Limits(tries=1),
        on_outcome=done,
    )
    for name, came in outcomes.items():
        found[name] = came.value if isinstance(came, Ok) else replace(found[name], failure=came.error)
    return tuple(found.values())


def _reach_all(fleet: Fleet, progress: Callable[[str], None]) -> dict[str, Examined]:
    """Connections of the fleet are open afterwards; who could not be reached says why."""
    outcomes = fan_out(
        fleet.hosts,
        lambda host: reach(host, note=progress),
        limits=_TRIES,
        lane=lane,
        discard=lambda connection: connection.close(),
    )
    found = {}
    for name, came in outcomes.items():
        if isinstance(came, Ok):
            fleet.connections[name] = came.value
            found[name] = Examined(fleet.hosts[name], reached_s=came.took_s)
        else:
            found[name] = Examined(fleet.hosts[name], failure=came.error)
    return found


def look(connection: Connection, one: Examined, wish: Wish) -> Examined:
    """One host, as far as it lets itself be looked at."""
    try:
        found = node_facts(connection, one.host, operator_python=sys.executable, devices=not wish.quick)
        one = replace(one, node=found)
        return one if wish.quick else _with_proofs(connection, _with_software(connection, one, wish), wish)
    except HostFailure as failure:  # lost on the way: what it has told until then is not enough for a judgement
        return replace(one, node=None, failure=failure)
    except TianjiError as error:
        return replace(one, failure=error)


def _with_software(connection: Connection, one: Examined, wish: Wish) -> Examined:
    modules = (*(MODULES if one.here else ()), *wish.modules)
    try:
        return replace(one, software=examine(connection, one.host, digest=runtime_archive().digest, modules=modules))
    except FolderRefused as error:
        return replace(one, folder_problem=error.message.removeprefix(f"{one.name}: check: "))
    except DoctorFailed as error:
        return replace(one, software_problem=error.message.removeprefix(f"{one.name}: check: "))


def _with_proofs(connection: Connection, one: Examined, wish: Wish) -> Examined:
    if one.software is None or not able(one.software, wish.modules):
        return one  # the proofs would fail for the same reason
    if set(one.software.missing) & set(wish.modules):
        wish = replace(wish, job=None)  # which leaves those that need no environment
    path = pythonpath(one.host, one.software)
    try:
        if path and not one.software.staged:
            stage(connection, one.software.state, runtime_archive())
        if not wish.proofs:
            return one
        request = wish.request(len(one.facts.cpu.usable))
        return replace(one, selfcheck=prove(connection, one.software, path, request))
    except HostFailure:
        raise
    except TianjiError as error:
        return replace(one, selfcheck_problem=error.message)


def able(found: HostCheck, others: Sequence[str] = ()) -> bool:
    """Whether a host's Python can run the runtime; MPI is needed for links alone, `others` for a job."""
    return found.version >= OLDEST and not set(found.missing) - {MPI_MODULE, *others}


def pythonpath(host: Host, found: HostCheck) -> str:
    """Where the runtime lies on a host; empty where this machine's own is used."""
    here = host.connection == "local" and host.python is None
    return "" if here else staged_at(found.state, runtime_archive())


def prove(connection: Connection, found: HostCheck, path: str, request: SelfcheckRequest) -> SelfcheckReport:
    """Have a host prove its learning code; TianjiError where it says nothing of use."""
    done = connection.run(_PROVE, found.python, path, request.model_dump_json(), timeout_s=_PROOFS_WITHIN_S)
    try:
        return SelfcheckReport.model_validate_json(last_line(done.text))
    except ValidationError as error:
        told = last_line(done.text) if done.status == 2 else done.complaint
        raise TianjiError(f"the proofs ended with status {done.status}: {told[:300]}") from error


def networks_of(hosts: Sequence[Examined]) -> Mapping[str, str | None]:
    """The network that each host would take, as a plan chooses it; as far as one is named, where none can be chosen."""
    nodes: list[NodeFacts] = [one.node for one in hosts if one.node is not None]
    if not nodes:
        return {}
    try:
        return choose_networks(nodes, nodes[0].host.name)[0]
    except UsageProblem:
        return {node.host.name: node.host.network for node in nodes}


def situation_of(hosts: Sequence[Examined], inventory: str | None, wish: Wish) -> Situation:
    """What the checks look at, without anything that lies between hosts."""
    return Situation(
        hosts=tuple(hosts),
        inventory=inventory,
        env_id=None if wish.job is None else wish.job.env.id,
        env_problem=wish.env_problem,
        networks=networks_of(hosts),
    )
