"""Links between nodes: how two ends are brought together, and again, whatever happens to either."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runtime.contract.messages import JoinLink, LinkReport, OpenLink, ResetLink
from runtime.control.links import TRY_S, Effect, Gone, Link, LinkState, Renewed, Reported, Say, Send, Tick, step

A, B = "tj1", "tj2"


class End:
    """An agent's end of the link; it obeys at once. Both ends are up when both were told to meet with one number."""

    def __init__(self, peer: str) -> None:
        self.peer = peer
        self.state: Literal["starting", "ready", "open", "joining", "up", "lost"] = "ready"
        self.serial = 0
        self.port: str | None = None
        self.deaf = False
        self.resets = 0

    def obey(self, message: object) -> None:
        if self.deaf:
            return
        match message:
            case OpenLink(serial=serial):
                self.state, self.serial, self.port = "open", serial, f"port-{serial}"
            case JoinLink(serial=serial, port=port):
                assert port in (None, f"port-{serial}")
                self.state, self.serial, self.port = "joining", serial, port
            case ResetLink(serial=serial):
                self.state, self.serial, self.port = "ready", serial, None
                self.resets += 1

    def report(self) -> LinkReport:
        return LinkReport(
            peer=self.peer, state=self.state, serial=self.serial, port=self.port, transport="tcp",
            reason="broke" if self.state == "lost" else "",
        )  # fmt: skip


class Pair:
    """A link, its two ends, and a clock."""

    def __init__(self) -> None:
        self.link = Link(accepts=A, connects=B)
        self.ends = {A: End(B), B: End(A)}
        self.now = 0.0
        self.said: list[str] = []
        self.sent: list[Send] = []

    def feed(self, event: Any) -> None:
        self.link, effects = step(self.link, event, now=self.now)
        for effect in effects:
            self.perform(effect)

    def perform(self, effect: Effect) -> None:
        match effect:
            case Say(kind=kind):
                self.said.append(kind)
            case Send(node=node, message=message):
                self.sent.append(effect)
                self.ends[node].obey(message)

    def report(self, *nodes: str) -> None:
        for node in nodes or (A, B):
            self.feed(Reported(node, self.ends[node].report()))

    def turn(self) -> None:
        """Both ends report; two that were told to meet have met."""
        self.now += 0.05
        self.report()
        first, second = self.ends.values()
        if first.state == second.state == "joining" and first.serial == second.serial:
            first.state = second.state = "up"
        self.feed(Tick())

    def met(self) -> bool:
        return all(end.state == "up" and end.serial == self.link.serial for end in self.ends.values())

    def until(self, state: LinkState, within_s: float = 10.0) -> float:
        """Turns go by until the link is in this state, and, where that is up, both ends are so too."""
        began = self.now
        while self.link.state is not state or (state is LinkState.UP and not self.met()):
            self.turn()
            assert self.now - began < within_s, f"{self.link}"
        return self.now - began


def test_two_ends_that_are_ready_meet_at_the_port_that_the_first_opens() -> None:
    pair = Pair()
    assert pair.until(LinkState.UP) < 0.5
    kinds = [(send.node, type(send.message).__name__) for send in pair.sent]
    assert kinds == [(A, "OpenLink"), (A, "JoinLink"), (B, "JoinLink")]
    assert pair.sent[1].message == JoinLink(peer=B, serial=1)
    assert pair.sent[2].message == JoinLink(peer=A, serial=1, port="port-1")
    assert pair.said == ["link.up"]
    for _ in range(100):
        pair.turn()
    assert len(pair.sent) == 3, "a link that is up is let alone"


def test_a_link_waits_for_the_end_that_is_not_there_and_says_which() -> None:
    pair = Pair()
    pair.report(A)
    assert pair.link.reason == f"{B} is not heard of"
    pair.ends[B].state = "starting"
    pair.report(B)
    assert (pair.link.state, pair.link.reason) == (LinkState.WAITING, f"{B} starts its courier")
    assert pair.sent == []


@pytest.mark.parametrize("node", [A, B])
def test_a_link_that_breaks_at_either_end_is_joined_again_under_a_new_number(node: str) -> None:
    pair = Pair()
    pair.until(LinkState.UP)
    pair.ends[node].state = "lost"
    assert pair.until(LinkState.LOST) <= 0.05
    assert node in pair.link.reason
    assert pair.until(LinkState.UP) < 1.0
    assert pair.link.serial == 2
    assert pair.said == ["link.up", "link.lost", "link.up"]


def test_a_try_that_comes_to_nothing_is_over_in_time_and_the_next_ones_come_later_and_later() -> None:
    pair = Pair()
    pair.ends[B].deaf = True
    began = []
    while pair.now < 60.0:
        serial = pair.link.serial
        pair.turn()
        if pair.link.serial != serial:
            began.append(pair.now)
    pauses = [later - earlier - TRY_S for earlier, later in pairwise(began)]
    assert pauses == sorted(pauses)
    assert 0.2 <= pauses[0] < 0.4
    assert 2.0 <= pauses[-1] < 2.2
    assert pair.said == ["link.failed"], "a try that fails is said once, not every time"
    pair.ends[B].deaf = False
    assert pair.until(LinkState.UP, within_s=TRY_S + 3.0)


def test_an_old_word_is_not_taken_for_an_answer() -> None:
    pair = Pair()
    pair.until(LinkState.UP)
    pair.ends[A].state = "lost"
    stale = pair.ends[B].report()
    pair.until(LinkState.OPENING)
    pair.feed(Reported(B, stale))
    assert pair.link.state is not LinkState.UP, "up with the number of the try before is not up"
    pair.until(LinkState.UP)


def test_a_courier_that_was_replaced_ends_the_try_at_once() -> None:
    pair = Pair()
    pair.ends[B].deaf = True
    pair.until(LinkState.JOINING)
    pair.ends[A].state, pair.ends[A].serial = "starting", 0
    pair.report(A)
    assert pair.link.state is LinkState.LOST
    pair.ends[B].deaf, pair.ends[A].state = False, "ready"
    pair.until(LinkState.UP, within_s=2.0)


def test_a_lost_nodes_link_is_let_alone_until_it_speaks_again() -> None:
    pair = Pair()
    pair.until(LinkState.UP)
    pair.feed(Gone(B))
    assert (pair.link.state, pair.link.reason) == (LinkState.LOST, f"node {B} is lost")
    sent = len(pair.sent)
    for _ in range(100):
        pair.now += 0.1
        pair.report(A)
        pair.feed(Tick())
    assert len(pair.sent) == sent
    pair.report(B)
    assert pair.link.state is LinkState.UP, "only its agent was silent: the couriers never stopped"
    pair.feed(Gone(B))
    pair.ends[A].state = "lost"
    pair.report(B)
    assert pair.until(LinkState.UP, within_s=1.0)
    assert len(pair.sent) == sent + 3


def test_what_is_remembered_of_a_node_that_began_anew_is_forgotten_before_they_join_again() -> None:
    pair = Pair()
    pair.until(LinkState.UP)
    pair.ends[A].deaf = True  # it does not hear of it at first
    pair.ends[B] = End(A)
    pair.feed(Renewed(B))
    assert isinstance(pair.sent[-1].message, ResetLink)
    assert pair.sent[-1].node == A
    for _ in range(60):
        pair.turn()
    assert {type(send.message) for send in pair.sent[3:]} == {ResetLink}, "told again, and nothing else before"
    assert len(pair.sent[3:]) <= 4
    pair.ends[A].deaf = False
    pair.until(LinkState.UP, within_s=3.0)
    assert (pair.ends[A].resets, pair.ends[B].resets) == (1, 0)


def test_a_coordinator_that_takes_over_leaves_a_link_that_is_up_alone() -> None:
    before = Pair()
    before.until(LinkState.UP)
    after = Pair()
    after.ends = before.ends
    after.turn()
    assert (after.link.state, after.link.serial, after.sent, after.said) == (LinkState.UP, 1, [], [])
    after.ends[A].state = "lost"
    after.until(LinkState.UP)
    assert [end.serial for end in before.ends.values()] == [2, 2]


def test_ends_that_disagree_under_a_new_coordinator_are_joined_anew() -> None:
    pair = Pair()
    pair.ends[A].state, pair.ends[A].serial = "up", 7
    pair.ends[B].state, pair.ends[B].serial = "joining", 8
    pair.until(LinkState.UP)
    assert pair.link.serial == 9


calamities = st.sampled_from(
    ["lose A", "lose B", "replace A", "replace B", "gone B", "renew A", "renew B", "deaf B", "-"]
)


@settings(max_examples=200)
@given(st.lists(st.tuples(st.integers(1, 40), calamities), max_size=12))
def test_whatever_happens_a_link_is_up_again_soon_after_it_has_stopped_happening(
    story: list[tuple[int, str]],
) -> None:
    pair = Pair()
    for turns, what in story:
        for _ in range(turns):
            pair.turn()
        _befall(pair, what)
    for end in pair.ends.values():
        end.deaf = False
    assert pair.until(LinkState.UP, within_s=TRY_S + 4.0) >= 0.0
    sent = len(pair.sent)
    for _ in range(40):
        pair.turn()
    assert (pair.link.state, len(pair.sent)) == (LinkState.UP, sent)


def _befall(pair: Pair, what: str) -> None:
    verb, _, end = what.partition(" ")
    node = {"A": A, "B": B}.get(end, A)
    match verb:
        case "lose" if pair.ends[node].state == "up":
            pair.ends[node].state = "lost"
        case "replace":
            pair.ends[node].state, pair.ends[node].serial = "ready", 0
        case "gone":
            pair.feed(Gone(node))
        case "renew":
            pair.ends[node] = End(pair.link.other(node))
            pair.feed(Renewed(node))
        case "deaf":
            pair.ends[node].deaf = True


def test_a_link_knows_the_other_end() -> None:
    link = Link(accepts=A, connects=B)
    assert (link.other(A), link.other(B), link.name) == (B, A, f"{A}–{B}")
