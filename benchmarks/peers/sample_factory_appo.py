"""Sample Factory APPO on CartPole-v1 with the command that its documentation gives, on two workers of 20 envs."""

from __future__ import annotations

import sys
import tempfile
from typing import Any

from milestones import Milestones, options
from sample_factory.algo.runners.runner import AlgoObserver
from sample_factory.algo.utils.misc import EPISODIC
from sample_factory.train import make_runner
from sf_examples.train_gym_env import parse_custom_args, register_custom_components


class Report(AlgoObserver):
    """Passes on each ended episode; ends the training when the highest target is reached."""

    def __init__(self, milestones: Milestones) -> None:
        self._milestones = milestones

    def on_init(self, runner: Any) -> None:
        runner.register_episodic_stats_handler(self._episode)

    def _episode(self, runner: Any, message: dict[str, Any], _policy: int) -> None:
        self._milestones.episode(float(message[EPISODIC]["reward"]), sum(runner.env_steps.values()))
        if self._milestones.done:
            runner.cfg.train_for_env_steps = 0

    def on_training_step(self, runner: Any, training_iteration_since_resume: int) -> None:
        del training_iteration_since_resume
        self._milestones.steps(sum(runner.env_steps.values()))


def command(seed: int, folder: str) -> list[str]:
    """The documented arguments; workers and folder are ours."""
    return [
        "--algo=APPO",
        "--env=CartPole-v1",
        "--use_rnn=False",
        "--num_workers=2",
        "--num_envs_per_worker=20",
        "--policy_workers_per_policy=2",
        "--recurrence=1",
        "--with_vtrace=False",
        "--batch_size=512",
        "--reward_scale=0.1",
        "--save_every_sec=10",
        "--experiment_summaries_interval=10",
        "--experiment=cartpole",
        "--device=cpu",
        f"--train_dir={folder}",
        f"--seed={seed}",
    ]


def main() -> None:
    arguments = options(__doc__ or "").parse_args()
    with tempfile.TemporaryDirectory(prefix="sf-", ignore_cleanup_errors=True) as folder:
        register_custom_components()
        config = parse_custom_args(command(arguments.seed, folder))
        config, runner = make_runner(config)
        runner.register_observer(Report(Milestones(arguments.targets)))
        runner.init()
        sys.exit(runner.run())


if __name__ == "__main__":
    main()
