"""What couriers are told to mirror, made from a wiring."""

from __future__ import annotations

from runtime.contract.states import Role
from runtime.control.mirror_orders import descriptors_for, mirror_orders
from runtime.control.outbox import MOST_AT_ONCE, MOST_KEPT, Outbox
from runtime.courier.codec import BoardCodec
from runtime.courier.orders import MirrorBoard, MirrorRing
from runtime.resources import Resources
from runtime.wiring import STATE_MIRRORS, wire
from support.many_nodes import placed, plan_over

PLAN = plan_over(
    *(placed("learner-0", "a"), placed("buffer-0", "a"), placed("actor-0", "b"), placed("actor-2", "b")),
    *(
        placed("learner-1", "b", 1).model_copy(update={"donor": 0}),
        placed("buffer-1", "b", 1),
        placed("actor-1", "c", 1),
    ),
)


def test_both_ends_of_a_link_are_told_of_the_same_mirrors() -> None:
    here, there = (mirror_orders(wire(PLAN, node), peer, wan=False) for node, peer in (("a", "b"), ("b", "a")))
    assert here.keys() == there.keys()
    for number, order in here.items():
        other = there[number]
        assert (order.name, order.layout) == (other.name, other.layout)
        assert {order.end, other.end} == {"send", "receive"}
    rings = [(order.slots, there[n].slots) for n, order in here.items() if isinstance(order, MirrorRing)]
    assert all(far == near + 1 for far, near in rings)
    assert mirror_orders(wire(PLAN, "a"), "nobody", wan=False) == {}


def test_over_a_slow_link_policies_are_coded_and_a_donated_state_comes_as_it_is() -> None:
    orders = mirror_orders(wire(PLAN, "a"), "b", wan=True)
    boards = {n: order.codec for n, order in orders.items() if isinstance(order, MirrorBoard)}
    assert {codec for n, codec in boards.items() if n < STATE_MIRRORS} == {BoardCodec.INT8}
    assert boards[STATE_MIRRORS] is BoardCodec.PLAIN
    assert all(order.wan for order in orders.values() if isinstance(order, MirrorRing))


def test_the_readers_of_a_board_that_comes_are_woken_by_its_courier() -> None:
    wiring = wire(PLAN, "b")
    resources = Resources.create(wiring, shared=True)
    (policy,) = (order for order in mirror_orders(wiring, "a", wan=False).values() if order.name == "policy.0")
    readers = [p.name for p in PLAN.on("b") if p.role is Role.ACTOR]
    found = descriptors_for(policy, wiring, resources)
    assert found[1:] == [resources.event(f"policy.0:{reader}").fileno() for reader in readers]
    resources.close()


def test_what_waits_to_be_sent_is_bounded_and_leaves_in_order() -> None:
    outbox = Outbox("n1", "0123456789")
    for number in range(MOST_KEPT + 5):
        outbox.log("counted", str(number))
    events, episodes = outbox.peek()
    assert ([e.message for e in events[:2]], len(events), episodes) == (["5", "6"], MOST_AT_ONCE, ())
    outbox.sent(len(events), 0)
    assert outbox.peek()[0][0].message == str(5 + MOST_AT_ONCE)
    assert events[0].id == "n1-01234567-6"
