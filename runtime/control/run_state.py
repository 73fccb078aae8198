"""The run as a whole, what can happen to it, and what its coordinator may have to do. See `run_machine`."""

from __future__ import annotations

from pydantic import Field

from runtime.contract.model import Document
from runtime.contract.states import ComponentState, Role, RunState


class Standing(Document):
    """Where one component stands; `cause` is the event of the log that put it there."""

    name: str
    role: Role
    host: str = ""
    state: ComponentState
    reason: str = ""
    leaving: bool = False  #: it is wanted no more
    cause: str | None = None


class RunEvent(Document):
    """Base of all events. `id` is the line of the event log that tells of it, or names the report it came from."""

    id: str


class PreflightStarted(RunEvent):
    """The machines are being checked."""


class PreflightPassed(RunEvent):
    """They can carry the run: agents are being started."""


class PreflightFailed(RunEvent):
    """They cannot."""

    reason: str


class ComponentsReported(RunEvent):
    """Every wanted component, over all nodes, as newly reported."""

    components: tuple[Standing, ...]
    heard: bool = True  #: it was the head's agent who spoke, which had been silent perhaps


class AgentSilent(RunEvent):
    """An agent's process is there but it has not reported for `age_s`; its components may well be working."""

    node: str
    age_s: float


class NodesJudged(RunEvent):
    """Nodes were lost, or are back: what that means from now on, none where all are there."""

    trouble: str | None = None
    paused: bool = False


class NoLearnerLeft(RunEvent):
    """Every learner is gone with its node, for good or for too long."""

    reason: str


class NoProgress(RunEvent):
    """Every component says it works, yet no update has been made for `age_s`."""

    age_s: float


class LinksJudged(RunEvent):
    """Links between nodes that are there have been down for a while, or (`trouble` is none) no longer are."""

    trouble: str | None


class Progressed(RunEvent):
    """Updates are being made again."""


class StopRuleMet(RunEvent):
    """A stop rule of the job is met."""

    reason: str


class StopRequested(RunEvent):
    """A person or a signal wants the run to end."""

    reason: str
    checkpoint: bool = True


class CheckpointWanted(RunEvent):
    """It is time for one, or somebody asked."""

    reason: str


class CheckpointWritten(RunEvent):
    """Complete and in its place."""

    step: int


class CheckpointFailed(RunEvent):
    """Given up; older ones are as they were."""

    reason: str


class AllExited(RunEvent):
    """No component has a process any more."""


class AgentLost(RunEvent):
    """The head's agent is gone: nobody starts, watches or stops its components; they end by themselves.

    `alone`: no other node is there whose components must be told.
    """

    reason: str
    alone: bool = True


class Effect(Document):
    """Base of what the coordinator must do; `cause` is the id of the event that led to it."""

    cause: str


class RequestCheckpoint(Effect):
    """Have every component write its shard."""

    reason: str


class AdoptCheckpoint(Effect):
    """Finish the checkpoint that the components of a lost agent write by themselves."""


class StopComponents(Effect):
    """Have every component leave."""

    reason: str


class WriteCompletion(Effect):
    """Write the run's completion record, last of all."""

    state: RunState
    reason: str


class Publish(Effect):
    """One line of the event log."""

    kind: str
    message: str


class Run(Document):
    """The state of one attempt of a run; kept in a file, so that a restarted coordinator goes on from it."""

    state: RunState = RunState.PENDING
    reason: str = "recorded, nothing started"
    #: What is not as wanted, by source (`components`, `nodes`, `agent`, `progress`): the run is degraded while there
    #: is any.
    troubles: dict[str, str] = Field(default_factory=dict)
    checkpointing: bool = False
    last_wanted: bool = False  #: the last checkpoint is to be asked for when the present one is written
    components_told: bool = False  #: they have been told to leave
    orphaned: bool = False  #: the head's agent is gone
    alone: bool = True  #: and no other node has anybody to be told
    paused: bool = False  #: nobody shall make anything new: the run waits for a node
    outcome: RunState | None = None  #: the terminal state that a stopping run is heading for
    history: tuple[str, ...] = ()
