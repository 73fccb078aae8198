"""The whole group in one thread: the same components, without processes, so that every order is the test's own."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from runtime.checkpoint.manifest import Manifest
from runtime.checkpoint.partial import PartialCheckpoint
from runtime.contract.paths import RunPaths
from runtime.contract.record import RunRecord
from runtime.contract.states import Role
from runtime.contract.view import RunView
from runtime.in_process import InProcessRun, _Chronicle
from runtime.memory.ring import read_ledger
from support.many_nodes import placed, plan_over
from support.plans import make_job, make_plan

PAIR = (Role.LEARNER, Role.BUFFER)

FAST: dict[str, dict[str, Any]] = {
    "ppo": {"algorithm": {"learning_rate": 3e-3}},
    "dqn": {"algorithm": {"learning_starts": 128, "samples_per_insert": 2.0}, "training": {"batch_size": 32}},
}


def start(
    folder: Path, learn: str = "ppo", shape: str = "L1A1", *, resume_from: Path | None = None, **training: Any
) -> InProcessRun:
    parts = {**FAST[learn], "training": {**FAST[learn].get("training", {}), **training}}
    paths = RunPaths(folder)
    paths.root.mkdir(parents=True, exist_ok=True)
    run = InProcessRun(
        make_plan(make_job(learn, **parts), shape),
        paths,
        run_attempt=2 if resume_from else 1,
        resume_from=resume_from,
    )
    run.start()
    return run


def train(run: InProcessRun, updates: int) -> None:
    """Tick until every learner together has made so many updates."""
    for _ in range(200_000):
        if run.total(Role.LEARNER, "updates") >= updates:
            return
        run.tick()
    raise AssertionError(f"{run.total(Role.LEARNER, 'updates')} of {updates} updates after 200 000 ticks")


def digest(run: InProcessRun) -> str:
    learner: Any = run.components["learner-0"]
    return hashlib.sha256(learner._algorithm.params.tobytes()).hexdigest()


def seal(run: InProcessRun, step: int) -> Path:
    """A complete checkpoint of the run."""
    partial = PartialCheckpoint(run.paths.checkpoints, step)
    run.checkpoint(step)
    manifest = Manifest(
        run_id="test",
        name="test",
        step=step,
        created_at=datetime.now(UTC),
        shape=run.plan.shape,
        attempt=1,
        job_digest="-",
        counters={
            "env_steps": run.total(Role.ACTOR, "env_steps"),
            "updates": run.total(Role.LEARNER, "updates"),
            "version": run.total(Role.LEARNER, "version"),
            "episodes": run.total(Role.ACTOR, "episodes"),
        },
    )
    return partial.complete(manifest, [p.name for p in run.plan.placements if p.role in (Role.LEARNER, Role.BUFFER)])


@pytest.mark.parametrize("learn", ["ppo", "dqn"])
@pytest.mark.parametrize("shape", ["L1A1", "L1A2"])
def test_a_strict_run_gives_one_result_for_one_seed_bit_for_bit(tmp_path: Path, learn: str, shape: str) -> None:
    digests = []
    for number, seed in enumerate((1, 1, 2)):
        run = start(tmp_path / str(number), learn, shape, dependencies="strict", seed=seed)
        train(run, 12)
        digests.append(digest(run))
        run.stop()
    assert digests[0] == digests[1]
    assert digests[0] != digests[2]


@pytest.mark.parametrize("dependencies", ["relaxed", "policy-only", "strict"])
@pytest.mark.parametrize("learn", ["ppo", "dqn"])
def test_every_sample_is_accounted_for_at_every_tick(tmp_path: Path, learn: str, dependencies: str) -> None:
    run = start(tmp_path / "run", learn, "L1A2", dependencies=dependencies)
    rings = run.assembly.wiring.rings
    for _ in range(400):
        run.tick()
        ledgers = {name: read_ledger(run.resources.segment(name), spec) for name, spec in rings.items()}
        produced = sum(ledger.produced for name, ledger in ledgers.items() if name.startswith("fragments"))
        assert produced == run.total(Role.ACTOR, "env_steps")
        for ledger in ledgers.values():
            assert 0 <= ledger.in_flight <= ledger.produced
    assert run.total(Role.LEARNER, "updates") > 0
    run.stop()


@pytest.mark.parametrize("learn", ["ppo", "dqn"])
def test_the_view_of_a_run_in_one_thread_has_its_ledger_and_the_samples_it_trained_on(
    tmp_path: Path, learn: str
) -> None:
    run = start(tmp_path / "run", learn, "L1A2")
    chronicle = _Chronicle(run, run_record())
    train(run, 8)
    chronicle.note()
    view = RunView.model_validate_json(run.paths.view.read_bytes())
    ledger = view.samples
    assert ledger.produced == view.progress.env_steps > 0
    assert ledger.consumed > 0
    rest = ledger.consumed + ledger.dropped_stale + ledger.dropped_other + ledger.in_flight
    assert rest == ledger.produced
    assert view.rates.samples_per_s > 0
    run.stop()


def run_record() -> RunRecord:
    now = datetime.now(UTC)
    return RunRecord(run_id="test", name="test", created_at=now, user="me", host="here", argv=("launch",), version="1")


def test_strict_samples_are_never_older_than_the_policy_that_is_trained(tmp_path: Path) -> None:
    run = start(tmp_path / "run", "ppo", "L1A2", dependencies="strict")
    train(run, 8)
    assert run.assembly.block("learner-0").lag_histogram[1:].sum() == 0
    run.stop()


def test_a_plan_over_several_nodes_runs_in_one_thread_too(tmp_path: Path) -> None:
    paths = RunPaths(tmp_path / "run")
    paths.root.mkdir()
    groups = [placed(f"{role}-{group}", host, group) for group, host in ((0, "n1"), (1, "n2")) for role in PAIR]
    run = InProcessRun(plan_over(*groups, placed("actor-0", "n2"), placed("actor-1", "n3", 1)), paths)
    run.start()
    train(run, 6)
    assert run.assembly.control.global_env_steps > 0
    run.stop()


def test_ppo_learns_cartpole(tmp_path: Path) -> None:
    job = make_job("ppo", env={"num_envs": 32}, algorithm={"rollout": 32, "learning_rate": 3e-3})
    paths = RunPaths(tmp_path / "run")
    paths.root.mkdir()
    run = InProcessRun(make_plan(job), paths)
    run.start()
    train(run, 60)
    assert run.best_mean_100 is not None
    assert run.best_mean_100 > 100.0, "a random policy holds the pole for 20 steps"
    run.stop()


@pytest.mark.parametrize("learn", ["ppo", "dqn"])
def test_a_run_goes_on_from_its_checkpoint(tmp_path: Path, learn: str) -> None:
    first = start(tmp_path / "run", learn)
    train(first, 20)
    folder = seal(first, first.total(Role.ACTOR, "env_steps"))
    updates, trained = first.total(Role.LEARNER, "updates"), digest(first)
    replayed = first.components["buffer-0"]
    held = replayed._replay.size if learn == "dqn" else 0  # type: ignore[attr-defined]
    first.stop()
    second = start(tmp_path / "again", learn, resume_from=folder)
    assert digest(second) == trained
    assert second.total(Role.LEARNER, "updates") == updates
    if learn == "dqn":
        assert second.components["buffer-0"]._replay.size == held  # type: ignore[attr-defined]
    train(second, updates + 5)
    second.stop()


@pytest.mark.parametrize("learn", ["ppo", "dqn"])
@pytest.mark.parametrize(("before", "after"), [("L1A2", "L2A4"), ("L2A4", "L1A1")])
def test_a_run_goes_on_in_another_shape(tmp_path: Path, learn: str, before: str, after: str) -> None:
    first = start(tmp_path / "run", learn, before)
    train(first, 20)
    folder = seal(first, 1000)
    total = first.total(Role.LEARNER, "updates")
    first.stop()
    second = start(tmp_path / "again", learn, after, resume_from=folder)
    assert second.total(Role.LEARNER, "updates") == total, "updates are neither lost nor counted twice"
    train(second, total + 6)
    second.stop()


def test_learners_of_one_run_stay_close_by_averaging(tmp_path: Path) -> None:
    run = start(tmp_path / "run", "ppo", "L2A2", sync_every=1)
    train(run, 40)
    first, second = (run.components[f"learner-{index}"]._algorithm.params for index in (0, 1))  # type: ignore[attr-defined]
    together = abs(first - second).max()
    run.stop()
    apart_run = start(tmp_path / "apart", "ppo", "L2A2", sync_every=1000)
    train(apart_run, 40)
    first, second = (apart_run.components[f"learner-{index}"]._algorithm.params for index in (0, 1))  # type: ignore[attr-defined]
    assert together < 0.5 * abs(first - second).max()
    apart_run.stop()
