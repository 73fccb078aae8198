"""What a lost node means, how the plan goes on, and when a change of it is over: decided without a process."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from runtime.contract.arrangement import ArrangementError, is_settled, rearrange
from runtime.contract.messages import ComponentReport, LinkReport, OpenLink, Report, ResetLink, RingLedger
from runtime.contract.plan import HostPlan, Plan
from runtime.contract.shape import Shape
from runtime.contract.states import ComponentState, Role
from runtime.control import losses
from runtime.control.counted import Base
from runtime.control.fold import Fold
from runtime.control.links import LinkState, Send
from runtime.control.losses import judge, with_node_again, with_node_anew, without_homes
from runtime.control.membership import Membership
from runtime.control.nodes import Heard
from runtime.control.revisions import ASSIGN_AGAIN_S, DRAIN_S, Revisions, may_settle

if TYPE_CHECKING:
    from runtime.contract.paths import RunPaths

HEAD, SECOND, THIRD = "tj0", "tj1", "tj2"
SILENT = "no word for 2.6 s"


def three_nodes(make_plan: Any, **job: Any) -> Plan:
    """L2A6: group 0 at home at tj0, group 1 at tj1; one actor of each is at tj2."""
    made: Plan = make_plan(learners=2, actors=6, **job)
    place = {"learner-1": SECOND, "buffer-1": SECOND, "actor-1": SECOND, "actor-3": SECOND, "actor-4": THIRD,
             "actor-5": THIRD}  # fmt: skip
    hosts = tuple(HostPlan(name=name, cores=tuple(range(6))) for name in (HEAD, SECOND, THIRD))
    cores = dict.fromkeys((HEAD, SECOND, THIRD), 0)
    placements = []
    for p in made.placements:
        host = place.get(p.name, HEAD)
        placements.append(p.model_copy(update={"host": host, "cores": (cores[host],), "core_share": 1.0}))
        cores[host] += p.role is not Role.BUFFER
    return made.model_copy(update={"hosts": hosts, "placements": tuple(placements)})


@pytest.fixture
def plan(make_plan: Any) -> Plan:
    return three_nodes(make_plan)


# -- what a loss means


def test_a_loss_names_the_node_the_reason_who_is_away_and_what_comes_of_it(plan: Plan) -> None:
    assert judge(plan, {}) is None
    loss = judge(plan, {THIRD: SILENT})
    assert loss is not None
    assert loss.text == f"node tj2 is lost ({SILENT}): actor-4, actor-5 are away; training goes on with L2A4"
    assert (loss.paused, loss.hopeless) == (False, False)
    both = judge(plan, {THIRD: SILENT, SECOND: SILENT})
    assert both is not None
    assert "training goes on with L1A2" in both.text
    assert "learner-1, buffer-1, actor-1, actor-3 are away" in both.text


def test_a_loss_says_what_becomes_of_actors_elsewhere_and_when(make_plan: Any) -> None:
    plan = three_nodes(make_plan)
    loss = judge(plan, {SECOND: SILENT})
    assert loss is not None
    assert loss.text == (
        f"node tj1 is lost ({SILENT}): learner-1, buffer-1, actor-1, actor-3 are away; training goes on with L1A3; "
        "its 1 actor elsewhere joins another group in 12 s unless it is back"
    )
    more = tuple(p.model_copy(update={"host": THIRD}) if p.name == "actor-3" else p for p in plan.placements)
    loss = judge(plan.model_copy(update={"placements": more}), {SECOND: SILENT})
    assert loss is not None
    assert loss.text.endswith("; its 2 actors elsewhere join other groups in 12 s unless it is back")
    longer = judge(three_nodes(make_plan, elastic={"regroup_after": "2m"}), {SECOND: SILENT})
    assert longer is not None
    assert "in 120 s unless it is back" in longer.text
    moved = judge(without_homes(plan, frozenset({SECOND})), {SECOND: SILENT})
    assert moved is not None
    assert moved.text.endswith("training goes on with L1A4"), "nobody is left to be moved"


def test_a_loss_says_that_actors_elsewhere_stand_idle_where_no_group_can_take_them(
    plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **_awaited: object) -> Plan:
        raise ArrangementError("no room", hint="-")

    monkeypatch.setattr(losses, "regroup", full)
    loss = judge(plan, {SECOND: SILENT})
    assert loss is not None
    assert loss.text.endswith("training goes on with L1A3; its 1 actor elsewhere has nothing to do until it is back")


def test_what_is_left_may_be_too_little(make_plan: Any) -> None:
    waits = judge(three_nodes(make_plan, elastic={"node_loss": "wait"}), {THIRD: SILENT})
    assert waits is not None
    assert waits.paused
    assert waits.text.endswith("; paused until tj2 is back (elastic.node_loss: wait)")
    both = judge(three_nodes(make_plan, elastic={"node_loss": "wait"}), {SECOND: SILENT, THIRD: SILENT})
    assert both is not None
    assert both.text.endswith("; paused until they are back (elastic.node_loss: wait)")
    bounded = three_nodes(make_plan, elastic={"min": "L2A2"})
    enough = judge(bounded, {THIRD: SILENT})
    assert enough is not None
    assert not enough.paused
    less = judge(bounded, {SECOND: SILENT})
    assert less is not None
    assert less.paused
    assert less.text.endswith("; paused until tj1 is back: L1A3 is below elastic.min L2A2")


def test_without_any_learner_there_is_no_hope_but_in_its_return(plan: Plan) -> None:
    moved = plan.model_copy(
        update={"placements": tuple(p.model_copy(update={"host": SECOND}) for p in plan.placements)}
    )
    loss = judge(moved, {SECOND: SILENT})
    assert loss is not None
    assert (loss.paused, loss.hopeless) == (True, True)
    assert "no learner is left" in loss.text


# -- how the plan goes on


def test_actors_whose_home_stays_away_serve_another_group_until_it_is_back(plan: Plan) -> None:
    away = frozenset({SECOND})
    after = without_homes(plan, away)
    assert after.revision == plan.revision + 1
    assert {p.name for p in after.placements if p.leaving} == {"actor-5"}, (
        "it is the one of group 1 that is still there"
    )
    new = [p for p in after.placements if p.name not in {q.name for q in plan.placements}]
    assert [(p.group, p.host) for p in new] == [(0, THIRD)]
    assert without_homes(after, away) is after, "once"
    back = with_node_again(after, frozenset())
    counts = {g: sum(not p.leaving for p in back.group_of(g, Role.ACTOR)) for g in (0, 1)}
    assert counts == {0: 3, 1: 3}


def test_a_run_that_waits_moves_nobody(make_plan: Any) -> None:
    plan = three_nodes(make_plan, elastic={"node_loss": "wait"})
    assert without_homes(plan, frozenset({SECOND})) is plan


def test_what_a_node_lost_is_made_anew_and_learners_take_after_one_that_lives(plan: Plan) -> None:
    after = with_node_anew(plan, SECOND, frozenset())
    assert after.revision == plan.revision + 1
    assert not [p.name for p in after.placements if p.group == 1], "nothing of that group can be used any more"
    (learner,) = [p for p in after.of_role(Role.LEARNER) if p.group != 0]
    assert (learner.donor, learner.name) == (0, "learner-2"), "no name is given twice"
    assert sum(not p.leaving for p in after.of_role(Role.ACTOR)) == 6
    third = with_node_anew(plan, THIRD, frozenset())
    assert {p.name for p in third.placements if p.leaving} == {"actor-4", "actor-5"}, "what has arrived is still used"
    assert {p.name for p in third.placements} > {p.name for p in plan.placements}


def test_without_a_living_learner_nothing_can_be_made_anew(plan: Plan) -> None:
    left = plan.model_copy(update={"placements": tuple(p for p in plan.placements if p.group == 1), "shape": "L1A3"})
    with pytest.raises(ArrangementError):
        with_node_anew(left, SECOND, frozenset())


def test_where_every_other_learner_is_away_what_is_gone_is_marked_and_filled_later(plan: Plan) -> None:
    only = plan.model_copy(
        update={
            "placements": tuple(p.model_copy(update={"host": THIRD}) if p.group == 0 else p for p in plan.placements)
        }
    )
    after = with_node_anew(only, SECOND, frozenset({THIRD}))
    assert after.revision == only.revision + 1
    assert {p.name for p in after.placements} == {p.name for p in only.placements if p.group == 0}
    later = with_node_again(after, frozenset())
    assert [(p.name, p.donor) for p in later.of_role(Role.LEARNER)] == [("learner-0", None), ("learner-2", 0)]


# -- when a change is over


def report(plan: Plan, node: str, rings: dict[str, RingLedger] | None = None, **states: ComponentState) -> Report:
    components = tuple(
        ComponentReport(name=p.name, role=p.role, state=states.get(p.name.replace("-", "_"), ComponentState.RUNNING))
        for p in plan.on(node)
    )
    return Report(node=node, sequence=1, components=components, revision=plan.revision, rings=rings or {})


def test_a_change_is_over_when_all_that_leaves_has_left_and_is_used_up(plan: Plan) -> None:
    after = rearrange(plan, Shape(2, 5))
    (leaving,) = [p for p in after.placements if p.leaving]
    ring, home = f"fragments.{leaving.name}", after.home(leaving.group)
    fold = Fold(after, Base())
    for host in after.hosts:
        fold.take(report(after, host.name), 1.0)
    assert not may_settle(after, fold, waited_s=1.0), "it still works"
    made, used = RingLedger(produced=64, consumed=64), RingLedger(produced=64, consumed=32)
    gone: Any = {leaving.name.replace("-", "_"): ComponentState.EXITED}
    fold.take(report(after, leaving.host, {ring: made}, **gone), 2.0)
    fold.take(report(after, home, {ring: used}, **(gone if home == leaving.host else {})), 2.0)
    assert (home == leaving.host) or not may_settle(after, fold, waited_s=1.0)
    assert may_settle(after, fold, waited_s=DRAIN_S), "it has had its time"
    fold.take(report(after, home, {ring: made}, **(gone if home == leaving.host else {})), 3.0)
    assert may_settle(after, fold, waited_s=1.0)


def test_a_change_is_not_over_while_somebody_may_still_be_reading_its_plan(plan: Plan) -> None:
    after = rearrange(plan, Shape(2, 5))
    (leaving,) = [p for p in after.placements if p.leaving]
    fold = Fold(after, Base())
    states: Any = {leaving.name.replace("-", "_"): ComponentState.EXITED, "buffer_1": ComponentState.STARTING}
    for host in after.hosts:
        fold.take(report(after, host.name, **states), 1.0)
    assert not may_settle(after, fold, waited_s=1.0), "a buffer that is replaced has not read it yet perhaps"
    states["buffer_1"] = ComponentState.RUNNING
    fold.take(report(after, after.home(1), **states), 2.0)
    assert may_settle(after, fold, waited_s=2.0)
    fold.take(report(after, THIRD, **states).model_copy(update={"revision": plan.revision}), 3.0)
    assert not may_settle(after, fold, waited_s=3.0), "nor has a node that works by the plan before"
    fold.lose(THIRD, SILENT)
    assert may_settle(after, fold, waited_s=4.0), "one that is away is not waited for"


def test_a_new_learner_keeps_its_donor_until_it_works_however_long_that_takes(plan: Plan) -> None:
    after = rearrange(plan, Shape(3, 6))
    (new,) = [p for p in after.placements if p.donor is not None]
    fold = Fold(after, Base())
    states: Any = {new.name.replace("-", "_"): ComponentState.STARTING}
    for p in (p for p in after.placements if p.leaving):
        states[p.name.replace("-", "_")] = ComponentState.EXITED
    for host in after.hosts:
        fold.take(report(after, host.name, **states), 1.0)
    assert not may_settle(after, fold, waited_s=10 * DRAIN_S)
    states[new.name.replace("-", "_")] = ComponentState.RUNNING
    for host in after.hosts:
        fold.take(report(after, host.name, **states), 2.0)
    assert may_settle(after, fold, waited_s=1.0)


def test_an_agent_is_told_the_plan_again_until_it_follows(plan: Plan, run_folder: RunPaths) -> None:
    revisions = Revisions(run_folder, plan, attempt=3, now=0.0)
    members = Membership(plan, (), now=0.0)
    assert revisions.due(members.nodes[SECOND], 1.0) is None, "nobody is there to be told"
    members.heard(SECOND, Heard(instance="a"), 1.0)
    told = revisions.due(members.nodes[SECOND], 1.0)
    assert told is not None
    assert (told.plan, told.attempt) == (plan, 3)
    assert revisions.due(members.nodes[SECOND], 1.5) is None
    assert revisions.due(members.nodes[SECOND], 1.0 + ASSIGN_AGAIN_S) is not None
    members.heard(SECOND, Heard(instance="b"), 2.1)
    assert revisions.due(members.nodes[SECOND], 2.2) is not None, "another agent has not heard of it"
    members.heard(SECOND, Heard(instance="b", revision=1), 2.3)
    assert revisions.due(members.nodes[SECOND], 9.0) is None
    after = rearrange(plan, Shape(2, 5))
    assert revisions.replace(after, 10.0)
    assert Plan.model_validate_json(run_folder.plan.read_bytes()) == after
    assert revisions.due(members.nodes[SECOND], 10.0) is not None
    assert not is_settled(after)


def test_a_plan_that_cannot_be_written_does_not_hold(plan: Plan, run_folder: RunPaths) -> None:
    revisions = Revisions(run_folder, plan, attempt=1, now=0.0)
    run_folder.root.chmod(0o755)
    run_folder.plan.mkdir()  # a rename onto a folder fails, for root too
    assert not revisions.replace(rearrange(plan, Shape(2, 5)), 1.0)
    assert revisions.plan is plan


# -- who is in the run


def end(peer: str, state: Any = "ready", serial: int = 0) -> LinkReport:
    return LinkReport(peer=peer, state=state, serial=serial)


def linked(node: str, *ends: LinkReport) -> Report:
    return Report(node=node, sequence=1, components=(), links=ends)


def test_a_link_begins_with_the_first_word_of_it_and_ends_when_nobody_tells_of_it(plan: Plan) -> None:
    members = Membership(plan, (), now=0.0)
    for name in (HEAD, SECOND):
        members.heard(name, Heard(instance="a"), 0.0)
    members.reported(linked(SECOND, end(HEAD), end("stranger")), 0.1)
    assert list(members.links) == [(HEAD, SECOND)], "the first by the plan's order accepts; strangers have no links"
    effects = members.reported(linked(HEAD, end(SECOND)), 0.1)
    assert [effect.message for effect in effects if isinstance(effect, Send)] == [OpenLink(peer=SECOND, serial=1)]
    members.reported(linked(HEAD), 0.2)
    assert members.links, "the other end still has it"
    members.reported(linked(SECOND), 0.2)
    assert not members.links


def test_a_node_that_begins_anew_has_its_peers_forget_it(plan: Plan) -> None:
    members = Membership(plan, (), now=0.0)
    for name in (HEAD, SECOND):
        members.heard(name, Heard(instance="a"), 0.0)
        members.reported(linked(name, end(SECOND if name == HEAD else HEAD, "up", 4)), 0.1)
    assert members.links[HEAD, SECOND].state is LinkState.UP
    _, effects = members.heard(SECOND, Heard(instance="b"), 0.2)
    orders = [effect for effect in effects if isinstance(effect, Send)]
    assert [(order.node, order.message) for order in orders] == [(HEAD, ResetLink(peer=SECOND, serial=5))]
    assert members.is_former(SECOND, "a")


def test_the_head_is_never_lost_and_dropped_nodes_are_known_until_they_are_forgotten(plan: Plan) -> None:
    members = Membership(plan, (), now=0.0)
    for name in (HEAD, SECOND, THIRD):
        members.heard(name, Heard(instance="a"), 0.0)
    for tenth in range(1, 40):
        members.tick(tenth / 10)
    assert set(members.lost()) == {SECOND, THIRD}
    assert members.lost_for(SECOND, 10.0) > 6.0
    smaller = plan.model_copy(update={"hosts": plan.hosts[:2]})
    members.revise(smaller)
    assert (set(members.lost()), members.departing(), members.knows(THIRD)) == ({SECOND}, [THIRD], True)
    members.forget(THIRD)
    assert not members.knows(THIRD)


def test_an_end_that_outlives_a_forgotten_node_is_closed_without_another_word(plan: Plan) -> None:
    members = Membership(plan, (), now=0.0)
    for name in (HEAD, SECOND):
        members.heard(name, Heard(instance="a"), 0.0)
        members.reported(linked(name, end(SECOND if name == HEAD else HEAD)), 0.1)
    members.revise(plan.model_copy(update={"hosts": tuple(host for host in plan.hosts if host.name != SECOND)}))
    members.forget(SECOND)
    assert not members.links
    for ends in ((end(SECOND),), ()):
        assert members.reported(linked(HEAD, *ends), 0.2) == []
    assert not members.links
