"""The stats block and the control block."""

from __future__ import annotations

import os
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from runtime.memory import block as block_module
from runtime.memory.block import BLOCK_BYTES, COUNTERS, EPISODE_DEPTH, GAUGES, WORDS, StatsBlock
from runtime.memory.control import CONTROL_BYTES, Command, ControlBlock
from runtime.memory.segment import Segment


@pytest.fixture
def segment() -> Segment:
    return Segment.create("blocks", StatsBlock.nbytes(3))


def test_everything_is_zero_until_set(segment: Segment) -> None:
    snapshot = StatsBlock(segment, 0).snapshot()
    assert set(snapshot) == {*WORDS, *COUNTERS, *GAUGES}
    assert set(snapshot.values()) == {0}


def test_every_name_has_its_own_word(segment: Segment) -> None:
    block = StatsBlock(segment, 1)
    for number, name in enumerate((*WORDS, *COUNTERS, *GAUGES), start=1):
        block.set(name, number)
    block.lag_histogram.fill(-1)
    for _ in range(EPISODE_DEPTH):
        block.add_episode(1.0, 1)
    expected = {name: number for number, name in enumerate((*WORDS, *COUNTERS, *GAUGES), start=1)}
    expected["episodes"] += EPISODE_DEPTH
    assert block.snapshot() == expected
    assert (block.lag_histogram == -1).all()


def test_blocks_do_not_touch_each_other(segment: Segment) -> None:
    middle = StatsBlock(segment, 1)
    for name in (*WORDS, *COUNTERS, *GAUGES):
        middle.set(name, 9)
    middle.lag_histogram.fill(9)
    for _ in range(EPISODE_DEPTH):
        middle.add_episode(9.0, 9)
    for index in (0, 2):
        neighbour = np.frombuffer(segment.memory, np.uint8)[index * BLOCK_BYTES : (index + 1) * BLOCK_BYTES]
        assert not neighbour.any()


def test_a_new_attempt_goes_on_counting_where_the_last_one_stopped(segment: Segment) -> None:
    first = StatsBlock(segment, 0)
    first.add("env_steps", 40)
    first.counter["updates"] += 2
    first.beat()
    first.add_episode(3.5, 7)
    second = StatsBlock(segment, 0)
    second.add("env_steps", 2)
    second.beat()
    assert (first.get("env_steps"), first.counter["updates"], first.beats, first.get("episodes")) == (42, 2, 2, 1)
    assert second.episodes_since(0) == (1, [(3.5, 7)])


def test_another_process_reads_what_the_component_wrote(segment: Segment, child: Callable[..., int]) -> None:
    def component() -> None:
        block = StatsBlock(segment, 2)
        block.pid, block.phase, block.attempt, block.checkpoint_done = 12, 1, 3, 500
        block.gauge["loss"] = -0.25
        block.lag_histogram[2] += 10
        block.beat()

    os.waitpid(child(component), 0)
    agent = StatsBlock(segment, 2)
    assert (agent.pid, agent.phase, agent.attempt, agent.checkpoint_done, agent.beats) == (12, 1, 3, 500, 1)
    assert agent.gauge["loss"] == agent.get("loss") == -0.25
    assert agent.lag_histogram[2] == agent.lag_histogram.sum() == 10


@settings(max_examples=20, deadline=None)
@given(st.lists(st.integers(0, EPISODE_DEPTH + 30), max_size=4))
@example([EPISODE_DEPTH - 1, 0, EPISODE_DEPTH])
@example([EPISODE_DEPTH + 30, 3])
def test_a_reader_gets_each_episode_once_and_in_order_as_far_as_the_block_remembers(bursts: list[int]) -> None:
    block = StatsBlock(Segment.anonymous(StatsBlock.nbytes(1)), 0)
    cursor = written = 0
    for burst in bursts:
        numbers = list(range(written, written + burst))
        if burst % 2:
            block.add_episodes([float(number) for number in numbers], numbers)
        else:
            for number in numbers:
                block.add_episode(float(number), number)
        written += burst
        since = cursor
        cursor, episodes = block.episodes_since(since)
        assert cursor == written
        first = max(since, written - EPISODE_DEPTH)
        assert episodes == [(float(number), number) for number in range(first, written)]


def test_a_reader_leaves_out_episodes_that_were_overwritten_while_it_read(monkeypatch: pytest.MonkeyPatch) -> None:
    block = StatsBlock(Segment.anonymous(StatsBlock.nbytes(1)), 0)
    block.add_episodes([float(number) for number in range(EPISODE_DEPTH)], list(range(EPISODE_DEPTH)))
    fences = 0

    def overwrite_in_mid_read() -> None:
        nonlocal fences
        fences += 1
        if fences == 1:  # the reader has loaded the cursor
            with pytest.raises(InterruptedError):
                block.add_episodes([-1.0] * 9, [-1] * 9)
        elif fences == 3:  # the writer has overwritten nine and not moved the cursor
            raise InterruptedError

    monkeypatch.setattr(block_module, "fence", overwrite_in_mid_read)
    cursor, episodes = block.episodes_since(0)
    assert cursor == EPISODE_DEPTH
    assert episodes == [(float(number), number) for number in range(9, EPISODE_DEPTH)]


def test_an_unknown_name_is_an_error(segment: Segment) -> None:
    block = StatsBlock(segment, 0)
    for access in (lambda: block.get("luck"), lambda: block.set("luck", 1), lambda: block.add("loss", 1)):
        with pytest.raises(KeyError):
            access()


@pytest.mark.parametrize("index", [-1, 3])
def test_a_block_outside_its_segment_is_refused(segment: Segment, index: int) -> None:
    with pytest.raises(ValueError, match="no stats block"):
        StatsBlock(segment, index)


def test_components_see_what_the_agent_wants() -> None:
    segment = Segment.create("control", CONTROL_BYTES)
    agent, component = ControlBlock(segment), ControlBlock(segment)
    assert component.command == Command.NONE
    assert component.checkpoint_request == 0
    assert (component.pause, component.base_env_steps) == (False, 0)
    agent.base_env_steps = 55
    agent.checkpoint_request = 1200
    agent.command = Command.STOP
    agent.global_env_steps = 77
    assert (component.checkpoint_request, component.command, component.global_env_steps) == (1200, Command.STOP, 77)
    assert (component.pause, component.base_env_steps) == (False, 55)
    agent.pause = True
    assert component.pause


def test_a_checkpoint_request_never_falls() -> None:
    control = ControlBlock(Segment.anonymous(CONTROL_BYTES))
    control.checkpoint_request = 5
    with pytest.raises(ValueError, match="only rise"):
        control.checkpoint_request = 4
