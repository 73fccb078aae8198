"""A further attempt of a run over hosts: on those that are there, from the newest checkpoint that any of them has."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import ValidationError

from runtime.contract.files import write_whole
from runtime.contract.paths import RunPaths
from runtime.contract.plan import Plan
from tianjictl.errors import CheckpointProblem, Locked, TianjiError, UsageProblem
from tianjictl.launching.checkpoint_moves import Found, bring, newest_anywhere
from tianjictl.launching.cluster_launch import bring_up, note_nodes, refuse_full_disks
from tianjictl.launching.cluster_plan import head_of, plan_for
from tianjictl.launching.fleet import Fleet, of_all
from tianjictl.launching.folder import begin_attempt
from tianjictl.launching.host_check import env_modules
from tianjictl.launching.nodes import check_all, record_of, stage_all
from tianjictl.runs.nodes import host_of
from tianjictl.runs.registry import Run, folder_lock, open_run
from tianjictl.runs.settings import plan_of
from tianjictl.runs.sweeping import sweep

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from runtime.contract.record import NodeRecord
    from tianjictl.hosts.types import Host, Inventory
    from tianjictl.launching.checkpoint_moves import Found
    from tianjictl.launching.host_check import HostCheck

_LEAVE_WITHIN_S = 5.0  #: a run that has noted its end needs a moment to let go of everything


class Resume:
    """One resume: what is asked for, and what is found on the way to it."""

    def __init__(
        self,
        run: Run,
        hosts: Inventory | None,
        *,
        shape: str | None,
        oversubscribe: bool,
        head: str | None,
        progress: Callable[[str], None],
    ) -> None:
        assert run.record is not None
        self._run = run
        self._shape, self._oversubscribe, self._wanted_head = shape, oversubscribe, head
        self._newest_plan_is_lost = False  # the head has it, and does not answer
        self._known: dict[str, NodeRecord] = {node.name: node for node in (*run.record.former, *run.record.nodes)}
        self._inventory = _inventory_of(run) if hosts is None else hosts
        self._replan = hosts is not None
        self._say = progress

    def go(self, wanted: str, *, argv: Sequence[str], version: str) -> tuple[Run, Plan, Found]:
        """Find the checkpoint, plan over the hosts that are there, bring it where it is needed, and start.

        Hosts that cannot be reached are named and left out. On a failure everything started is taken down again.
        """
        run = self._run
        hosts = {host.name: host for host in self._inventory.hosts}
        for name, node in self._known.items():
            hosts.setdefault(name, host_of(node))
        with folder_lock(run.paths.root, what=run.run_id), Fleet(hosts) as fleet:
            checks = self._there(fleet)
            self._refuse_if_alive(fleet)
            old = self._old_plan(fleet)
            places = self._places(fleet, checks)
            stage_all(fleet, places, checks, self._say)
            found = newest_anywhere(fleet, run, places, wanted, self._say)
            where = "here" if found.node is None else f"on {found.node.name}"
            self._say(f"the checkpoint of step {found.view.step:,} is {where}")
            plan = self._plan(fleet, old, self._shape_of(old, found))
            refuse_full_disks(fleet, plan, checks)
            again = self._next_attempt(plan, found, checks, fleet, argv, version)
            self._say(f"continuing {run.run_id} from step {found.view.step:,} as {plan.shape}, attempt {again.attempt}")
            stage_all(fleet, again.nodes, checks, self._say)
            homes = {plan.home(group) for group in plan.groups} | {plan.head}
            held = bring(fleet, found, again, [node for node in again.nodes if node.name in homes], self._say)
            started = bring_up(fleet, again, plan, checks, version=version, resume_from=held, progress=self._say)
            return started, plan, found

    def _there(self, fleet: Fleet) -> dict[str, HostCheck]:
        """Reach and check the hosts; those that cannot take part are left out, if any is left."""
        self._say(f"reaching {', '.join(fleet.hosts)}")
        failures = fleet.reach(progress=self._say)
        modules = env_modules(plan_of(self._run).job.env.id)
        checks, unfit = check_all(fleet, list(fleet.connections), modules, self._say)
        if not checks:
            raise of_all(failures | unfit)
        for name in failures | unfit:
            self._say(f"{name} is left out; should it hold a newer checkpoint, that is not seen")
        return checks

    def _refuse_if_alive(self, fleet: Fleet) -> None:
        """Locked where anything of the run is still at work on any node."""
        run = self._run
        wait_s = _LEAVE_WITHIN_S if run.completion() is not None else 0.0
        came, _ = fleet.each(
            lambda connection: sweep(connection, run.run_id, "look", wait_s),
            [name for name in self._known if name in fleet.connections],
        )
        left = {name: len(processes) for name, processes in came.items() if processes}
        if left:
            where = ", ".join(f"{count} on {name}" for name, count in left.items())
            raise Locked(
                f"processes of {run.run_id} are still there: {where}",
                hint=f"tianjictl attach {run.run_id} if it trains, else tianjictl stop {run.run_id} --yes",
            )

    def _places(self, fleet: Fleet, checks: dict[str, HostCheck]) -> list[NodeRecord]:
        """The run's folders on hosts that are there, with the interpreters of now."""
        places = []
        for name, node in self._known.items():
            if name in checks:
                now = record_of(fleet.hosts[name], checks[name], self._run, head=False)
                places.append(node.model_copy(update={"python": now.python, "pythonpath": now.pythonpath}))
        return places

    def _old_plan(self, fleet: Fleet) -> Plan:
        """The plan that the run worked by last, as far as it can be had."""
        head = self._run.head
        if head is not None and head.name in fleet.connections:
            try:
                raw = fleet.connections[head.name].get(str(RunPaths(Path(head.folder)).plan))
                return Plan.model_validate_json(raw)
            except (TianjiError, ValidationError) as error:
                self._say(f"{head.name}: its plan cannot be read ({error}): going by the one it was started with")
        self._newest_plan_is_lost = True
        return plan_of(self._run)

    def _shape_of(self, old: Plan, found: Found) -> str:
        """As asked; else the run's newest: its plan's, or, where that is out of reach, the checkpoint's."""
        if self._shape is None and self._newest_plan_is_lost and found.view.shape and found.view.shape != old.shape:
            self._say(f"the checkpoint was written as {found.view.shape}, and so it goes on")
            return found.view.shape
        return self._shape or old.shape

    def _plan(self, fleet: Fleet, old: Plan, shape: str) -> Plan:
        """The run's own plan where all its hosts are there and nothing else is asked for, else a new one of its job."""
        present = [host for host in self._inventory.hosts if host.name in fleet.connections]
        if not present:
            raise UsageProblem("none of the hosts that the run may use is there", hint="name others: -i INVENTORY")
        same = {host.name for host in old.hosts} == {host.name for host in present} and shape == old.shape
        settled = not any(placed.leaving or placed.donor is not None for placed in old.placements)
        if same and settled and not self._replan and not self._oversubscribe and self._wanted_head in (None, old.head):
            return old
        head = self._head(present, old)
        self._say(f"planning {shape} over {', '.join(host.name for host in present)}")
        return plan_for(
            self._inventory,
            {host.name: fleet.connections[host.name] for host in present},
            old.job,
            shape=shape,
            oversubscribe=self._oversubscribe,
            head=head,
            progress=self._say,
        )

    def _head(self, present: Sequence[Host], old: Plan) -> str:
        if self._wanted_head is not None:
            return head_of(present, self._wanted_head).name
        if any(host.name == old.head for host in present):
            return head_of(present, old.head).name
        chosen = head_of(present).name
        if self._run.nodes:
            self._say(f"{old.head} is not there: {chosen} is the head from now on")
        return chosen

    def _next_attempt(
        self,
        plan: Plan,
        found: Found,
        checks: dict[str, HostCheck],
        fleet: Fleet,
        argv: Sequence[str],
        version: str,
    ) -> Run:
        run = self._run
        nodes = [
            record_of(fleet.hosts[host.name], checks[host.name], run, head=host.name == plan.head)
            for host in plan.hosts
        ]
        there = RunPaths(Path(nodes[0].folder)).checkpoints / found.name  # the coordinator looks for it at the head
        again = begin_attempt(run, plan, resumed_from=there, argv=argv, version=version)
        assert again.record is not None
        taking_part = {node.name for node in nodes}
        former = tuple(node for name, node in self._known.items() if name not in taking_part)
        record = again.record.model_copy(update={"former": former})
        write_whole(run.paths.record, record.model_dump_json(indent=2) + "\n")
        return note_nodes(open_run(run.paths.root), nodes, plan.head)


def _inventory_of(run: Run) -> Inventory:
    """The hosts that the run's record knows, as an inventory."""
    from tianjictl.hosts.types import Inventory

    if not run.nodes:
        raise CheckpointProblem(f"{run.run_id} has run on no host that its record names")
    return Inventory(None, tuple(host_of(node) for node in run.nodes))
