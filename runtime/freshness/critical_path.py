"""Which side a round of the pipeline waits for (formula 1): max(T_sp, N_A · T_rv). Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Side = Literal["actors", "receiver", "learner", "unknown"]


@dataclass(frozen=True)
class CriticalPath:
    """The limiting side, with the numbers it follows from (seconds per message)."""

    side: Side
    round_s: float | None
    advice: str


def critical_path(
    *, t_sp_s: float | None, t_rv_s: float | None, num_actors: int, learner_busy: float | None
) -> CriticalPath:
    """T_sp: an actor's time per message; T_rv: the receiver's; `learner_busy`: the share of time the learner trains.

    While N_A · T_rv ≤ T_sp the receiver keeps up, and either the learner is busy (it is the limit) or it waits for
    actors. `unknown` until both times have been measured.
    """
    if t_sp_s is None or t_rv_s is None or not t_sp_s > 0.0 or num_actors < 1:
        return CriticalPath("unknown", None, "")
    receive_s = num_actors * t_rv_s
    numbers = f"T_sp {1e3 * t_sp_s:.3g} ms, {num_actors} × T_rv {1e3 * receive_s:.3g} ms"
    if receive_s > t_sp_s:
        advice = f"the receiver is the limit ({numbers}): make fragments larger or add a group"
        return CriticalPath("receiver", receive_s, advice)
    if learner_busy is not None and learner_busy >= 0.9:
        advice = f"the learner is the limit (busy {learner_busy:.0%}; {numbers}): give it cores or add a group"
        return CriticalPath("learner", t_sp_s, advice)
    if learner_busy is None:
        return CriticalPath("actors", t_sp_s, f"communication is hidden ({numbers})")
    advice = f"communication is hidden and the learner waits (busy {learner_busy:.0%}; {numbers}): add actors"
    return CriticalPath("actors", t_sp_s, advice)
