"""Profiles: what makes old rates worthless, where they are kept, and that measuring works."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace

import pytest

from runtime.contract.envspec import EnvSpec
from runtime.contract.job import EnvConfig, Job
from runtime.contract.measurement import (
    ActorRate,
    LearnerRate,
    MeasureProgress,
    MeasureReport,
    MeasureRequest,
    Spread,
)
from runtime.contract.shape import Shape
from runtime.contract.sizes import resolve_sizes
from runtime.measure.bench import Bench
from tianjictl.errors import Infeasible, PlanStale, UsageProblem
from tianjictl.launching import local_plan
from tianjictl.launching.local_plan import plan_for_this_machine, refuse_what_looks_frozen
from tianjictl.launching.stale import check_still_valid, with_origin
from tianjictl.planning.check import check
from tianjictl.planning.stating import node_of, state
from tianjictl.profiling import local, store
from tianjictl.profiling.facts.cpus import Core
from tianjictl.profiling.local import local_facts, measure_request, measured_sizes
from tianjictl.profiling.probing import EnvProbe, measure
from tianjictl.profiling.profile import ClusterProfile, HostProfile, profile_key
from tianjictl.profiling.speeds import At, host_rates

CARTPOLE = EnvSpec(id="CartPole-v1", observation_shape=(4,), num_actions=2, native_vector=True, autoreset="next-step")


@pytest.fixture(autouse=True)
def own_state_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TIANJICTL_HOME", str(tmp_path / "state"))
    return tmp_path / "state"


def make_job(algorithm: str | dict[str, object] = "ppo", **sections: object) -> Job:
    base = {
        "name": "test",
        "env": {"id": "CartPole-v1"},
        "algorithm": {"name": algorithm} if isinstance(algorithm, str) else algorithm,
    }
    return Job.model_validate(base | sections)


def known(value: float) -> Spread:
    return Spread(median=value, low=value, high=value, repeats=1)


REPORT = MeasureReport(
    actors=(ActorRate(num_envs=64, busy_neighbours=0, steps_per_s=known(400_000)),),
    learners=(LearnerRate(cores=1, samples_per_s=known(50_000)),),
    fragment_samples=2048,
    buffer_s_per_fragment=known(1e-4),
    memcpy_mb_per_s=known(10_000),
    checkpoint_mb_per_s=known(500),
)


def profile_of(job: Job) -> ClusterProfile:
    facts = local_facts()
    return ClusterProfile(
        key=profile_key(facts, job, measured_sizes(job, CARTPOLE)),
        created_at=datetime(2026, 1, 1, tzinfo=UTC),
        hosts=(HostProfile(facts=facts, measured=REPORT),),
    )


def key_of(job: Job, **facts: object) -> str:
    return profile_key(local_facts().model_copy(update=facts), job, resolve_sizes(job, Shape(1, 1), CARTPOLE))


def test_the_key_changes_with_what_changes_the_rates() -> None:
    base = key_of(make_job())
    assert base == key_of(make_job())
    others = {
        key_of(make_job(), boot_id="another boot"),
        key_of(make_job(), packages={"numpy": "0.1"}),
        key_of(make_job(env={"id": "CartPole-v1", "delay_us": 100})),
        key_of(make_job(env={"id": "CartPole-v1", "num_envs": 8})),
        key_of(make_job(algorithm={"name": "ppo", "network": {"hidden": [256]}})),
        key_of(make_job(algorithm={"name": "ppo", "epochs": 1})),
        key_of(make_job("dqn")),
        key_of(make_job("dqn", distributed={"buffer_size": 20_000}, training={"staleness_tolerance": 0.001})),
    }
    assert len(others) == 8
    assert base not in others


def test_the_key_stays_where_only_the_outcome_changes() -> None:
    learning = {"name": "ppo", "learning_rate": 1e-4, "gamma": 0.9}
    assert key_of(make_job()) == key_of(make_job(algorithm=learning, training={"seed": 7}))


def test_a_kept_profile_is_found_again_and_a_damaged_one_is_not() -> None:
    profile = profile_of(make_job())
    assert store.cached(profile.key) is None
    path = store.keep(profile)
    assert store.cached(profile.key) == profile
    path.write_text(path.read_text()[:-20])
    assert store.cached(profile.key) is None


def test_a_profile_file_that_is_none_is_refused_in_words(tmp_path: Path) -> None:
    with pytest.raises(UsageProblem, match="cannot read the profile"):
        store.load(tmp_path / "absent.json")
    (tmp_path / "other.json").write_text("{}")
    with pytest.raises(UsageProblem, match="is not a profile"):
        store.load(tmp_path / "other.json")


def test_the_cached_profile_gives_the_plan_its_prediction() -> None:
    job = make_job(distributed={"learners": 1, "actors": 1, "oversubscribe": True})
    without = plan_for_this_machine(job)
    assert without.predicted.env_steps_per_s is None
    assert without.fingerprints.profile is None
    profile = profile_of(job)
    store.keep(profile)
    plan = plan_for_this_machine(job)
    assert plan.predicted.samples_per_s is not None
    assert plan.fingerprints.profile == profile.digest
    assert check(plan, state(job, plan.env, [node_of(local_facts(), host_rates(REPORT))])) == []


def test_a_named_profile_and_a_named_shape_win_over_cache_and_job(tmp_path: Path) -> None:
    job = make_job(distributed={"learners": 1, "actors": 1})
    store.save(profile_of(job), tmp_path / "p.json")
    plan = plan_for_this_machine(job, shape="L2A3", oversubscribe=True, profile_path=tmp_path / "p.json")
    assert plan.shape == "L2A3"
    assert plan.job.distributed.actors == 3
    assert plan.predicted.samples_per_s is not None


def test_what_cannot_be_planned_is_refused_in_words() -> None:
    with pytest.raises(UsageProblem, match="not a shape"):
        plan_for_this_machine(make_job(), shape="4x4")
    with pytest.raises(UsageProblem, match="no such environment"):
        plan_for_this_machine(make_job(env={"id": "NoSuchEnv-v0"}))
    with pytest.raises(Infeasible, match="L1A1000000") as refusal:
        plan_for_this_machine(make_job(), shape="L1A1000000", oversubscribe=True)
    assert "the nearest shape that fits is L1A" in str(refusal.value.hint)


def test_an_open_shape_measures_first_and_only_once(monkeypatch: pytest.MonkeyPatch) -> None:
    facts = local_facts()
    wide = facts.cpu.model_copy(
        update={
            "allowed": tuple(Core(cpu=cpu, core=cpu) for cpu in range(8)),
            "usable": tuple(range(8)),
            "capacity": 8.0,
        }
    )
    requests: list[MeasureRequest] = []

    def fake(request: MeasureRequest, progress: Callable[[MeasureProgress], None]) -> MeasureReport:
        requests.append(request)
        progress(MeasureProgress(doing="nothing", done=0, total=1))
        return REPORT

    monkeypatch.setattr(local_plan, "local_facts", lambda: facts.model_copy(update={"cpu": wide}))
    monkeypatch.setattr(local, "measure", fake)
    told: list[str] = []
    plan = plan_for_this_machine(make_job(), progress=told.append)
    assert plan.shape == "L4A4", "learners bind, and each needs an actor"
    assert plan.solver == "optimal"
    assert requests[0].learner_cores == (1, 2, 4)
    told = [line for line in told if not line.startswith("waiting for environment")]  # a busy machine says so
    assert told == ["nothing measured yet for this job on this machine: measuring first", "measuring nothing (1/1)"]
    assert plan_for_this_machine(make_job()) == plan
    assert len(requests) == 1


def test_a_plan_for_another_machine_or_job_is_stale() -> None:
    job = make_job(distributed={"learners": 1, "actors": 1, "oversubscribe": True})
    plan = plan_for_this_machine(job)
    check_still_valid(plan)
    prints = plan.fingerprints.model_copy(update={"inventory": "another machine"})
    with pytest.raises(PlanStale, match="this machine"):
        check_still_valid(plan.model_copy(update={"fingerprints": prints}))
    with pytest.raises(PlanStale, match="the job"):
        check_still_valid(plan.model_copy(update={"job": make_job("dqn")}))


def test_a_saved_plan_is_stale_once_its_job_file_or_its_profile_has_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "job.yaml"
    file.write_text("name: a\n")
    job = make_job(distributed={"learners": 1, "actors": 1, "oversubscribe": True})
    plan = with_origin(plan_for_this_machine(job), file, None)
    check_still_valid(plan)
    file.write_text("name: b\n")
    with pytest.raises(PlanStale, match=r"job\.yaml has changed") as caught:
        check_still_valid(plan)
    assert f"tianjictl plan {file}" in str(caught.value.hint)
    file.unlink()
    check_still_valid(plan)  # the plan holds the whole job
    measured = plan.model_copy(update={"fingerprints": plan.fingerprints.model_copy(update={"profile": "one"})})
    check_still_valid(measured)
    again = SimpleNamespace(digest="another")
    monkeypatch.setattr("tianjictl.launching.stale.store.cached", lambda _key: again)
    with pytest.raises(PlanStale, match="measured again"):
        check_still_valid(measured)


@pytest.mark.parametrize(
    ("one", "envs", "native", "words"),
    [
        (None, 16, False, None),
        (1.0, 1, False, None),
        (1.0, 16, True, None),
        (0.5, 16, False, ["16 of them", "health.steady=24s", "env.num_envs=1"]),
        (5.0, 1, False, ["takes 5 s", "health.steady=15s"]),
    ],
)
def test_an_environment_whose_steps_outlast_the_heartbeat_is_refused(
    one: float | None, envs: int, native: bool, words: list[str] | None
) -> None:
    plan = plan_for_this_machine(make_job(distributed={"learners": 1, "actors": 1, "oversubscribe": True}))
    slow = plan.model_copy(
        update={
            "env": plan.env.model_copy(update={"slow_step_s": one, "native_vector": native}),
            "sizes": plan.sizes.model_copy(update={"num_envs": envs}),
        }
    )
    if words is None:
        refuse_what_looks_frozen(slow)
        return
    with pytest.raises(UsageProblem) as caught:
        refuse_what_looks_frozen(slow)
    said = " ".join(caught.value.lines())
    assert all(word in said for word in words)


def test_a_job_that_ends_after_one_update_is_measured_like_any_other(tmp_path: Path) -> None:
    job = make_job(training={"stop": {"updates": 1, "env_steps": 1}})
    bench = Bench(measure_request(job, CARTPOLE, measured_sizes(job, CARTPOLE), local_facts(), tmp_path))
    try:
        assert all(samples_per_s > 0 for samples_per_s, _ in (bench.batch_costs() for _ in range(3)))
    finally:
        bench.close()


@pytest.mark.parametrize("algorithm", ["ppo", "dqn"])
def test_measuring_gives_every_rate_and_tells_of_each_step(algorithm: str, tmp_path: Path) -> None:
    job = make_job(algorithm)
    request = measure_request(job, CARTPOLE, measured_sizes(job, CARTPOLE), local_facts(), tmp_path)
    steps: list[MeasureProgress] = []
    report = measure(request.model_copy(update={"seconds": 0.1}), steps.append)
    assert [step.done for step in steps] == list(range(steps[0].total))
    assert report.actors[0].steps_per_s.median > 1_000
    assert report.learners[0].samples_per_s.median > 100
    assert 0 < report.buffer_s_per_fragment.median < 1
    assert report.fragment_samples == request.sizes.fragment_samples
    for spread in (report.actors[0].steps_per_s, report.memcpy_mb_per_s, report.checkpoint_mb_per_s):
        assert 0 < spread.low <= spread.median <= spread.high
    assert list(tmp_path.glob("*.tmp")) == [], "the file that was written to measure the disk is gone"
    first = report.by_turns[0]
    assert (first.num_envs, first.batch_size) == (request.sizes.num_envs, request.sizes.batch_size)
    larger = {2 * first.batch_size} if algorithm == "ppo" else set()
    assert {turn.batch_size for turn in report.by_turns[1:]} == {first.batch_size // 2, *larger}
    if algorithm == "dqn":
        usual, small = (host_rates(report, At(first.num_envs, batch)).learner[0] for batch in (first.batch_size, 32))
        assert small.samples_per_s < 0.5 * usual.samples_per_s, "most of a small update does not depend on its samples"


def test_a_slow_environment_measures_slow(tmp_path: Path) -> None:
    job = make_job(env={"id": "CartPole-v1", "num_envs": 2, "delay_us": 2_000})
    facts = local_facts()
    request = measure_request(job, CARTPOLE, measured_sizes(job, CARTPOLE), facts, tmp_path)
    report = measure(
        request.model_copy(update={"seconds": 0.1, "cores": facts.cpu.usable[:1]}), progress=lambda _step: None
    )
    assert report.actors[0].steps_per_s.median < 1_000, "two environments a step, and a step takes over 2 ms"


def test_a_probe_does_not_outlive_its_block() -> None:
    with EnvProbe(EnvConfig(id="CartPole-v1")) as probe:
        process = probe._process
    assert process.returncode is not None


def test_profiles_are_readable_json() -> None:
    document = json.loads(profile_of(make_job()).model_dump_json())
    assert document["hosts"][0]["measured"]["learners"][0]["cores"] == 1
