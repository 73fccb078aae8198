"""The memory of a node while its plan changes: what is new is made, what stays is untouched, nothing is left behind."""

from __future__ import annotations

import errno
import gc
import os
from pathlib import Path

import pytest

from runtime.memory.control import ControlBlock
from runtime.memory.ring import Producer, read_ledger
from runtime.memory.segment import Segment
from runtime.resources import CONTROL, Resources
from runtime.wiring import fragments_ring, wire
from support.many_nodes import placed, plan_over

FEW = plan_over(placed("learner-0", "n1"), placed("buffer-0", "n1"), placed("actor-0", "n1"), placed("actor-1", "n2"))
MANY = plan_over(*FEW.placements, placed("actor-2", "n1"), placed("actor-3", "n3"), revision=2)


def descriptors() -> int:
    gc.collect()  # what tests before have left open goes now, and not between two looks
    return len(list(Path("/proc/self/fd").iterdir()))


def producer(resources: Resources, actor: str) -> Producer:
    ring = fragments_ring(actor)
    return Producer(
        resources.segment(ring),
        wire(MANY, "n1").rings[ring],
        data_ready=resources.event(f"{ring}:data"),
        space_ready=resources.event(f"{ring}:space"),
    )


def test_what_is_new_is_made_and_what_stays_keeps_what_is_in_it() -> None:
    few, many = wire(FEW, "n1"), wire(MANY, "n1")
    resources = Resources.create(few, shared=True)
    end = producer(resources, "actor-0")
    end.acquire()
    end.commit(5)
    made = resources.extend(few, many)
    assert set(made) == {
        *(
            "segment:fragments.actor-2",
            "segment:fragments.actor-3",
            "segment:block.actor-2",
            "segment:block.courier.n3",
        ),
        *("event:fragments.actor-2:data", "event:fragments.actor-2:space"),
        *("event:fragments.actor-3:data", "event:fragments.actor-3:space"),
        *("event:policy.0:actor-2", "event:policy.0:courier.n3"),
    }
    assert resources.descriptors(made)[0] == made
    assert read_ledger(resources.segment(fragments_ring("actor-0")), few.rings[fragments_ring("actor-0")]).produced == 5
    assert producer(resources, "actor-3").acquire() is not None
    assert sorted(resources.drop(many, few)) == sorted(made)
    assert resources.descriptors(made) == ([], [])
    resources.close()


def test_a_node_that_others_join_and_leave_again_and_again_keeps_nothing_of_them() -> None:
    few, many = wire(FEW, "n1"), wire(MANY, "n1")
    resources = Resources.create(few, shared=True)
    before = descriptors()
    for _ in range(50):
        resources.extend(few, many)
        producer(resources, "actor-3")
        resources.drop(many, few)
    assert descriptors() == before
    resources.close()


def test_where_there_is_no_room_for_all_of_it_nothing_of_it_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    few, many = wire(FEW, "n1"), wire(MANY, "n1")
    resources, made = Resources.create(few, shared=True), 0
    before, create = descriptors(), Segment.create

    def refuse(name: str, nbytes: int) -> Segment:
        nonlocal made
        made += 1
        if made == 3:
            raise OSError(errno.ENOMEM, "no room")
        return create(name, nbytes)

    monkeypatch.setattr(Segment, "create", refuse)
    with pytest.raises(OSError, match="no room"):
        resources.extend(few, many)
    assert descriptors() == before
    monkeypatch.undo()
    resources.extend(few, many)
    resources.close()


def test_what_was_passed_on_later_is_there_and_what_is_forgotten_is_closed() -> None:
    few, many = wire(FEW, "n1"), wire(MANY, "n1")
    mine = Resources.create(few, shared=True)
    names, found = mine.descriptors()
    other = Resources.attach(names, [os.dup(descriptor) for descriptor in found])
    made = mine.extend(few, many)
    before = descriptors()
    names, found = mine.descriptors(made)
    other.take(names, [os.dup(descriptor) for descriptor in found])
    end = producer(mine, "actor-2")
    end.acquire()
    end.commit(3)
    ring = fragments_ring("actor-2")
    assert read_ledger(other.segment(ring), many.rings[ring]).produced == 3
    other.forget(made)
    assert descriptors() == before
    other.forget(made)
    for resources in (mine, other):
        resources.close()


@pytest.mark.parametrize("node", ["n1", "n2"])
def test_a_new_run_has_made_as_many_steps_as_those_before_it(node: str) -> None:
    resources = Resources.create(wire(FEW, node), shared=False, base_env_steps=1000)
    control = ControlBlock(resources.segment(CONTROL))
    assert control.base_env_steps == control.global_env_steps == 1000
