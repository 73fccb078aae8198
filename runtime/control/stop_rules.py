"""When a run has done what its job asked for. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from runtime.contract.job import StopConfig


def rule_met(stop: StopConfig, *, mean_100: float | None, env_steps: int, updates: int, elapsed_s: float) -> str | None:
    """The first rule that is met, as the reason to end; none while there is still work.

    `mean_100` is the mean return of the newest 100 episodes and none before 100 have ended. All numbers count over
    the whole run, resumes included.
    """
    if stop.reward is not None and mean_100 is not None and mean_100 >= stop.reward:
        return f"mean return {mean_100:.1f} of the last 100 episodes reached {stop.reward:g}"
    if stop.env_steps is not None and env_steps >= stop.env_steps:
        return f"{env_steps} env steps reached {stop.env_steps}"
    if stop.updates is not None and updates >= stop.updates:
        return f"{updates} updates reached {stop.updates}"
    if stop.wall_time is not None and elapsed_s >= stop.wall_time:
        return f"{elapsed_s:.0f} s of training reached the limit of {stop.wall_time:g} s"
    return None
