"""Episodes are summed across fragment borders, against a loop that does it step by step."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runtime.components.episodes import EpisodeTracker
from runtime.memory.block import EPISODE_DEPTH, StatsBlock
from runtime.memory.segment import Segment


def step_by_step(reward: np.ndarray, ended: np.ndarray, valid: np.ndarray) -> list[tuple[float, int]]:
    finished = []
    for env in range(reward.shape[1]):
        total, count = 0.0, 0
        for t in np.flatnonzero(valid[:, env]):
            total += float(reward[t, env])
            count += 1
            if ended[t, env]:
                finished.append((total, count))
                total, count = 0.0, 0
    return sorted(finished)


@settings(max_examples=80, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    num_envs=st.integers(1, 5),
    rollout=st.integers(1, 9),
    share=st.floats(0, 1),
    reset_steps=st.integers(0, 1),
)
def test_fragments_give_the_same_episodes_as_a_step_by_step_loop(
    seed: int, num_envs: int, rollout: int, share: float, reset_steps: int
) -> None:
    rng = np.random.default_rng(seed)
    shape = (4 * rollout, num_envs)
    reward = rng.integers(-5, 6, shape).astype(np.float32)  # also on steps that are no transitions: never counted
    ended, valid = rng.random(shape) < share, np.ones(shape, np.bool_)
    if reset_steps:
        for t in range(1, shape[0]):
            valid[t] = ~(ended[t - 1] & valid[t - 1])
    tracker = EpisodeTracker(rollout, num_envs, reset_steps)
    found: list[tuple[float, int]] = []
    for part in range(4):
        rows = slice(part * rollout, (part + 1) * rollout)
        finished = tracker.add(reward[rows], ended[rows], valid[rows])
        found += zip(finished.returns, finished.lengths, strict=True)
    assert sorted(found) == step_by_step(reward, ended, valid)
    assert tracker.longest <= shape[0]


def test_the_longest_open_episode_is_known_across_fragments() -> None:
    tracker = EpisodeTracker(3, 2, 0)
    ended = np.zeros((3, 2), np.bool_)
    ended[1, 0] = True
    none, valid = np.zeros((3, 2), np.bool_), np.ones((3, 2), np.bool_)
    tracker.add(valid.astype(np.float32), ended, valid)
    assert tracker.longest == 3
    tracker.add(valid.astype(np.float32), ended[:, ::-1], valid)
    assert tracker.longest == 4
    assert tracker.add(valid.astype(np.float32), none, valid).returns == []


@pytest.mark.parametrize("number", [1, 700, EPISODE_DEPTH + 5])
def test_episodes_added_together_read_like_episodes_added_one_by_one(number: int) -> None:
    together = StatsBlock(Segment.anonymous(StatsBlock.nbytes(1)))
    singly = StatsBlock(Segment.anonymous(StatsBlock.nbytes(1)))
    for block in (together, singly):
        for _ in range(500):
            block.add_episode(-1.0, 1)
    returns, lengths = np.arange(number) * 0.5, np.arange(number) + 1
    together.add_episodes(returns.tolist(), lengths.tolist())
    for ret, length in zip(returns.tolist(), lengths.tolist(), strict=True):
        singly.add_episode(ret, length)
    assert together.episodes_since(0) == singly.episodes_since(0)
    assert together.counter["episodes"] == singly.counter["episodes"] == 500 + number
