"""The evaluator: plays the newest policy from time to time, in small slices, never in the way of training."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from runtime.checkpoint.shard import save_shard
from runtime.components.base import Progress
from runtime.components.evaluation import Evaluation
from runtime.components.saving import save_part

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from runtime.contract.job import EnvConfig, EvaluationConfig
    from runtime.memory.block import StatsBlock
    from runtime.memory.board import BoardReader
    from runtime.memory.control import ControlBlock
    from runtime.models.spec import NetworkSpec

#: Seconds of play in one tick.
TICK_BUDGET_S = 0.005


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluatorPorts:
    """An evaluator's surroundings."""

    policy: BoardReader
    block: StatsBlock
    control: ControlBlock
    checkpoints: Path
    clock: Callable[[], float]


class Evaluator:
    """Every `config.every` seconds, if there is a new version: `config.episodes` greedy episodes, always the same seed.

    Plays the slowly averaged parameters (`shadow`) where the board has them, else the newest ones. A round that is
    under way is finished before the next begins, and its version is the one it began with.
    """

    def __init__(
        self, name: str, ports: EvaluatorPorts, config: EvaluationConfig, env: EnvConfig, network: NetworkSpec
    ) -> None:
        self.name = name
        self._ports = ports
        self._config = config
        self._env = env
        self._network = network
        self._field = "shadow" if "shadow" in ports.policy.spec.layout.offsets else "params"
        self._params = np.zeros(network.layout.size, np.float32)
        self._evaluation: Evaluation | None = None
        self._version = -1
        self._due_s = 0.0

    def start(self) -> None:
        """The first round begins with the first version."""
        self._due_s = self._ports.clock()

    def tick(self) -> Progress:
        """A few milliseconds of play, or IDLE until the next round."""
        ports = self._ports
        request = ports.control.checkpoint_request
        if request > ports.block.checkpoint_done:
            save_part(self, ports.checkpoints, request, ports.block)
            ports.block.checkpoint_done = request
        now = ports.clock()
        if self._evaluation is None:
            if now < self._due_s or ports.control.pause or not self._begin():
                return Progress.IDLE
            self._due_s = now + self._config.every
        self._play(now + TICK_BUDGET_S)
        return Progress.WORKED

    def _begin(self) -> bool:
        """Take the newest version; False where there is none, or none since the last round."""
        board = self._ports.policy
        if board.version == self._version:
            return False
        version = board.read({self._field: self._params})
        if version is None:
            return False
        self._version = version
        config = self._config
        self._evaluation = Evaluation(self._env, self._network, self._params, config.episodes, config.seed)
        return True

    def _play(self, deadline: float) -> None:
        evaluation, block = self._evaluation, self._ports.block
        assert evaluation is not None
        while (result := evaluation.result) is None:
            evaluation.step()
            if self._ports.clock() >= deadline:
                break
        if (result := evaluation.result) is not None:
            block.set("reward_eval", result.mean)
            block.set("reward_eval_version", self._version)
            block.add("episodes", len(result.returns))
            evaluation.close()
            self._evaluation = None

    def save(self, folder: Path) -> None:
        """What it saw last; nothing of it is needed to go on."""
        save_shard(folder, self.name, {}, {"version": self._version})

    def stop(self) -> None:
        """Leave a round that is under way."""
        if self._evaluation is not None:
            self._evaluation.close()
            self._evaluation = None

    def waits(self) -> Sequence[int]:
        return ()
