"""Nodes that come, fall silent, return, and begin anew: by the coordinator's own clock and no other."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.control.nodes import Came, Change, Heard, Node, NodeState, Renewed, Returned, Tick, Went, step

LIMIT_S = 2.5


def play(*events: tuple[float, Heard | Tick], node: Node | None = None) -> tuple[Node, list[Change]]:
    node = node or Node(name="tj2", limit_s=LIMIT_S)
    changes: list[Change] = []
    for now, event in events:
        node, new = step(node, event, now=now)
        changes += new
    return node, changes


def ticks(begin: float, end: float, every: float = 0.25) -> list[tuple[float, Heard | Tick]]:
    return [(begin + number * every, Tick()) for number in range(int((end - begin) / every) + 1)]


def here(instance: str = "a", revision: int = 1) -> Heard:
    return Heard(instance=instance, revision=revision)


def test_a_node_waits_until_its_first_word_however_long_that_takes() -> None:
    node, changes = play(*ticks(0, 100))
    assert (node.state, node.age_s(100.0), changes) == (NodeState.WAITING, None, [])
    node, changes = play((101.0, here()), node=node)
    assert node.connected
    assert changes == [Came(node="tj2")]


def test_a_silent_node_is_lost_within_its_limit_and_one_look_and_said_once() -> None:
    node, changes = play((0.0, here()), *ticks(0.25, 60))
    assert [type(change) for change in changes] == [Came, Went]
    assert "health.node" in node.reason
    assert node.lost_at is not None
    assert LIMIT_S < node.lost_at <= LIMIT_S + 0.25


def test_the_same_instance_returns_and_another_one_begins_anew() -> None:
    node, _ = play((0.0, here()), *ticks(0.25, 5))
    same, changes = play((7.0, here()), node=node)
    assert same.connected
    assert [type(change) for change in changes] == [Returned]
    other, changes = play((7.0, here("b", revision=0)), node=node)
    assert other.connected
    assert other.revision == 0
    assert [type(change) for change in changes] == [Renewed]


def test_an_agent_that_was_replaced_before_anybody_noticed_is_another_instance_all_the_same() -> None:
    node, changes = play((0.0, here()), (0.2, here("b")))
    assert [type(change) for change in changes] == [Came, Renewed]
    late, changes = play((0.3, here("a", revision=9)), node=node)
    assert (late, changes) == (node, []), "the dead instance's last words are not heard"


def test_a_coordinator_that_stood_still_blames_nobody() -> None:
    node, _ = play((0.0, here()))
    node, changes = play((0.1, Tick()), (30.0, Tick()), node=node)
    assert (node.state, changes) == (NodeState.CONNECTED, [])
    node, changes = play(*ticks(30.25, 34), node=node)
    assert [type(change) for change in changes] == [Went], "but from then on its silence counts"


def test_the_offset_of_its_clock_is_shown_and_judges_nothing() -> None:
    node, _ = play((0.0, Heard(instance="a", sent_at=5000.25, wall=1400.0)), (1.0, Tick()))
    assert (node.offset_s, node.connected) == (3600.25, True)
    again, _ = play((1.1, Heard(instance="a")), node=node)
    assert again.offset_s == 3600.25, "a word without a time says nothing about clocks"


def test_a_coordinator_that_takes_over_gives_everybody_their_time() -> None:
    node, _ = play((0.0, here()), *ticks(0.25, 2.0))
    heir = Node.model_validate_json(node.model_dump_json()).expected(100.0)
    node, changes = play(*ticks(100.0, 104.0), node=heir)
    assert (node.connected, changes) == (True, [])
    _, changes = play((104.1, here()), node=node)
    assert changes == [], "it was there all the time"
    _, changes = play(*ticks(100.0, 105.0), node=heir)
    assert [type(change) for change in changes] == [Went], "but not for ever"


@given(st.lists(st.tuples(st.floats(0.01, 3.0), st.sampled_from(["a", "b", "c", "tick"])), max_size=60))
def test_whatever_happens_every_loss_ends_in_one_return_or_renewal(story: list[tuple[float, str]]) -> None:
    now, events = 0.0, []
    for pause, what in story:
        now += pause
        events.append((now, Tick() if what == "tick" else here(what)))
    node, changes = play(*events)
    lost = False
    for change in changes:
        match change:
            case Went():
                assert not lost
                lost = True
            case Returned():
                assert lost
                lost = False
            case Renewed():
                lost = False
            case Came():
                assert change is changes[0]
    assert lost == (node.state is NodeState.LOST)


@pytest.mark.parametrize("limit_s", [0.5, 2.5, 20.0])
def test_the_limit_is_the_jobs(limit_s: float) -> None:
    node = Node(name="tj2", limit_s=limit_s)
    node, _ = play((0.0, here()), *ticks(0.25, 40), node=node)
    assert node.lost_at is not None
    assert limit_s < node.lost_at <= limit_s + 0.25
