"""RLlib on CartPole-v1 with the settings of its own tuned examples, on two env runners."""

from __future__ import annotations

import tempfile
from typing import TYPE_CHECKING, Any

import ray
from milestones import Milestones, options
from ray.rllib.algorithms.callbacks import DefaultCallbacks
from ray.rllib.algorithms.dqn import DQNConfig
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig
from ray.rllib.utils.metrics import ENV_RUNNER_RESULTS, NUM_ENV_STEPS_SAMPLED_LIFETIME

if TYPE_CHECKING:
    from ray.rllib.algorithms.algorithm_config import AlgorithmConfig

RUNNERS = 2
RETURNS = "every_return"


class KeepReturns(DefaultCallbacks):
    """Hands every episode's return to the driver, so that the 100-episode mean is over all runners."""

    def on_episode_end(
        self, *, episode: Any, prev_episode_chunks: Any = None, metrics_logger: Any = None, **_: Any
    ) -> None:
        # `episode` is only the last chunk of what was played; the chunks before it were sampled earlier.
        chunks = [*(prev_episode_chunks or ()), episode]
        total = sum(float(chunk.get_return()) for chunk in chunks)
        metrics_logger.log_value(RETURNS, total, reduce="item_series")


def ppo() -> AlgorithmConfig:
    """Learning rate 3e-4, 6 epochs, 4000-step batches, one linear layer of 32 shared with the value head."""
    return (
        PPOConfig()
        .training(lr=0.0003, num_epochs=6, vf_loss_coeff=0.01)
        .rl_module(model_config=DefaultModelConfig(fcnet_hiddens=[32], fcnet_activation="linear", vf_share_layers=True))
    )


def dqn() -> AlgorithmConfig:
    """Double, dueling, n-step 2 to 5, prioritised replay of 50 000, ε 1 → 0.02 over 10 000 steps.

    The newest copy of the example stretches ε over 25 000 steps; the shorter schedule learns sooner.
    """
    return (
        DQNConfig()
        .training(
            lr=0.0005,
            train_batch_size_per_learner=32,
            replay_buffer_config={
                "type": "PrioritizedEpisodeReplayBuffer",
                "capacity": 50_000,
                "alpha": 0.6,
                "beta": 0.4,
            },
            n_step=(2, 5),
            double_q=True,
            dueling=True,
            epsilon=[(0, 1.0), (10_000, 0.02)],
        )
        .rl_module(
            model_config=DefaultModelConfig(
                fcnet_hiddens=[256],
                fcnet_activation="tanh",
                fcnet_bias_initializer="zeros_",
                head_fcnet_bias_initializer="zeros_",
                head_fcnet_hiddens=[256],
            )
        )
    )


def main() -> None:
    parser = options(__doc__ or "")
    parser.add_argument("algorithm", choices=("ppo", "dqn"))
    parser.add_argument("--envs", type=int, default=1, help="environments per runner")
    arguments = parser.parse_args()
    milestones = Milestones(arguments.targets)
    config = (
        {"ppo": ppo, "dqn": dqn}[arguments.algorithm]()
        .environment("CartPole-v1")
        .env_runners(num_env_runners=RUNNERS, num_envs_per_env_runner=arguments.envs)
        .callbacks(KeepReturns)
        .debugging(seed=arguments.seed)
    )
    # A short folder: Ray's socket paths must fit 107 bytes.
    with tempfile.TemporaryDirectory(prefix="ray-", ignore_cleanup_errors=True) as folder:
        # The driver's learner and two runners: three workers that each ask for a core, whatever the machine has.
        ray.init(num_cpus=RUNNERS + 1, include_dashboard=False, log_to_driver=False, _temp_dir=folder)
        algorithm = config.build_algo()
        while not milestones.done:
            results = algorithm.train()[ENV_RUNNER_RESULTS]
            env_steps = int(results.get(NUM_ENV_STEPS_SAMPLED_LIFETIME, 0))
            for episode_return in results.get(RETURNS, ()):
                milestones.episode(float(episode_return), env_steps)
            milestones.steps(env_steps)
        ray.shutdown()


if __name__ == "__main__":
    main()
