"""Plans over many hosts: counts from what they have together, each component where it may be, and refusals in words."""

from __future__ import annotations

import re
from itertools import product
from typing import Any

import pytest
from planning_problems import CARTPOLE, MIB, PRINTS, job, node, rates

from runtime.contract.plan import HostPlan, Plan
from runtime.contract.shape import Shape
from runtime.contract.states import Role
from tianjictl.errors import Infeasible
from tianjictl.planning.build import make_plan, plan_bytes
from tianjictl.planning.check import check
from tianjictl.planning.links import links_of
from tianjictl.planning.mpi_files import openmpi_hostfile
from tianjictl.planning.node import Node
from tianjictl.planning.stating import state

LEARNERS = (Role.LEARNER, Role.BUFFER)
ACTORS = (Role.ACTOR,)


def planned(nodes: list[Node], shape: str | None = None, algorithm: str = "ppo", **sections: Any) -> Plan:
    wanted = {} if shape is None else Shape.parse(shape)._asdict()
    distributed = {**wanted, **sections.pop("distributed", {})}
    made = job(algorithm, distributed=distributed, **sections)
    told = [HostPlan(name=each.name, cores=(), roles=each.roles, network="10.0.0.0/24", wan=each.wan) for each in nodes]
    return make_plan(state(made, CARTPOLE, nodes), made, CARTPOLE, PRINTS, hosts=told)


def broken(plan: Plan, nodes: list[Node]) -> list[str]:
    return check(plan, state(plan.job, plan.env, nodes))


def where(plan: Plan, role: Role) -> list[str]:
    return [placement.host for placement in plan.of_role(role)]


def test_a_shape_that_no_host_holds_alone_is_spread_over_several() -> None:
    nodes = [node("head", 4), node("cn1", 4), node("cn2", 4)]
    plan = planned(nodes, "L2A8")
    assert broken(plan, nodes) == []
    assert plan.head == "head"
    assert where(plan, Role.LEARNER)[0] == "head"
    assert set(where(plan, Role.ACTOR)) == {"head", "cn1", "cn2"}
    assert plan.names_used.actors == 8
    assert [host.network for host in plan.hosts] == ["10.0.0.0/24"] * 3


@pytest.mark.parametrize("oversubscribe", [False, True])
@pytest.mark.parametrize(
    "nodes",
    [
        [node("a", 2), node("b", 2), node("c", 2), node("d", 2)],
        [node("a", 1), node("b", 1)],
        [node("a", 16, domains=2), node("b", 3), node("c", 5)],
        [node("a", 2, LEARNERS), node("b", 6, ACTORS), node("c", 6)],
        [node("a", 4, LEARNERS), node("b", 8, ACTORS)],
    ],
    ids=lambda nodes: "+".join(str(len(each.cores)) for each in nodes),
)
def test_every_plan_passes_the_check_or_is_refused_with_a_shape_that_does(
    nodes: list[Node], oversubscribe: bool
) -> None:
    for (learners, actors), evaluator in product([(1, 1), (1, 5), (2, 4), (3, 7), (4, 12)], (False, True)):
        shape = f"L{learners}A{actors}"
        sections = {"distributed": {"oversubscribe": oversubscribe}, "evaluation": {"enabled": evaluator}}
        try:
            plan = planned(nodes, shape, **sections)
        except Infeasible as refusal:
            assert refusal.hint is not None
            nearest = re.search(r"\bL\d+A\d+\b", refusal.hint)
            assert nearest is not None
            plan = planned(nodes, nearest[0], **sections)
        assert broken(plan, nodes) == []


def test_actors_are_near_their_learner_while_there_is_room() -> None:
    plan = planned([node("a", 5), node("b", 5)], "L2A8")
    assert links_of(plan) != (), "the learners average over their boards"
    assert all(plan.home(actor.group) == actor.host for actor in plan.of_role(Role.ACTOR))


def test_roles_are_respected_and_what_they_leave_too_little_of_is_named() -> None:
    nodes = [node("gpu", 2, LEARNERS), node("cn1", 4, ACTORS), node("cn2", 4, ACTORS)]
    plan = planned(nodes, "L2A8")
    assert set(where(plan, Role.LEARNER)) == {"gpu"}
    assert set(where(plan, Role.ACTOR)) == {"cn1", "cn2"}
    with pytest.raises(Infeasible) as refusal:
        planned(nodes, "L3A6")
    assert "only gpu (2) may hold learners, 2 of them" in refusal.value.message
    assert "--shape L2A6" in str(refusal.value.hint)
    assert "cn1: 4 cores for actors" in refusal.value.details
    with pytest.raises(Infeasible, match=r"only cn1 \(4\), cn2 \(4\) may hold actors") as refusal:
        planned(nodes, "L1A9")
    assert "--shape L1A8" in str(refusal.value.hint)


def test_a_learner_of_many_cores_must_fit_into_one_host() -> None:
    with pytest.raises(Infeasible, match="1 learners of 3 cores inside one host each"):
        planned([node("a", 2), node("b", 2)], "L1A1", distributed={"learner_cores": 3})
    nodes = [node("a", 2), node("b", 4)]
    plan = planned(nodes, "L1A2", distributed={"learner_cores": 3})
    assert where(plan, Role.LEARNER) == ["b"]
    assert broken(plan, nodes) == []


def test_too_many_for_all_hosts_together_is_refused_with_what_each_has() -> None:
    with pytest.raises(Infeasible, match=r"L2A8 needs 10 cores .*; the inventory has 6 usable") as refusal:
        planned([node("a", 2), node("b", 4)], "L2A8")
    assert {"a: 2 cores for learners and actors", "b: 4 cores for learners and actors"} <= set(refusal.value.details)
    assert "--shape L2A4" in str(refusal.value.hint)


def test_memory_that_one_host_lacks_is_named_with_the_host() -> None:
    nodes = [node("big", 2, LEARNERS, memory_bytes=64 << 30), node("small", 16, ACTORS, memory_bytes=700 * MIB)]
    with pytest.raises(Infeasible, match=r"does not fit the memory of the hosts.*small 0\.62 GiB") as refusal:
        planned(nodes, "L2A12")
    assert "--shape L2A5" in str(refusal.value.hint)


def test_free_counts_are_chosen_over_all_cores_from_the_rates_of_each_host() -> None:
    fast, slow = rates(actor=40_000.0), rates(actor=10_000.0)
    nodes = [node("a", 4, rates=fast), node("b", 4, rates=slow)]
    plan = planned(nodes)
    assert broken(plan, nodes) == []
    assert plan.solver == "optimal"
    assert set(where(plan, Role.ACTOR)) == {"a", "b"}
    alone = planned([node("a", 4, rates=fast), node("b", 4, rates=fast)])
    assert (alone.predicted.samples_per_s or 0) > (plan.predicted.samples_per_s or 0)


def test_free_counts_keep_to_what_each_host_may_hold() -> None:
    nodes = [node("gpu", 1, LEARNERS, rates=rates()), node("cn", 6, ACTORS, rates=rates())]
    plan = planned(nodes)
    assert plan.learners_and_actors.learners == 1
    assert plan.solver == "optimal"
    assert broken(plan, nodes) == []
    unmeasured = planned([node("gpu", 1, LEARNERS), node("cn", 6, ACTORS)])
    assert unmeasured.shape == "L1A4"


def test_a_learner_goes_where_no_actor_may_be_if_that_gives_more_and_else_to_the_head() -> None:
    nodes = [node("head", 3, rates=rates()), node("gpu", 2, LEARNERS, rates=rates()), node("cn", 3, rates=rates())]
    busy = planned(nodes, "L1A6")
    assert where(busy, Role.LEARNER) == ["gpu"]
    idle = planned(nodes, "L1A2", distributed={"learner_cores": 1})
    assert where(idle, Role.LEARNER) == ["head"]
    assert where(idle, Role.ACTOR) == ["head", "head"]
    assert broken(busy, nodes) == broken(idle, nodes) == []


def test_links_say_what_goes_where_and_what_the_network_cannot_carry_is_noted() -> None:
    nodes = [node("gpu", 2, LEARNERS, rates=rates()), node("cn", 4, ACTORS, rates=rates(), mb_per_s=1.0, wan=True)]
    plan = planned(nodes, "L2A4", distributed={"learner_cores": 1})
    there, back = links_of(plan)
    assert (there.source, there.target, there.policies, there.actors) == ("gpu", "cn", (0, 1), 0)
    assert (back.source, back.actors, back.policies, back.wan) == ("cn", 4, (), True)
    assert back.carries == "fragments of 4 actors"
    assert back.mb_per_s == pytest.approx((plan.predicted.env_steps_per_s or 0) * (2 * 4 * 4 + 40) / 1e6)
    assert any("cn → gpu" in note and "at most" in note for note in plan.notes)


def test_a_host_with_nothing_to_do_stands_ready_and_is_said_to() -> None:
    plan = planned([node("a", 4), node("b", 4)], "L1A2")
    assert [host.name for host in plan.hosts] == ["a", "b"]
    assert plan.on("b") == ()
    assert any(note.startswith("b: nothing runs there yet") for note in plan.notes)
    assert "b slots" not in openmpi_hostfile(plan)


def test_learners_stay_inside_one_numa_node_of_their_host() -> None:
    nodes = [node("a", 10, domains=2), node("b", 4)]
    plan = planned(nodes, "L2A2", distributed={"learner_cores": 3})
    assert next(p.cores for p in plan.of_role(Role.LEARNER) if p.host == "a") == (0, 1, 2)
    assert broken(plan, nodes) == []


def test_the_same_hosts_give_the_same_bytes() -> None:
    nodes = [node("a", 6, rates=rates(), domains=2), node("b", 4, rates=rates())]
    first = plan_bytes(planned(nodes))
    assert first == plan_bytes(planned(nodes))
    assert Plan.model_validate_json(first) == planned(nodes)
