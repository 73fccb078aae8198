"""A plan that changes again and again while the run goes on: nothing is lost or used twice, nobody starts over."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from runtime.components import queue_buffer
from runtime.contract.arrangement import rearrange, settle
from runtime.contract.shape import Shape
from runtime.contract.sizes import resolve_sizes
from runtime.contract.states import Role
from runtime.memory.block import StatsBlock
from runtime.memory.ring import Consumer
from runtime.wiring import block_of
from support.arranged import ENV, nodes, plan_over
from support.changing import Changing
from support.plans import make_job
from support.spreading import spread

SHAPES = ("L1A2", "L2A4", "L1A4", "L3A6", "L2A3", "L1A1")
LEARN: dict[str, dict[str, Any]] = {
    "ppo": {"algorithm": {"epochs": 1, "max_lag": 1_000_000, "rollout": 8}, "env": {"num_envs": 2}},
    "dqn": {
        "algorithm": {"learning_starts": 64, "samples_per_insert": 2.0, "rollout": 8},
        "env": {"num_envs": 2},
        "training": {"batch_size": 32},
    },
}
DRAINED_WITHIN_TICKS = 2_000


def start(folder: Path, learn: str, shape: str = "L2A4", count: int = 3) -> Changing:
    job, wanted = make_job(learn, distributed={"oversubscribe": True}, **LEARN[learn]), Shape.parse(shape)
    sizes = resolve_sizes(job, wanted, ENV)
    hosts = nodes(*[4] * count)
    plan = plan_over(hosts, shape, oversubscribe=True).model_copy(
        update={"job": job, "sizes": sizes, "placements": spread(job, sizes, wanted, hosts)}
    )
    return Changing(folder, plan)


@pytest.fixture(autouse=True)
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Draining buffers send what they have at once: more part batches, and no waiting."""
    monkeypatch.setattr(queue_buffer, "QUIET_S", 0.0)


def drain(run: Changing) -> None:
    for _ in range(DRAINED_WITHIN_TICKS):
        if run.empty():
            return
        run.tick()
    raise AssertionError("what leaving actors made is never used up")


def actors(run: Changing) -> list[str]:
    return [name for name, p in run.placed.items() if p.role is Role.ACTOR]


def learners(run: Changing) -> list[str]:
    return [p.name for p in run.plan.of_role(Role.LEARNER)]


def counted(run: Changing, name: str, counter: str) -> float:
    return StatsBlock(run.memories[run.placed[name].host].segment(block_of(name))).get(counter)


def check(run: Changing) -> None:
    """At any moment: every sample is somewhere, once."""
    groups = {p.group for p in run.placed.values()}
    for actor in actors(run):
        near, far = run.near(actor), run.far(actor)
        assert near.produced == near.consumed + near.dropped_stale + near.dropped_other + near.in_flight
        assert (near.produced, near.consumed) == (far.produced, far.consumed), f"{actor}: {near} {far}"
    for group in groups:
        consumed = sum(run.far(name).consumed for name in actors(run) if run.placed[name].group == group)
        if run.plan.job.on_policy:
            assert run.batches(group).produced == consumed
        elif f"buffer-{group}" in run.components:
            assert run.components[f"buffer-{group}"]._replay.inserted == consumed


def check_sources(run: Changing) -> None:
    """Queue: the fragments of every actor, from the first to the last one consumed, in one batch each."""
    if not run.plan.job.on_policy:
        return  # a replay memory does not say where its rows come from; `check` counts them
    pairs = sorted(pair for sources in run.sources.values() for pair in sources if pair[0] >= 0)
    assert len(pairs) == len(set(pairs)), "a fragment was sent twice"
    for name in actors(run):
        sent = [fragment for actor, fragment in pairs if actor == run.placed[name].index]
        assert sent == list(range(run.far(name).released)), f"fragments of {name}"


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("learn", ["ppo", "dqn"])
def test_a_run_whose_shape_changes_at_random_loses_and_doubles_nothing(tmp_path: Path, learn: str, seed: int) -> None:
    chance = random.Random(seed)
    run = start(tmp_path, learn)
    updates: dict[str, float] = {}
    for _ in range(8):
        for _ in range(chance.randint(1, 60)):
            run.tick()
            check(run)
            for name in learners(run):
                now = counted(run, name, "updates")
                assert now >= updates.get(name, 0), f"{name} went back"
                assert counted(run, name, "version") <= now
                updates[name] = now
        if chance.random() < 0.5:
            run.revise(rearrange(run.plan, Shape.parse(chance.choice(SHAPES))))
        else:
            drain(run)
            run.revise(settle(run.plan))
    drain(run)
    run.revise(settle(run.plan))
    for _ in range(300):
        run.tick()
    check(run)
    check_sources(run)
    for name in learners(run):
        assert counted(run, name, "updates") > updates.get(name, 0), f"{name} does not train"


@pytest.mark.parametrize("learn", ["ppo", "dqn"])
def test_buffers_and_learners_that_are_replaced_at_random_moments_go_on(tmp_path: Path, learn: str) -> None:
    chance = random.Random(3)
    run = start(tmp_path, learn)
    replaced = 0
    for _ in range(250):
        run.tick()
        check(run)
        for name in [name for name in run.components if name.startswith(("buffer", "learner"))]:
            if chance.random() < 0.2:
                board, trained = _board(run, name), counted(run, name, "updates")
                run.components.pop(name).stop()
                if board is not None:
                    assert board.version == trained, "all that it has learnt is published"
                run.begin(name)
                assert counted(run, name, "updates") == trained
                replaced += 1
    assert replaced > 60
    check_sources(run)
    assert all(counted(run, name, "updates") > 5 for name in learners(run))


def _board(run: Changing, name: str) -> Any:
    return run.components[name]._ports.policy if name.startswith("learner") else None


@pytest.mark.parametrize("learn", ["ppo", "dqn"])
def test_a_buffer_killed_half_way_knows_what_it_took_though_a_ring_has_gone_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, learn: str
) -> None:
    def die(consumer: Consumer, **samples: int) -> None:
        if consumer.spec.name.startswith("fragments"):
            raise Killed
        release(consumer, **samples)

    run, release = start(tmp_path, learn, "L1A3", count=1), Consumer.release
    for _ in range(50):
        run.tick()
    run.components.pop("actor-0").stop()
    while run.far("actor-0").in_flight:
        run.tick()
    with monkeypatch.context() as death, pytest.raises(Killed):
        death.setattr(Consumer, "release", die)
        for _ in range(1_000):
            run.tick()
    del run.components["buffer-0"]
    run.revise(run.plan.model_copy(update={"placements": tuple(p for p in run.plan.placements if p.name != "actor-0")}))
    for _ in range(50):
        run.tick()
        check(run)
    check_sources(run)


class Killed(BaseException):
    """The process ends here."""


def test_a_learner_that_joins_begins_with_the_state_of_one_that_is_there(tmp_path: Path) -> None:
    run = start(tmp_path, "ppo", "L1A2")
    while counted(run, "learner-0", "updates") < 10:
        run.tick()
    run.revise(rearrange(run.plan, Shape.parse("L2A4")))
    new = next(p for p in run.plan.of_role(Role.LEARNER) if p.name != "learner-0")
    assert new.donor == 0
    old_state, new_state = (run.components[name]._algorithm.state() for name in ("learner-0", new.name))
    assert all(np.array_equal(old_state[field], new_state[field]) for field in old_state)
    assert counted(run, new.name, "updates") == counted(run, new.name, "samples_trained") == 0
    assert run.components[new.name]._env_steps == run.components["learner-0"]._env_steps > 0
    run.revise(settle(run.plan))
    first = counted(run, "learner-0", "updates")
    for _ in range(150):
        run.tick()
    assert counted(run, new.name, "updates") > 0
    assert counted(run, "learner-0", "updates") > first


def test_a_donor_on_another_node_is_mirrored_for_as_long_as_it_takes(tmp_path: Path) -> None:
    run = start(tmp_path, "dqn", "L1A2", count=1)
    while counted(run, "learner-0", "updates") < 5:
        run.tick()
    run.revise(rearrange(run.plan, Shape.parse("L2A8"), hosts=nodes(4, 8)))
    new = next(p for p in run.plan.of_role(Role.LEARNER) if p.name != "learner-0")
    assert new.host != run.placed["learner-0"].host
    assert "learner-state.0" in run.wirings[new.host].boards
    run.revise(settle(run.plan))
    assert "learner-state.0" not in run.wirings[new.host].boards
    for _ in range(150):
        run.tick()
    assert counted(run, new.name, "updates") > 0
