"""What a courier is told to mirror, from a node's wiring. Pure, but for the descriptors that go along."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runtime.courier.codec import BoardCodec
from runtime.courier.orders import MirrorBoard, MirrorRing
from runtime.wiring import STATE_MIRRORS, courier_of

if TYPE_CHECKING:
    from runtime.resources import Resources
    from runtime.wiring import Mirror, Wiring

MirrorOrder = MirrorRing | MirrorBoard


def mirror_orders(wiring: Wiring, peer: str, *, wan: bool) -> dict[int, MirrorOrder]:
    """Every mirror that a node has with `peer`, by number. `wan`: over a slow link, so compressed."""
    return {mirror.number: _order(mirror, wiring, wan=wan) for mirror in wiring.mirrors if mirror.peer == peer}


def _order(mirror: Mirror, wiring: Wiring, *, wan: bool) -> MirrorOrder:
    if mirror.kind == "ring":
        ring = wiring.rings[mirror.name]
        return MirrorRing(
            peer=mirror.peer, number=mirror.number, end=mirror.end, name=mirror.name, layout=ring.layout.to_json(),
            slots=ring.slots, wan=wan,
        )  # fmt: skip
    board = wiring.boards[mirror.name]
    # A learner that begins with another's state shall have it exactly; a policy is sent again and again.
    coded = wan and mirror.number < STATE_MIRRORS
    return MirrorBoard(
        peer=mirror.peer, number=mirror.number, end=mirror.end, name=mirror.name, layout=board.layout.to_json(),
        slots=board.slots, codec=BoardCodec.INT8 if coded else BoardCodec.PLAIN,
    )  # fmt: skip


def descriptors_for(order: MirrorOrder, wiring: Wiring, resources: Resources) -> list[int]:
    """What goes along with the order: the segment, then eventfds as `orders` says."""
    if isinstance(order, MirrorRing):
        events = [f"{order.name}:data", f"{order.name}:space"]
    elif order.end == "send":
        events = [f"{order.name}:{courier_of(order.peer)}"]
    else:
        events = [f"{order.name}:{reader}" for reader in wiring.board_readers[order.name]]
    segment = resources.segment(order.name)
    assert segment.fd is not None, "memory of one process cannot be passed on"
    return [segment.fd, *(resources.event(event).fileno() for event in events)]
