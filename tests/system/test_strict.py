"""The strict mode over real processes: as exact as in one thread."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
from safetensors.numpy import load_file

from support.running import tianjictl

JOBS = {
    "ppo": "algorithm: {name: ppo, rollout: 16}\n",
    "dqn": "algorithm: {name: dqn, learning_starts: 256, replay: {kind: proportional}}\n",
}


def digest_of(home: Path, job: Path, seed: int) -> tuple[int, str]:
    """Train to the job's end; env steps are not compared, as actors may be one fragment ahead when told to leave."""
    tianjictl(home, "launch", str(job), "--name", f"s{seed}", "--set", f"training.seed={seed}")
    (shard,) = sorted(home.glob(f"runs/s{seed}-*/checkpoints/step-*/learner-0.safetensors"))[-1:]
    arrays = load_file(shard)
    return int(arrays["counters"][0]), hashlib.sha256(arrays["params"].tobytes()).hexdigest()


@pytest.mark.parametrize("learn", ["ppo", "dqn"])
def test_one_seed_gives_one_result_bit_for_bit_over_processes(tmp_path: Path, learn: str) -> None:
    job = tmp_path / "job.yaml"
    job.write_text(
        "name: strict\nenv: {id: CartPole-v1, num_envs: 8}\n"
        + JOBS[learn]
        + "distributed: {actors: 1, learners: 1}\n"
        + "training: {dependencies: strict, stop: {updates: 25}}\ncheckpoint: {every: 0.1s}\n"
    )
    results = [digest_of(tmp_path / f"home{number}", job, seed) for number, seed in enumerate((1, 1, 2))]
    assert [updates for updates, _ in results] == [25, 25, 25], "as many updates as the job says, not one more"
    assert results[0] == results[1]
    assert results[0] != results[2]
