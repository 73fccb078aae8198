"""The on-policy buffer: whole batches, nothing lost, nothing twice, nothing stale."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from runtime.components.base import Progress
from runtime.memory.ring import Consumer
from support.groups import Group, put_fragment


@pytest.fixture
def group(tmp_path: Path) -> Any:
    return Group(tmp_path, shape="L1A2")


def batches_end(group: Any) -> Consumer:
    ring = "batches.0"
    return Consumer(
        group.resources.segment(ring),
        group.wiring.rings[ring],
        data_ready=group.resources.event(f"{ring}:data"),
        space_ready=group.resources.event(f"{ring}:space"),
    )


class Killed(BaseException):
    """The process ends here."""


def test_a_batch_holds_the_oldest_fragments_of_every_actor(group: Any) -> None:
    first, second = group.actor_end("actor-0"), group.actor_end("actor-1")
    buffer = group.build("buffer-0")
    buffer.start()
    put_fragment(first, mark=1.0)
    assert buffer.tick() is Progress.IDLE, "half a batch is no batch"
    put_fragment(second, mark=2.0)
    assert buffer.tick() is Progress.WORKED
    batch = batches_end(group).peek()
    assert batch is not None
    width = group.plan.sizes.num_envs
    assert (batch.fields["obs"][:, :width] == 1.0).all()
    assert (batch.fields["obs"][:, width:] == 2.0).all()
    assert batch.samples == group.ledger("fragments.actor-0").produced + group.ledger("fragments.actor-1").produced


def test_one_actor_alone_can_fill_a_batch_while_the_other_is_away(group: Any) -> None:
    producer, buffer = group.actor_end("actor-0"), group.build("buffer-0")
    buffer.start()
    for _ in range(group.plan.sizes.fragments_per_batch):
        put_fragment(producer)
    assert buffer.tick() is Progress.WORKED


@pytest.mark.parametrize("releases_before_death", [0, 1])
def test_a_buffer_killed_after_its_commit_sends_no_fragment_twice(
    group: Any, monkeypatch: pytest.MonkeyPatch, releases_before_death: int
) -> None:
    ends = [group.actor_end("actor-0"), group.actor_end("actor-1")]
    total = sum(put_fragment(end) for end in ends)
    dying = group.build("buffer-0")
    dying.start()
    released = 0

    def release_then_die(consumer: Consumer, **samples: int) -> None:
        nonlocal released
        if released == releases_before_death:
            raise Killed
        released += 1
        original(consumer, **samples)

    original = Consumer.release
    with monkeypatch.context() as death, pytest.raises(Killed):
        death.setattr(Consumer, "release", release_then_die)
        dying.tick()
    successor = group.build("buffer-0")
    successor.start()
    assert successor.tick() is Progress.IDLE
    assert group.ledger("batches.0").produced == total
    for ring in ("fragments.actor-0", "fragments.actor-1"):
        assert group.ledger(ring).in_flight == 0


def test_fragments_older_than_the_limit_are_dropped_and_counted(group: Any) -> None:
    learner, buffer = group.build("learner-0"), group.build("buffer-0")
    learner.start()
    group.block("learner-0")
    policy = learner._ports.policy
    policy.begin()
    policy.publish(100)
    buffer.start()
    stale = put_fragment(group.actor_end("actor-0"), version=100 - group.plan.job.algorithm.max_lag - 1)
    fresh = put_fragment(group.actor_end("actor-1"), version=100 - group.plan.job.algorithm.max_lag)
    buffer.tick()
    assert group.ledger("fragments.actor-0").dropped_stale == stale
    assert group.ledger("fragments.actor-1").in_flight == fresh
    assert group.block("buffer-0").get("dropped_stale") == stale


def test_a_checkpoint_goes_through_the_batch_ring_as_an_empty_marked_slot(group: Any) -> None:
    buffer = group.build("buffer-0")
    buffer.start()
    group.assembly().control.checkpoint_request = 7
    buffer.tick()
    slot = batches_end(group).peek()
    assert slot is not None
    assert (slot.samples, slot.marker) == (0, 7)
    assert group.block("buffer-0").checkpoint_done == 7
    assert (group.paths.checkpoints / ".tmp-000000000007" / "buffer-0.json").exists()


def test_a_mark_is_sent_once_wherever_the_buffer_dies(group: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    group.assembly().control.checkpoint_request = 7
    dying = group.build("buffer-0")
    dying.start()
    with monkeypatch.context() as death, pytest.raises(Killed):
        death.setattr(type(dying._ports.block), "checkpoint_done", property(lambda _: 0, _die))
        dying.tick()
    successor = group.build("buffer-0")
    successor.start()
    assert group.block("buffer-0").checkpoint_done == 7
    assert successor.tick() is Progress.IDLE
    assert group.ledger("batches.0").committed == 1


def _die(*_: object) -> None:
    raise Killed


def test_the_learner_gets_the_newest_fragments_also_if_a_batch_is_more_than_one_of_each_actor(tmp_path: Path) -> None:
    group = Group(tmp_path, training={"dependencies": "policy-only", "batch_size": 128})
    assert group.plan.sizes.fragments_per_batch == 2
    producer, buffer = group.actor_end(), group.build("buffer-0")
    buffer.start()
    for mark in (1.0, 2.0, 3.0):
        put_fragment(producer, mark=mark)
    assert buffer.tick() is Progress.WORKED
    batch = batches_end(group).peek()
    assert batch is not None
    assert set(batch.fields["obs"].ravel()) == {2.0, 3.0}
    assert group.ledger("fragments.actor-0").dropped_stale == batch.samples // 2


@pytest.mark.parametrize("batch_size", [64, 192, 256])
def test_strict_batches_follow_the_rounds_whatever_their_size(tmp_path: Path, batch_size: int) -> None:
    group = Group(tmp_path, shape="L1A2", training={"dependencies": "strict", "batch_size": batch_size})
    ends = [group.actor_end("actor-0"), group.actor_end("actor-1")]
    learner, buffer = group.build("learner-0"), group.build("buffer-0")
    learner.start()
    buffer.start()
    made, seen = [0, 0], []
    update = learner._algorithm.update

    def note_and_update(batch: Any, **rest: Any) -> Any:
        seen.extend((int(sequence), int(ring)) for ring, sequence in batch["source"])
        return update(batch, **rest)

    learner._algorithm.update = note_and_update
    for _ in range(120):
        turn = int(learner._ports.policy.current()["progress"][3])
        for actor in (1, 0):  # the second is always the faster one
            if made[actor] <= turn and ends[actor].acquire() is not None:
                put_fragment(ends[actor])
                made[actor] += 1
            buffer.tick()
        learner.tick()
    assert len(seen) > 20
    assert seen == sorted(seen)
    assert len(set(seen)) == len(seen)
