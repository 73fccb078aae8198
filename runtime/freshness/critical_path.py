"""Which side a round of the pipeline waits for (formula 1): max(T_sp, N_A · T_rv). Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

_LARGER = "make fragments larger or add a group"
_MORE = "give it cores or add a group"

Side = Literal["actors", "receiver", "learner", "unknown"]


@dataclass(frozen=True)
class CriticalPath:
    """The limiting side, with the numbers it follows from (seconds per message)."""

    side: Side
    round_s: float | None
    advice: str


def critical_path(
    *,
    t_sp_s: float | None,
    t_rv_s: float | None,
    num_actors: int,
    learner_busy: float | None,
    others: str = "",
) -> CriticalPath:
    """T_sp: an actor's time per message; T_rv: the receiver's; `learner_busy`: the share of time the learner trains.

    While N_A · T_rv ≤ T_sp the receiver keeps up, and either the learner is busy (it is the limit) or it waits for
    actors. `unknown` until both times have been measured. `others`: who it is that has a core of the run in its stead;
    then no other shape helps.
    """
    if t_sp_s is None or t_rv_s is None or not t_sp_s > 0.0 or num_actors < 1:
        return CriticalPath("unknown", None, "")
    receive_s = num_actors * t_rv_s
    numbers = f"T_sp {1e3 * t_sp_s:.3g} ms, {num_actors} × T_rv {1e3 * receive_s:.3g} ms"
    if receive_s > t_sp_s:
        return CriticalPath("receiver", receive_s, _told("the receiver is the limit", numbers, others, _LARGER))
    if learner_busy is None:
        return CriticalPath("actors", t_sp_s, f"communication is hidden ({numbers})")
    numbers = f"busy {learner_busy:.0%}; {numbers}"
    if learner_busy >= 0.9:
        return CriticalPath("learner", t_sp_s, _told("the learner is the limit", numbers, others, _MORE))
    what = "communication is hidden and the learner waits"
    return CriticalPath("actors", t_sp_s, _told(what, numbers, others, "add actors"))


def _told(what: str, numbers: str, others: str, advice: str) -> str:
    return f"{others} ({what}: {numbers}): free it" if others else f"{what} ({numbers}): {advice}"
