"""Stable-Baselines3 on CartPole-v1 with the settings of rl-baselines3-zoo."""

from __future__ import annotations

from milestones import Milestones, options
from stable_baselines3 import DQN, PPO
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.env_util import make_vec_env

PPO_STEPS = 100_000
DQN_STEPS = 50_000


class Report(BaseCallback):
    """Passes on each ended episode; ends the training when the highest target is reached."""

    def __init__(self, milestones: Milestones) -> None:
        super().__init__()
        self._milestones = milestones

    def _on_step(self) -> bool:
        for info in self.locals["infos"]:
            if "episode" in info:
                self._milestones.episode(float(info["episode"]["r"]), self.num_timesteps)
        self._milestones.steps(self.num_timesteps)
        return not self._milestones.done


def ppo(seed: int) -> tuple[PPO, int]:
    """8 envs × 32 steps, 20 epochs, learning rate 1e-3 → 0 and clip range 0.2 → 0 over 100 000 steps."""
    model = PPO(
        "MlpPolicy",
        make_vec_env("CartPole-v1", n_envs=8, seed=seed),
        n_steps=32,
        batch_size=256,
        n_epochs=20,
        gamma=0.98,
        gae_lambda=0.8,
        ent_coef=0.0,
        learning_rate=lambda remaining: remaining * 1e-3,
        clip_range=lambda remaining: remaining * 0.2,
        seed=seed,
        device="cpu",
    )
    return model, PPO_STEPS


def dqn(seed: int) -> tuple[DQN, int]:
    """One env; 128 gradient steps each 256 steps; ε 1 → 0.04 over the first 16 % of 50 000 steps."""
    model = DQN(
        "MlpPolicy",
        make_vec_env("CartPole-v1", n_envs=1, seed=seed),
        learning_rate=2.3e-3,
        batch_size=64,
        buffer_size=100_000,
        learning_starts=1_000,
        gamma=0.99,
        target_update_interval=10,
        train_freq=256,
        gradient_steps=128,
        exploration_fraction=0.16,
        exploration_final_eps=0.04,
        policy_kwargs={"net_arch": [256, 256]},
        seed=seed,
        device="cpu",
    )
    return model, DQN_STEPS


def main() -> None:
    parser = options(__doc__ or "")
    parser.add_argument("algorithm", choices=("ppo", "dqn"))
    arguments = parser.parse_args()
    milestones = Milestones(arguments.targets)
    model, steps = {"ppo": ppo, "dqn": dqn}[arguments.algorithm](arguments.seed)
    model.learn(steps, callback=Report(milestones))


if __name__ == "__main__":
    main()
