"""The closed sets of words for where a run or a component stands, and why."""

from enum import StrEnum


class RunState(StrEnum):
    """Where a run stands. The reason for it is always given beside it, in words."""

    PENDING = "pending"  #: recorded, nothing started
    PREFLIGHT = "preflight"  #: the machines are being checked
    STARTING = "starting"  #: agents and components are being started
    RUNNING = "running"  #: every wanted component is there
    DEGRADED = "degraded"  #: training goes on with fewer components than wanted
    STOPPING = "stopping"  #: last checkpoint, then the components leave
    COMPLETED = "completed"  #: a stop rule of the job was met and the completion record is written
    FAILED = "failed"  #: training could not go on
    STOPPED = "stopped"  #: a person or a signal ended it; it can be resumed
    LOST = "lost"  #: its agents vanished without a word; it can be resumed


TERMINAL_RUN_STATES = frozenset({RunState.COMPLETED, RunState.FAILED, RunState.STOPPED, RunState.LOST})


class ComponentState(StrEnum):
    """Where one component stands."""

    PENDING = "pending"  #: wanted, not started yet
    STARTING = "starting"  #: its process exists, it has not reported steady work
    RUNNING = "running"  #: its heartbeat advances
    FROZEN = "frozen"  #: the process is there, its heartbeat has stopped
    BACKOFF = "backoff"  #: it died and waits for its restart
    STOPPING = "stopping"  #: it was asked to leave
    EXITED = "exited"  #: it left when asked
    FAILED = "failed"  #: its restart budget is spent
    AWAY = "away"  #: its node is lost: whether it works there is not known


class Phase(StrEnum):
    """What a component says it is doing; each phase has its own heartbeat limit. Order is the code in the block."""

    INIT = "init"
    STEADY = "steady"
    CHECKPOINT = "checkpoint"
    STOPPING = "stopping"
    DONE = "done"


PHASES = tuple(Phase)


class Role(StrEnum):
    """The kinds of component."""

    ACTOR = "actor"
    BUFFER = "buffer"
    LEARNER = "learner"
    EVALUATOR = "evaluator"
    COURIER = "courier"


class Dependencies(StrEnum):
    """Which assignment dependencies of the RL loop are kept (ARCHITECTURE.md, "The three dependencies")."""

    RELAXED = "relaxed"  #: nobody waits: parameters and samples arrive when they do
    POLICY_ONLY = "policy-only"  #: inference relaxed; the learner trains only on samples of its newest version
    STRICT = "strict"  #: none relaxed: actor, buffer and learner take turns
