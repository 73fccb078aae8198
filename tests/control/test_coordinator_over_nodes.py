"""The coordinator of a run over two nodes, as a real process; agents are played over real sockets."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest

from runtime.contract.messages import RingLedger
from runtime.contract.operator import ScaleRequest, StopRequest, ask
from runtime.contract.plan import HostPlan, Plan
from runtime.contract.record import CompletionRecord
from runtime.contract.states import ComponentState, Role, RunState
from support.two_nodes import PATIENCE_S, Theatre

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from runtime.contract.paths import RunPaths
    from runtime.contract.view import RunView

HEAD, OTHER = "tj0", "tj1"
HEALTH = {"node": 1.5, "checkpoint": 2.0}


@pytest.fixture
def theatre(run_folder: RunPaths, make_plan: Any, write_run_files: Any) -> Iterator[Callable[..., Theatre]]:
    """L1A3, of which `away` are at the other node."""
    opened: list[Theatre] = []

    def build(*, away: frozenset[str] = frozenset({"actor-1", "actor-2"}), **job: Any) -> Theatre:
        made: Plan = make_plan(learners=1, actors=3, **{"health": HEALTH, **job})
        hosts = (HostPlan(name=HEAD, cores=(0, 1)), HostPlan(name=OTHER, cores=(0, 1)))
        placements = tuple(
            p.model_copy(update={"host": OTHER if p.name in away else HEAD, "cores": (number % 2,), "core_share": 1.0})
            for number, p in enumerate(made.placements)
        )
        plan = made.model_copy(update={"hosts": hosts, "placements": placements})
        write_run_files(run_folder, plan)
        opened.append(Theatre(run_folder, plan))
        opened[-1].open()
        return opened[-1]

    yield build
    for theatre in opened:
        theatre.close()


def until_running(theatre: Theatre) -> RunView:
    view = theatre.until("running", lambda: (v := theatre.view()).state is RunState.RUNNING and up(v) and v)
    assert view.shape.present == view.shape.wanted
    return view  # type: ignore[no-any-return]


def up(view: RunView) -> bool:
    return bool(view.links) and all(link.state == "up" for link in view.links)


def states(view: RunView, host: str) -> set[ComponentState]:
    return {component.state for component in view.components if component.host == host}


def test_an_agent_without_a_plan_is_given_one_and_its_link_is_brought_up(theatre: Callable[..., Theatre]) -> None:
    stage = theatre()
    view = until_running(stage)
    assert stage.agents[OTHER].plan == stage.plan()
    assert stage.agents[OTHER].assigned == [1], "told once"
    assert stage.agents[HEAD].assigned == [], "the head's agent had it"
    assert [(host.name, host.state, host.head) for host in view.hosts] == [
        (HEAD, "connected", True), (OTHER, "connected", False)
    ]  # fmt: skip
    assert [(link.source, link.target, link.transport, link.mb_per_s) for link in view.links] == [
        (HEAD, OTHER, "tcp", 1.0), (OTHER, HEAD, "tcp", 1.0)
    ]  # fmt: skip
    assert view.hosts[1].clock_offset_s == pytest.approx(0.0, abs=0.5)
    assert [event.host for event in stage.events("node.connected")] == [OTHER]
    assert len(stage.events("link.up")) == 1


def test_a_silent_node_is_lost_in_time_and_goes_on_when_it_speaks_again(theatre: Callable[..., Theatre]) -> None:
    stage = theatre()
    until_running(stage)
    stage.agents[OTHER].counters = {"actor-1": {"env_steps": 100}}
    stage.until("counted", lambda: stage.view().progress.env_steps == 100)
    stage.agents[OTHER].silent = True
    fell_silent = time.monotonic()
    view = stage.until("lost", lambda: (v := stage.view()).hosts[1].state == "lost" and v)
    assert time.monotonic() - fell_silent < HEALTH["node"] + 10.0  # what counts is that it is not much longer
    view = stage.until("degraded", lambda: (v := stage.view()).state is RunState.DEGRADED and v)
    assert states(view, OTHER) == {ComponentState.AWAY}
    assert states(view, HEAD) == {ComponentState.RUNNING}
    assert f"node {OTHER} is lost" in view.reason
    assert "actor-1, actor-2 are away" in view.reason
    assert "training goes on with L1A1" in view.reason
    assert (view.shape.present, view.progress.env_steps) == ("L1A1", 100)
    assert [link.state for link in view.links] == ["lost", "lost"]
    assert not stage.agents[HEAD].paused

    stage.agents[OTHER].silent = False
    until_running(stage)
    assert stage.agents[OTHER].assigned == [1], "nothing was replaced"
    assert [event.kind for event in stage.events("node.lost", "node.back", "plan.revised")] == [
        "node.lost",
        "node.back",
    ]
    lost, degraded = stage.events("node.lost")[0], stage.events("run.state")[-2]
    assert degraded.cause == lost.id


def test_a_node_that_begins_anew_gets_new_components_for_those_it_lost(theatre: Callable[..., Theatre]) -> None:
    stage = theatre(algorithm="dqn")
    until_running(stage)
    head, other = stage.agents[HEAD], stage.agents[OTHER]
    other.rings = {"fragments.actor-1": RingLedger(produced=900), "fragments.actor-2": RingLedger(produced=50)}
    head.rings = {
        "fragments.actor-1": RingLedger(produced=600, consumed=500),
        "fragments.actor-2": RingLedger(produced=50, consumed=50),
    }
    stage.until("counted", lambda: stage.view().samples.produced == 950)
    other.renew()
    stage.until("marked", lambda: stage.plan().revision >= 2)
    leaving = {p.name for p in stage.plan().placements if p.leaving}
    assert leaving == {"actor-1", "actor-2"}, "what has arrived of actor-1 is still to be used"
    stage.until("reset", lambda: OTHER in head.resets)
    head.rings = {**head.rings, "fragments.actor-1": RingLedger(produced=600, consumed=600)}
    stage.until("settled", lambda: stage.plan().revision == 3)
    view = until_running(stage)
    assert view.shape.present == "L1A3"
    actors = sorted(p.name for p in stage.plan().of_role(Role.ACTOR))
    assert actors == ["actor-0", "actor-3", "actor-4"]
    stage.until("closed", lambda: stage.view().samples.in_flight == 0)
    samples = stage.view().samples
    assert (samples.produced, samples.consumed, samples.dropped_other) == (950, 650, 300)


def test_a_coordinator_that_is_killed_is_followed_by_one_that_has_forgotten_nothing(
    theatre: Callable[..., Theatre],
) -> None:
    stage = theatre()
    before = until_running(stage)
    port = stage.paths.wire_port.read_text()
    stage.agents[OTHER].counters = {"actor-1": {"env_steps": 700}}
    stage.agents[HEAD].counters = {"learner-0": {"updates": 40}}
    stage.until("saved", lambda: b'"env_steps":700' in stage.paths.coordinator_state.read_bytes())
    stage.kill_coordinator()
    stage.process = stage.start()
    stage.until("resumed", lambda: stage.events("coordinator.resumed"))
    view = stage.until(
        "heard", lambda: (v := stage.view()) and all(h.heartbeat_age_s is not None for h in v.hosts) and v
    )
    assert (view.state, view.progress.env_steps, view.progress.updates) == (RunState.RUNNING, 700, 40)
    assert stage.paths.wire_port.read_text() == port
    until_running(stage)
    known = [(c.name, c.host) for c in before.components]
    stage.until("known again", lambda: [(c.name, c.host) for c in stage.view().components] == known)
    assert stage.agents[OTHER].assigned == [1]
    serials = {link.serial for agent in stage.agents.values() for link in agent.links.values()}
    assert serials == {1}, "a link that is up is let alone"
    assert stage.events("node.lost", "node.back", "link.lost") == []


def test_scaling_marks_who_leaves_waits_until_they_have_drained_and_then_drops_them(
    theatre: Callable[..., Theatre],
) -> None:
    stage = theatre(algorithm="dqn")
    until_running(stage)
    dry = ask(stage.paths.control_socket, ScaleRequest(shape="L1A1", dry_run=True))
    assert dry.ok
    assert stage.plan().revision == 1
    other, head = stage.agents[OTHER], stage.agents[HEAD]
    other.rings = {"fragments.actor-2": RingLedger(produced=64, consumed=32)}
    head.rings = {"fragments.actor-2": RingLedger(produced=32, consumed=32)}
    other.counters = {"actor-2": {"env_steps": 640}}
    reply = ask(stage.paths.control_socket, ScaleRequest(shape="L1A1"))
    assert reply.ok, reply.error
    assert reply.data["shape_after"] == "L1A1"
    stage.until("told", lambda: all(agent.revision == 2 for agent in stage.agents.values()))
    leaving = sorted(p.name for p in stage.plan().placements if p.leaving)
    assert len(leaving) == 2
    assert "actor-2" in leaving
    refused = ask(stage.paths.control_socket, ScaleRequest(shape="L1A2"))
    assert not refused.ok
    stage.until("exited", lambda: ComponentState.EXITED in states(stage.view(), OTHER))
    assert stage.plan().revision == 2, "a fragment of actor-2 is still on its way"
    assert stage.view().state is RunState.RUNNING, "nobody misses who was to leave"
    other.rings = head.rings = {"fragments.actor-2": RingLedger(produced=64, consumed=64)}
    stage.until("settled", lambda: all(agent.revision == 3 for agent in stage.agents.values()))
    view = stage.until("dropped", lambda: (v := stage.view()).samples.in_flight == 0 and v)
    assert {c.name for c in view.components if c.role is Role.ACTOR} == {"actor-0"}
    assert (view.shape.wanted, view.shape.present) == ("L1A1", "L1A1")
    assert (view.samples.produced, view.samples.consumed) == (64, 64)
    assert view.progress.env_steps == 640, "what it counted stays"


def test_a_node_joins_while_the_run_goes_on_and_leaves_again(theatre: Callable[..., Theatre]) -> None:
    stage = theatre(algorithm="dqn")
    until_running(stage)
    joins = HostPlan(name="tj2", cores=(0, 1))
    reply = ask(stage.paths.control_socket, ScaleRequest(shape="L1A5", add=(joins,)))
    assert reply.ok, reply.error
    assert "tj2" in reply.data["hosts_added"]
    third = stage.add("tj2")
    stage.until("used", lambda: third.plan is not None and third.plan.on("tj2"))
    assert (
        stage.until("running", lambda: (v := stage.view()).shape.present == "L1A5" and up(v) and v).hosts[2].name
        == "tj2"
    )
    reply = ask(stage.paths.control_socket, ScaleRequest(shape="L1A3", remove=("tj2",)))
    assert reply.ok, reply.error
    stage.until("dismissed", lambda: third.over)
    assert [host.name for host in stage.plan().hosts] == [HEAD, OTHER]
    until_running(stage)


@pytest.mark.parametrize(
    ("elastic", "words"),
    [({"node_loss": "wait"}, "elastic.node_loss: wait"), ({"min": "L1A3"}, "L1A1 is below elastic.min L1A3")],
)
def test_a_run_that_may_not_shrink_pauses_until_its_node_is_back(
    theatre: Callable[..., Theatre], elastic: dict[str, str], words: str
) -> None:
    stage = theatre(elastic=elastic)
    until_running(stage)
    stage.agents[OTHER].silent = True
    stage.until("paused", lambda: stage.agents[HEAD].paused)
    view = stage.view()
    assert view.state is RunState.DEGRADED
    assert words in view.reason
    stage.agents[OTHER].silent = False
    stage.until("goes on", lambda: not stage.agents[HEAD].paused)
    until_running(stage)


def test_a_run_without_a_learner_waits_for_it_and_then_fails(theatre: Callable[..., Theatre]) -> None:
    stage = theatre(away=frozenset({"learner-0", "buffer-0", "actor-0"}))
    until_running(stage)
    stage.agents[OTHER].silent = True
    stage.until("paused", lambda: stage.agents[HEAD].paused)
    assert "no learner is left: paused" in stage.view().reason
    stage.until("told to stop", lambda: stage.agents[HEAD].over)
    assert stage.process.wait(PATIENCE_S) == 0
    record = CompletionRecord.model_validate_json(stage.paths.completion.read_bytes())
    assert record.state is RunState.FAILED
    assert "no learner is left since 2 s" in record.reason
    assert "tianjictl resume" in record.reason


def test_a_run_ends_although_one_of_its_nodes_cannot_be_asked(theatre: Callable[..., Theatre]) -> None:
    stage = theatre()
    until_running(stage)
    stage.agents[OTHER].silent = True
    stage.until("lost", lambda: stage.view().hosts[1].state == "lost")
    ask(stage.paths.control_socket, StopRequest(reason="enough", checkpoint=False))
    stage.until("over", lambda: stage.agents[HEAD].over)
    assert stage.process.wait(PATIENCE_S) == 0
    assert CompletionRecord.model_validate_json(stage.paths.completion.read_bytes()).state is RunState.STOPPED
