"""The learner: exact continuation after a crash, roll-back of bad updates, averaging, counters that never go back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from runtime.components.base import Progress
from runtime.components.learner import HOPELESS_AFTER, KEPT_BAD_BATCHES, NotFiniteError
from support.groups import Group, put_fragment


@pytest.fixture
def group(tmp_path: Path) -> Any:
    return Group(tmp_path, training={"sync_every": 1})


def feed(group: Any, buffer: Any, *, reward: float = 1.0, version: int = 0, index: int = 0) -> None:
    put_fragment(group.actor_end(f"actor-{index}"), reward=reward, version=version)
    assert buffer.tick() is Progress.WORKED


def started(group: Any, *names: str) -> list[Any]:
    components = [group.build(name) for name in names]
    for component in components:
        component.start()
    return components


def params(learner: Any) -> np.ndarray:
    return learner._algorithm.params.copy()


def test_an_update_raises_the_version_and_is_published(group: Any) -> None:
    learner, buffer = started(group, "learner-0", "buffer-0")
    assert learner._ports.policy.version == 0
    feed(group, buffer)
    assert learner.tick() is Progress.WORKED
    assert learner._ports.policy.version == 1
    assert group.block("learner-0").get("updates") == 1
    assert learner.tick() is Progress.IDLE


def test_a_killed_learner_goes_on_from_its_last_publication_bit_for_bit(group: Any) -> None:
    learner, buffer = started(group, "learner-0", "buffer-0")
    for reward in (1.0, 2.0):
        feed(group, buffer, reward=reward)
        learner.tick()
    (successor,) = started(group, "learner-0")  # the first one is gone without a word
    kept, found = learner._algorithm.state(), successor._algorithm.state()
    assert set(kept) == set(found)
    for name, array in kept.items():
        assert np.array_equal(array, found[name]), name
    feed(group, buffer)
    assert successor.tick() is Progress.WORKED
    assert group.block("learner-0").get("version") == 3


def test_a_batch_that_was_trained_on_but_not_released_is_not_trained_on_again(
    group: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Killed(BaseException):
        pass

    def die(*_: object, **__: object) -> None:
        raise Killed

    learner, buffer = started(group, "learner-0", "buffer-0")
    feed(group, buffer)
    with monkeypatch.context() as death, pytest.raises(Killed):
        death.setattr(type(learner._ports.batches), "release", die)
        learner.tick()
    trained = params(learner)
    (successor,) = started(group, "learner-0")
    successor.tick()
    assert np.array_equal(params(successor), trained)
    assert group.ledger("batches.0").in_flight == 0
    assert group.block("learner-0").get("updates") == 1


def test_counters_never_go_back_when_the_learner_is_replaced(group: Any) -> None:
    learner, buffer = started(group, "learner-0", "buffer-0")
    for _ in range(3):
        feed(group, buffer)
        learner.tick()
    group.block("learner-0").set("updates", 5)  # two updates made after the last publication, and lost
    (successor,) = started(group, "learner-0")
    assert group.block("learner-0").get("updates") == 5
    assert successor._ports.policy.version == 5
    feed(group, buffer)
    successor.tick()
    assert group.block("learner-0").get("version") == 6


def test_a_bad_batch_changes_nothing_is_kept_and_is_counted(group: Any) -> None:
    learner, buffer = started(group, "learner-0", "buffer-0")
    feed(group, buffer)
    learner.tick()
    good = params(learner)
    feed(group, buffer, reward=float("nan"))
    learner.tick()
    assert np.array_equal(params(learner), good)
    assert group.block("learner-0").get("rollbacks") == 1
    assert group.ledger("batches.0").dropped_other > 0
    (kept,) = group.paths.bad_batches.glob("*.safetensors")
    assert kept.name == "learner-0-update-2.safetensors"
    feed(group, buffer)
    learner.tick()
    assert group.block("learner-0").get("version") == 2
    assert not np.array_equal(params(learner), good)


def test_bad_batches_without_end_are_told_and_end_this_life(group: Any, caplog: pytest.LogCaptureFixture) -> None:
    learner, buffer = started(group, "learner-0", "buffer-0")
    with pytest.raises(NotFiniteError, match=f"{HOPELESS_AFTER} updates in a row were not finite: the batch"):
        for _ in range(HOPELESS_AFTER):
            feed(group, buffer, reward=float("nan"))
            learner.tick()
    assert group.block("learner-0").get("rollbacks") == HOPELESS_AFTER
    assert len(list(group.paths.bad_batches.glob("*.safetensors"))) == KEPT_BAD_BATCHES
    assert "update 1 undone: the batch" in caplog.text


def test_good_batches_between_bad_ones_keep_the_learner_going(group: Any) -> None:
    learner, buffer = started(group, "learner-0", "buffer-0")
    for index in range(2 * HOPELESS_AFTER):
        feed(group, buffer, reward=1.0 if index % HOPELESS_AFTER == 0 else float("nan"))
        learner.tick()
    assert group.block("learner-0").get("updates") == 2


def test_a_bad_batch_that_cannot_be_kept_costs_nothing_more(group: Any) -> None:
    learner, buffer = started(group, "learner-0", "buffer-0")
    group.paths.bad_batches.write_text("a file where the folder should be")
    feed(group, buffer, reward=float("nan"))
    learner.tick()
    feed(group, buffer)
    learner.tick()
    assert group.block("learner-0").get("updates") == 1


def test_lag_is_counted_per_sample_at_the_moment_of_use(group: Any) -> None:
    learner, buffer = started(group, "learner-0", "buffer-0")
    for version in (0, 0, 0):
        feed(group, buffer, version=version)
        learner.tick()
    histogram = group.block("learner-0").lag_histogram
    samples = group.plan.sizes.batch_size
    assert histogram[:3].tolist() == [samples, samples, samples]
    assert histogram.sum() == 3 * samples


def test_learners_of_a_run_move_to_their_common_mean(tmp_path: Path) -> None:
    group = Group(tmp_path, shape="L2A2", training={"sync_every": 1})
    first, second, buffer, other = started(group, "learner-0", "learner-1", "buffer-0", "buffer-1")
    assert np.array_equal(params(first), params(second)), "peers begin at the same point"
    feed(group, buffer, reward=1.0, index=0)
    first.tick()
    alone = params(first)
    feed(group, other, reward=5.0, index=1)
    second.tick()
    mean_of_both = params(second)
    assert not np.array_equal(mean_of_both, alone)
    group_of_one = Group(tmp_path / "..", shape="L1A1")
    lonely, its_buffer = started(group_of_one, "learner-0", "buffer-0")
    feed(group_of_one, its_buffer, reward=5.0)
    lonely.tick()
    np.testing.assert_allclose(mean_of_both, (alone + params(lonely)) / 2, atol=1e-2)


def test_a_peer_that_has_published_nothing_new_is_left_out(tmp_path: Path) -> None:
    group = Group(tmp_path, shape="L2A2", training={"sync_every": 1})
    first, _, buffer = started(group, "learner-0", "learner-1", "buffer-0")
    feed(group, buffer)
    first.tick()  # averages once with the peer's first publication
    seen = list(first._peer_versions)
    before = params(first)
    averaged: list[int] = []
    first._algorithm.average_with = lambda peers: averaged.append(len(peers))
    feed(group, buffer)
    first.tick()
    assert averaged == []
    assert first._peer_versions == seen
    assert not np.array_equal(before, params(first))


def test_the_shadow_follows_slowly_and_is_published_beside_the_parameters(tmp_path: Path) -> None:
    group = Group(tmp_path, training={"shadow": {"enabled": True, "rate": 0.1}})
    learner, buffer = started(group, "learner-0", "buffer-0")
    begin = params(learner)
    feed(group, buffer)
    learner.tick()
    published = learner._ports.policy.current()
    np.testing.assert_allclose(published["shadow"], begin + 0.1 * (params(learner) - begin), rtol=1e-5, atol=1e-7)


def test_what_a_killed_learner_had_not_published_is_lost_but_no_counter_goes_back(tmp_path: Path) -> None:
    group = Group(tmp_path, training={"publish_every": 4})
    learner, buffer = started(group, "learner-0", "buffer-0")
    for _ in range(3):
        feed(group, buffer)
        learner.tick()
    trained = group.block("learner-0").get("samples_trained")
    assert learner._ports.policy.version == 0
    (successor,) = started(group, "learner-0")
    feed(group, buffer)
    successor.tick()
    assert group.block("learner-0").get("samples_trained") == trained + group.plan.sizes.batch_size
    assert group.block("learner-0").get("updates") == 4


def test_a_turn_is_published_before_its_batch_is_given_back(group: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    strict = Group(group.paths.root, training={"dependencies": "strict", "publish_every": 4})
    learner, buffer = started(strict, "learner-0", "buffer-0")
    feed(strict, buffer)
    told: list[int] = []
    release = type(learner._ports.batches).release

    def look_then_release(consumer: Any, **samples: int) -> None:
        told.append(int(learner._ports.policy.current()["progress"][3]))
        release(consumer, **samples)

    monkeypatch.setattr(type(learner._ports.batches), "release", look_then_release)
    learner.tick()
    assert told == [1], "a successor would never hear of the turn again"


def test_a_learner_that_is_beyond_its_share_of_updates_drops_what_comes(tmp_path: Path) -> None:
    group = Group(tmp_path, training={"stop": {"updates": 2}})
    group.block("learner-0").set("updates", 5)  # the job was given fewer updates than it had made already
    learner, buffer = started(group, "learner-0", "buffer-0")
    before = params(learner)
    feed(group, buffer)
    learner.tick()
    assert np.array_equal(params(learner), before)
    assert group.ledger("batches.0").dropped_other == group.plan.sizes.batch_size


def test_a_shard_that_is_said_to_be_written_is_not_written_again(group: Any) -> None:
    learner, buffer = started(group, "learner-0", "buffer-0")
    group.assembly().control.checkpoint_request = 7
    buffer.tick()
    group.block("learner-0").checkpoint_done = 7  # by a predecessor that died before it gave the mark back
    learner.tick()
    assert not (group.paths.checkpoints / ".tmp-000000000007" / "learner-0.json").exists()
    assert group.ledger("batches.0").in_flight == 0
