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
    sums, counts, finished = [0.0] * reward.shape[1], [0] * reward.shape[1], []
    for t in range(reward.shape[0]):
        for env in range(reward.shape[1]):
            if not valid[t, env]:
                continue
            sums[env] += float(reward[t, env])
            counts[env] += 1
            if ended[t, env]:
                finished.append((sums[env], counts[env]))
                sums[env], counts[env] = 0.0, 0
    return finished


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), num_envs=st.integers(1, 5), rollout=st.integers(1, 9), share=st.floats(0, 1))
def test_fragments_give_the_same_episodes_as_a_step_by_step_loop(
    seed: int, num_envs: int, rollout: int, share: float
) -> None:
    rng = np.random.default_rng(seed)
    shape = (4 * rollout, num_envs)
    reward = rng.integers(-5, 6, shape).astype(np.float32)
    ended, valid = rng.random(shape) < share, rng.random(shape) < 0.8
    tracker = EpisodeTracker(num_envs)
    found: list[tuple[float, int]] = []
    for part in range(4):
        rows = slice(part * rollout, (part + 1) * rollout)
        finished = tracker.add(reward[rows], ended[rows], valid[rows])
        found += zip(finished.returns_N.tolist(), finished.lengths_N.tolist(), strict=True)
    assert found == step_by_step(reward, ended, valid)


@pytest.mark.parametrize("number", [1, 700, EPISODE_DEPTH + 5])
def test_episodes_added_together_read_like_episodes_added_one_by_one(number: int) -> None:
    together = StatsBlock(Segment.anonymous(StatsBlock.nbytes(1)))
    singly = StatsBlock(Segment.anonymous(StatsBlock.nbytes(1)))
    for block in (together, singly):
        for _ in range(500):
            block.add_episode(-1.0, 1)
    returns, lengths = np.arange(number) * 0.5, np.arange(number) + 1
    together.add_episodes(returns, lengths)
    for ret, length in zip(returns.tolist(), lengths.tolist(), strict=True):
        singly.add_episode(ret, length)
    assert together.episodes_since(0) == singly.episodes_since(0)
    assert together.counter["episodes"] == singly.counter["episodes"] == 500 + number
