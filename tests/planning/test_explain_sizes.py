"""What holds sizes down is named with what it costs: memory, P, and numbers of the job."""

from __future__ import annotations

from typing import Any

import pytest
from planning_problems import CARTPOLE, PRINTS, job

from runtime.contract.envspec import EnvSpec
from runtime.contract.measurement import ActorRate, LearnerRate, MeasureReport, Spread, TurnRate
from runtime.contract.plan import Plan
from support.odd_machines import raw_of
from tianjictl.planning.build import make_plan
from tianjictl.planning.cause import Cause
from tianjictl.planning.explain import Explanation, explain
from tianjictl.planning.stating import node_of, state
from tianjictl.profiling.facts.host import HostFacts, understand
from tianjictl.profiling.speeds import At, Speeds, host_rates

PIXELS = EnvSpec(id="CartPole-v1", observation_shape=(4096,), num_actions=2, native_vector=True, autoreset="next-step")


def known(value: float) -> Spread:
    return Spread(median=value, low=value, high=value, repeats=1)


def report(batch: int, *others: int, envs: int = 16, actor: float = 100_000.0) -> MeasureReport:
    """Of DQN: an update costs 400 µs and 2 µs for each sample, measured with these batches."""

    def turn(size: int) -> TurnRate:
        return TurnRate(
            num_envs=envs, batch_size=size, learner_s_per_sample=cost(size), buffer_s_per_fragment=1e-6 * 16 * envs
        )

    def cost(size: int) -> float:
        return 400e-6 / size + 2e-6

    return MeasureReport(
        actors=(ActorRate(num_envs=envs, busy_neighbours=1, steps_per_s=known(actor)),),
        learners=(LearnerRate(cores=1, samples_per_s=known(1.0 / cost(batch))),),
        fragment_samples=16 * envs,
        buffer_s_per_fragment=known(1e-6 * 16 * envs),
        memcpy_mb_per_s=known(10_000.0),
        checkpoint_mb_per_s=known(500.0),
        by_turns=tuple(map(turn, (batch, *others))),
    )


def recorded(cores: int, memory: int) -> HostFacts:
    """A host in a cgroup that gives it so much memory: what its files say."""
    raw = raw_of("memory_v2_number")
    limits = {"/sys/fs/cgroup/job/memory.max": str(memory), "/sys/fs/cgroup/job/memory.high": "max"}
    cpus = tuple(range(cores))
    online = {"/sys/devices/system/cpu/online": f"0-{cores - 1}"}
    return understand(raw.model_copy(update={"files": raw.files | limits | online, "affinity": cpus}))


def explained(
    measured: MeasureReport, facts: HostFacts, env: EnvSpec = CARTPOLE, **sections: Any
) -> tuple[Plan, Explanation]:
    wanted, speeds, decided = job("dqn", **sections), Speeds(measured), []
    problem = state(wanted, env, [node_of(facts, speeds.at())], lambda sizes: [node_of(facts, speeds.at(sizes))])
    plan = make_plan(
        problem,
        wanted,
        env,
        PRINTS,
        rates_at=lambda sizes: {facts.name: speeds.at(sizes)},
        decided=lambda *both: decided.append(both),
    )
    return plan, explain(*decided[0], plan)


def test_memory_that_holds_shape_and_buffer_down_is_the_bottleneck() -> None:
    facts = recorded(8, 1200 << 20)
    assert facts.memory.limit_bytes == 1200 << 20
    plan, found = explained(report(256, 512, 128), facts, PIXELS)
    assert plan.learners_and_actors.learners == 1
    assert plan.sizes.buffer_size < 65_536
    assert found.bottleneck == Cause.MEMORY
    assert found.binds[0].gain > 0.5
    assert f"buffers hold {plan.sizes.buffer_size:,} samples instead of 65,536" in found.binds[0].sentence
    roomy, free = explained(report(256, 512, 128), recorded(8, 32 << 30), PIXELS)
    assert roomy.sizes.buffer_size == 65_536
    assert roomy.learners_and_actors.learners > 1
    assert Cause.MEMORY not in {bind.cause for bind in free.binds}


def test_a_buffer_that_memory_holds_down_is_told_though_it_costs_no_speed() -> None:
    one = {"learners": 1, "actors": 1, "learner_cores": 1}
    plan, found = explained(report(256, 512, 128), recorded(2, 1200 << 20), PIXELS, distributed=one)
    assert plan.sizes.buffer_size < 65_536
    assert found.bottleneck == Cause.LEARNER
    assert [bind.cause for bind in found.binds][-1] == Cause.MEMORY


def test_a_tight_p_is_named_with_what_it_costs() -> None:
    tight = {"training": {"staleness_tolerance": 0.001}, "distributed": {"buffer_size": 20_000}}
    plan, found = explained(report(20, 10, 65, 256), recorded(2, 8 << 30), **tight)
    assert plan.sizes.batch_size == 20
    assert found.bottleneck == Cause.STALENESS
    assert found.binds[0].sentence == (
        "P: staleness_tolerance 0.001 × buffer_size 20,000 holds the batch at 20 samples (it would be 256); with that "
        "L1A1 would reach 280,702 samples/s (+518%): raise one of the two"
    )
    (worth,) = [each for each in found.marginal if each.limit == "training.staleness_tolerance"]
    assert worth.gain == pytest.approx(5.175, abs=0.01)


def test_a_small_batch_that_was_asked_for_is_named_with_what_another_would_give() -> None:
    plan, found = explained(report(32, 128, 256), recorded(2, 8 << 30), training={"batch_size": 32})
    assert plan.sizes.batch_size == 32
    assert found.bottleneck == Cause.SIZES
    sentence = found.binds[0].sentence
    assert sentence.startswith("training.batch_size: 32 was asked for; with 16 environments per actor, batches of 256")
    assert "L1A1 would reach 280,702 samples/s (+307%)" in sentence


def test_a_batch_that_was_asked_for_is_not_blamed_where_another_would_give_little() -> None:
    _, found = explained(report(512, 256, 1024), recorded(2, 8 << 30), training={"batch_size": 512})
    assert found.bottleneck == Cause.LEARNER
    assert Cause.SIZES not in {bind.cause for bind in found.binds}


def test_costs_lie_on_the_line_between_what_was_measured_and_no_lower_beyond() -> None:
    measured = report(256, 128, 512)
    cost = {batch: 1.0 / host_rates(measured, At(16, batch)).learner[0].samples_per_s for batch in (32, 64, 384, 2048)}
    for batch in (32, 64, 384):
        assert cost[batch] == pytest.approx(400e-6 / batch + 2e-6)
    assert cost[2048] == pytest.approx(400e-6 / 512 + 2e-6), "nobody has seen that it would cost less"


def test_rates_of_a_profile_without_other_sizes_are_those_that_were_measured() -> None:
    old = report(256).model_copy(update={"by_turns": ()})
    assert host_rates(old, At(64, 32)) == host_rates(old)
    assert not Speeds(old).scales
