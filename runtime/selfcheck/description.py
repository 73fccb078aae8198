"""Whether the environment here is the one that the job was planned with."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runtime.envs.probe import probe
from runtime.selfcheck.finding import Seen

if TYPE_CHECKING:
    from runtime.contract.envspec import EnvSpec
    from runtime.contract.job import EnvConfig

_OF_THE_MACHINE = {"slow_step_s"}


class Description:
    """Makes and describes the environment; `spec` is there once that has succeeded."""

    def __init__(self, config: EnvConfig) -> None:
        self._config = config
        self.spec: EnvSpec | None = None

    def check(self, planned: EnvSpec | None) -> Seen:
        """Compare with how it was described elsewhere, where that is known."""
        self.spec = spec = probe(self._config)
        shown = (
            f"{spec.id}: {spec.observation_shape} observations, {spec.num_actions} actions, {spec.autoreset} autoreset"
        )
        if planned is None:
            return Seen(True, shown)
        here, there = (each.model_dump(exclude=_OF_THE_MACHINE) for each in (spec, planned))
        differing = [name for name in here if here[name] != there[name]]
        if not differing:
            return Seen(True, f"{shown}, as planned")
        return Seen(
            False, "the environment is not the one that the job was planned with: other versions are installed here",
            ", ".join(f"{name} {there[name]}" for name in differing),
            ", ".join(f"{name} {here[name]}" for name in differing),
        )  # fmt: skip
