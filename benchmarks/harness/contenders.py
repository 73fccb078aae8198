"""Who takes part, and how each is started. The settings themselves stand in `benchmarks/peers/*.py` and in the jobs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

BENCHMARKS = Path(__file__).resolve().parent.parent
REPOSITORY = BENCHMARKS.parent


@dataclass(frozen=True, kw_only=True, slots=True)
class Contender:
    """One row of the table."""

    name: str
    label: str
    settings: str
    environment: str | None  #: its virtual environment below `.venvs`; none: the one that runs this script
    script: tuple[str, ...]  #: a peer's script and its arguments; ours: the job's path

    @property
    def ours(self) -> bool:
        return self.environment is None


def _peer(name: str, label: str, settings: str, environment: str, *script: str) -> Contender:
    return Contender(name=name, label=label, settings=settings, environment=environment, script=script)


def _own(name: str, job: str) -> Contender:
    label = f"tianjictl {name.upper()}"
    return Contender(name=f"ours-{name}", label=label, settings=job, environment=None, script=(job,))


PEERS = {
    peer.name: peer
    for peer in (
        _peer("sb3-ppo", "Stable-Baselines3 2.9 PPO", "rl-zoo: 8 envs × 32 steps, 20 epochs", "sb3", "sb3.py", "ppo"),
        _peer("sb3-dqn", "Stable-Baselines3 2.9 DQN", "rl-zoo", "sb3", "sb3.py", "dqn"),
        _peer("rllib-ppo", "RLlib 2.60 PPO", "tuned example, 2 runners × 1 env", "rllib", "rllib.py", "ppo"),
        _peer(
            "rllib-ppo-8",
            "RLlib 2.60 PPO",
            "tuned example, 2 runners × 8 envs",
            "rllib",
            "rllib.py",
            "ppo",
            "--envs",
            "8",
        ),
        _peer("rllib-dqn", "RLlib 2.60 DQN", "tuned example, 2 runners × 1 env", "rllib", "rllib.py", "dqn"),
        _peer(
            "sf-appo",
            "Sample Factory 2.1 APPO",
            "documented CartPole command, 2 × 20 envs",
            "sample-factory",
            "sample_factory_appo.py",
        ),
    )
}

OURS = {name: _own(name, f"playbooks/train/cartpole-{name}.yaml") for name in ("ppo", "dqn")}
