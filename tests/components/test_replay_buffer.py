"""The off-policy buffer: pace, crash safety, write-back of priorities."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from runtime.components.base import Progress
from runtime.memory.ring import Consumer
from support.groups import Group, put_fragment

SMALL = {
    "algorithm": {"learning_starts": 100, "samples_per_insert": 2.0, "n_step": 1},
    "training": {"batch_size": 32},
    "distributed": {"buffer_size": 1024},
}


def make_group(folder: Path, **parts: Any) -> Group:
    merged = {key: {**value, **parts.get(key, {})} for key, value in SMALL.items()}
    return Group(folder, "dqn", **merged)


def ticks(buffer: Any, most: int = 50) -> int:
    """Tick until idle; how many did something."""
    worked = 0
    while buffer.tick() is Progress.WORKED and worked < most:
        worked += 1
    return worked


def test_nothing_is_drawn_before_learning_starts(tmp_path: Path) -> None:
    group = make_group(tmp_path)
    buffer = group.build("buffer-0")
    buffer.start()
    put_fragment(group.actor_end())  # 64 of 100
    ticks(buffer)
    assert group.ledger("batches.0").produced == 0
    assert group.ledger("fragments.actor-0").consumed == 64


def test_without_slack_training_gets_exactly_what_the_samples_are_worth(tmp_path: Path) -> None:
    group = make_group(tmp_path, training={"dependencies": "policy-only"})
    buffer, learner = group.build("buffer-0"), group.build("learner-0")
    for component in (learner, buffer):
        component.start()
    producer, inserted = group.actor_end(), 0
    for _ in range(8):
        inserted += put_fragment(producer)
        for _ in range(40):
            buffer.tick()
            learner.tick()
    owed = 2.0 * (inserted - 100)
    trained = group.ledger("batches.0").consumed
    assert owed - 32 <= trained <= owed + 32


@pytest.mark.parametrize("dies", ["before-insert", "before-release"])
def test_a_killed_buffer_keeps_its_memory_and_inserts_no_fragment_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dies: str
) -> None:
    class Killed(BaseException):
        pass

    def die(*_: object, **__: object) -> None:
        raise Killed

    group = make_group(tmp_path)
    producer, dying = group.actor_end(), group.build("buffer-0")
    dying.start()
    put_fragment(producer, mark=1.0)
    ticks(dying)
    put_fragment(producer, mark=2.0)
    target = (type(dying._replay), "insert") if dies == "before-insert" else (Consumer, "release")
    with monkeypatch.context() as death, pytest.raises(Killed):
        death.setattr(*target, die)
        dying.tick()
    successor = group.build("buffer-0")
    successor.start()
    ticks(successor, most=3)
    assert successor._replay.inserted == 128
    held = successor._memory["obs"][:128, 0]
    assert (held[:64] == 1.0).all()
    assert (held[64:] == 2.0).all()
    assert group.ledger("fragments.actor-0").consumed == 128


def test_new_priorities_come_back_to_the_memory(tmp_path: Path) -> None:
    group = make_group(tmp_path, algorithm={"replay": {"kind": "proportional"}})
    buffer, learner = group.build("buffer-0"), group.build("learner-0")
    for component in (learner, buffer):
        component.start()
    producer = group.actor_end()
    for _ in range(2):
        put_fragment(producer, reward=3.0)
    fresh = buffer._memory["priority"]
    for _ in range(20):
        buffer.tick()
        learner.tick()
    changed = fresh[:128][fresh[:128] != 1.0]
    assert changed.size > 0
    assert np.isfinite(changed).all()
    assert group.ledger("priorities.0").consumed > 0


def test_the_actor_is_held_back_while_training_is_far_behind(tmp_path: Path) -> None:
    group = make_group(tmp_path)
    buffer = group.build("buffer-0")
    buffer.start()
    producer = group.actor_end()
    taken = 0
    for _ in range(60):
        if producer.acquire() is not None:
            put_fragment(producer)
        buffer.tick()
        taken = group.ledger("fragments.actor-0").consumed
    slack = max(4 * 32, 2.0 * 64)
    assert 2.0 * (taken - 100) <= group.ledger("batches.0").produced + slack + 2 * 64


def test_a_fragment_whose_insertion_was_over_when_the_buffer_died_is_not_inserted_again(tmp_path: Path) -> None:
    group = make_group(tmp_path)
    put_fragment(group.actor_end())
    dying = group.build("buffer-0")
    dying.start()

    class Dying(np.ndarray):
        def __setitem__(self, *_: object) -> None:
            raise Killed

    dying._taken = dying._taken.view(Dying)
    with pytest.raises(Killed):
        dying.tick()
    successor = group.build("buffer-0")
    successor.start()
    ticks(successor)
    assert successor._replay.inserted == group.ledger("fragments.actor-0").consumed == 64


class Killed(BaseException):
    """The process ends here."""


def test_transitions_that_are_no_numbers_never_get_into_the_memory(tmp_path: Path) -> None:
    group = make_group(tmp_path)
    producer = group.actor_end()
    slot = producer.acquire()
    assert slot is not None
    put_fragment(producer)
    buffer = group.build("buffer-0")
    buffer.start()
    slot.fields["reward"][3, 2] = float("nan")
    slot.fields["obs"][5, 4] = float("inf")
    ticks(buffer)
    ledger = group.ledger("fragments.actor-0")
    assert (ledger.consumed, ledger.dropped_other, ledger.in_flight) == (62, 2, 0)
    held = buffer._memory
    assert np.isfinite(held["ret"][:62]).all()
    assert np.isfinite(held["obs"][:62]).all()


def test_a_strict_round_that_was_cut_short_is_finished_by_the_successor(tmp_path: Path) -> None:
    group = make_group(tmp_path, training={"dependencies": "strict"})
    producer, learner = group.actor_end(), group.build("learner-0")
    learner.start()
    made = 0
    for life in range(12):
        buffer = group.build("buffer-0")
        buffer.start()
        for _ in range(3 + life % 3):  # and it is killed again, in the middle of a round's updates
            if made <= int(learner._ports.policy.current()["progress"][3]):
                put_fragment(producer)
                made += 1
            buffer.tick()
            learner.tick()
    assert made > 8
