"""What is known of one component, what can happen to it, and what its agent may have to do. See `component_machine`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from runtime.contract.states import ComponentState, Phase, Role

if TYPE_CHECKING:
    from runtime.contract.job import HealthConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """It is wanted now."""

    id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Spawned:
    """Its process exists."""

    id: str
    pid: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SpawnFailed:
    """Its process could not be made."""

    id: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Beat:
    """What its heartbeat block says; `attempt` as written by the process itself (a predecessor's word is ignored)."""

    id: str
    phase: Phase
    beat: int
    attempt: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Exited:
    """Its process is gone: exit code, or minus the signal; `report` is the error it left in its exit report."""

    id: str
    status: int
    report: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Tick:
    """Time has passed."""

    id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StopRequested:
    """It shall leave, and knows it from the control block (end of the run). Costs no restart."""

    id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaveRequested:
    """It alone shall leave (smaller shape), in good order between two ticks. Costs no restart."""

    id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplaceRequested:
    """What it works on has changed: it shall end in good order, and its next life begin at once. Costs no restart."""

    id: str


Event = Start | Spawned | SpawnFailed | Beat | Exited | Tick | StopRequested | LeaveRequested | ReplaceRequested


@dataclass(frozen=True, slots=True, kw_only=True)
class Spawn:
    """Make its process, as life number `attempt` (from 1)."""

    attempt: int
    cause: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Kill:
    """Send SIGKILL to `pid`."""

    pid: int
    reason: str
    cause: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Terminate:
    """Send SIGTERM to `pid`."""

    pid: int
    reason: str
    cause: str


@dataclass(frozen=True, slots=True, kw_only=True)
class HandOver:
    """Send SIGUSR2 to `pid`: it ends between two ticks."""

    pid: int
    cause: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Log:
    """One line of the event log: `component.started`, `.died`, `.frozen`, `.restarting`, `.failed`, `.exited` …"""

    kind: str
    message: str
    cause: str


Effect = Spawn | Kill | Terminate | HandOver | Log


@dataclass(frozen=True, slots=True, kw_only=True)
class Life:
    """All that is known of one component. `Life.of(name, role, health)` is where it begins."""

    name: str
    role: Role
    health: HealthConfig
    state: ComponentState = ComponentState.PENDING
    reason: str = "not started yet"
    attempt: int = 0  #: number of the present or newest life; 0 before the first
    pid: int | None = None
    phase: Phase = Phase.INIT
    beat: int = -1
    beat_at: float = 0.0  #: when the heartbeat was last seen to advance (or the life began)
    born_at: float = 0.0
    steady: bool = False  #: this life has reported steady work
    restarted_at: tuple[float, ...] = ()  #: restarts inside the window: what the budget counts
    restarts: int = 0  #: all restarts ever
    rung: int = 0  #: short lives in a row: the step of the back-off
    same_errors: int = 0  #: short lives in a row that ended with the same error
    last_error: str = ""
    fast_deaths: int = 0  #: lives in a row that ended before steady work
    restart_at: float | None = None
    stop_at: float | None = None  #: when it was asked to leave, or to hand over to its next life
    signals: int = 0  #: signals sent to this life since then (0 none, 1 TERM, 2 KILL)
    replacing: bool = False  #: its next life shall begin when this one ends
    hand_over_due: bool = False  #: it is to be told so as soon as it listens: from its steady work on
    ticked_at: float | None = None
    history: tuple[str, ...] = ()

    @classmethod
    def of(cls, name: str, role: Role, health: HealthConfig) -> Life:
        return cls(name=name, role=role, health=health)

    @property
    def alive(self) -> bool:
        """Whether a process of it may exist."""
        return self.pid is not None

    @property
    def over(self) -> bool:
        """Whether nothing more will happen without a new wish."""
        return self.state in (ComponentState.EXITED, ComponentState.FAILED)

    def beat_age_s(self, now: float) -> float | None:
        return max(0.0, now - self.beat_at) if self.alive else None


Outcome = tuple[Life, list[Effect]]
