"""A queue buffer whose actors leave: what they made is trained on, also where it is no whole batch."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from runtime.components.base import Progress
from runtime.components.queue_buffer import QUIET_S
from runtime.contract.states import Role
from support.groups import Group, put_fragment


class Draining(Group):
    """L1A2 whose actors leave, and a clock for its buffer."""

    def __init__(self, folder: Path, leaving: int = 2, **parts: Any) -> None:
        super().__init__(folder, shape="L1A2", **parts)
        leavers = [p.name for p in self.plan.of_role(Role.ACTOR)][:leaving]
        self.plan = self.plan.model_copy(
            update={
                "placements": tuple(
                    p.model_copy(update={"leaving": True}) if p.name in leavers else p for p in self.plan.placements
                )
            }
        )

    def buffer(self, monkeypatch: pytest.MonkeyPatch) -> Any:
        self.now = 100.0
        monkeypatch.setattr("runtime.assembly.time.monotonic", lambda: self.now)
        buffer = self.build("buffer-0")
        buffer.start()
        return buffer


def test_what_is_left_is_one_last_batch_with_empty_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    group = Draining(tmp_path)
    buffer, learner = group.buffer(monkeypatch), group.build("learner-0")
    learner.start()
    made = put_fragment(group.actor_end("actor-1"), mark=2.0)
    assert buffer.tick() is Progress.IDLE
    group.now += QUIET_S / 2
    assert buffer.tick() is Progress.IDLE, "more may come"
    group.now += QUIET_S
    assert buffer.tick() is Progress.WORKED
    assert group.ledger("fragments.actor-1").in_flight == 0
    batch = learner._ports.batches.peek()
    width = group.plan.sizes.num_envs
    assert batch.samples == made == np.count_nonzero(batch.fields["valid"])
    assert batch.fields["valid"][:, :width].all()
    assert batch.fields["source"].tolist() == [[1, 0], [-1, -1]]
    assert all(np.isfinite(array).all() for array in batch.fields.values())
    learner.tick()
    assert group.block("learner-0").get("updates") == 1
    assert math.isfinite(group.block("learner-0").get("loss"))
    assert group.ledger("batches.0").consumed == made


def test_more_that_comes_after_all_makes_another_batch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    group = Draining(tmp_path)
    buffer = group.buffer(monkeypatch)
    ends = [group.actor_end("actor-0"), group.actor_end("actor-1")]
    for end in ends:
        put_fragment(end)
        buffer.tick()
        group.now += 2 * QUIET_S
        assert buffer.tick() is Progress.WORKED
    assert group.ledger("batches.0").committed == 2
    assert buffer.tick() is Progress.IDLE, "nothing makes no batch"


def test_as_long_as_one_actor_stays_a_batch_is_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    group = Draining(tmp_path, leaving=1)
    buffer = group.buffer(monkeypatch)
    put_fragment(group.actor_end("actor-0"))
    for _ in range(5):
        group.now += QUIET_S
        assert buffer.tick() is Progress.IDLE


def test_a_buffer_killed_after_a_batch_with_empty_parts_sends_nothing_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    group = Draining(tmp_path)
    buffer = group.buffer(monkeypatch)
    made = put_fragment(group.actor_end("actor-0"))
    buffer.tick()
    group.now += 2 * QUIET_S
    with monkeypatch.context() as death, pytest.raises(KeyboardInterrupt):
        death.setattr("runtime.memory.ring.Consumer.release", _die)
        buffer.tick()
    successor = group.build("buffer-0")
    successor.start()
    assert group.ledger("fragments.actor-0").consumed == made == group.ledger("batches.0").produced


def _die(*_: object, **__: object) -> None:
    raise KeyboardInterrupt
