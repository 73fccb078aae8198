"""What agents and the coordinator say to each other. The wire carries `PROTOCOL_VERSION` beside each message.

Numbers that grow (counters, ledgers, histograms) are always sent as totals of the agent's life, never as differences:
a lost or repeated report does no harm. Only episodes and events are sent once each.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, TypeAdapter

from runtime.contract.model import Document
from runtime.contract.plan import Plan
from runtime.contract.states import ComponentState, Phase, Role, RunState
from runtime.contract.view import Event

PROTOCOL_VERSION = 2


class ComponentReport(Document):
    """One component as its agent sees it."""

    name: str
    role: Role
    pid: int | None = None
    state: ComponentState
    reason: str = ""
    attempt: int = 0
    restarts: int = 0
    beat_age_s: float | None = None  #: since its heartbeat last advanced, by the agent's monotonic clock
    phase: Phase = Phase.INIT
    cpu_percent: float | None = None  #: of one core
    waiting_percent: float = 0.0  #: of the time: it was ready to run, and its core was another's
    throttled_percent: float = 0.0  #: of the time: it was ready to run, and a quota of CPU time was used up
    rss_bytes: int | None = None
    counters: dict[str, int] = Field(default_factory=dict)  #: by the names of the stats block
    gauges: dict[str, float] = Field(default_factory=dict)  #: finite values only; never set: left out
    lag_histogram: tuple[int, ...] = ()  #: consumed samples by version lag, last bin open-ended; learners only
    checkpoint_done: int = 0  #: the newest checkpoint step whose shard this component has written


class RingLedger(Document):
    """A ring's sample counts since it was formatted."""

    produced: int = 0
    consumed: int = 0
    dropped_stale: int = 0
    dropped_other: int = 0


class EpisodeReport(Document):
    """An episode that has ended."""

    component: str
    episode_return: float
    length: int


class LinkReport(Document):
    """One end of a link between two nodes, as this end sees it. Bytes since it was joined; `_raw`: uncompressed."""

    peer: str  #: the other node
    state: Literal["starting", "ready", "open", "joining", "up", "lost"]  #: lost: to be joined again
    serial: int = 0  #: which try to join this is about, as the coordinator numbered it
    port: str | None = None  #: where the peer may connect, once asked to open one
    reason: str = ""
    transport: str = "unknown"  #: tcp, verbs, efa, shm, …
    why: str = ""  #: why that one, for people
    joins: int = 0
    sent: int = 0
    sent_raw: int = 0
    received: int = 0
    received_raw: int = 0
    sent_per_s: float = 0.0
    received_per_s: float = 0.0


class Hello(Document):
    """The first word of an agent, and again whenever its coordinator was replaced. `revision` 0: it has no plan yet."""

    kind: Literal["hello"] = "hello"
    node: str
    pid: int
    version: str  #: of the package; both sides must be alike
    instance: str = ""  #: one life of an agent: what it started is gone when another instance speaks for its node
    revision: int = 0  #: of the plan that it works by


class Report(Document):
    """Sent 10 to 20 times a second.

    `rings` maps ring names (`fragments.actor-3`, `batches.0`, `priorities.0`) to their ledgers. `events` carry ids of
    the agent's own; the coordinator gives them ids of the run's log and translates causes.
    """

    kind: Literal["report"] = "report"
    node: str
    instance: str = ""
    revision: int = 0
    sent_at: float = 0.0  #: by the node's wall clock; shown as an offset, never used
    sequence: int
    components: tuple[ComponentReport, ...]
    episodes: tuple[EpisodeReport, ...] = ()
    rings: dict[str, RingLedger] = Field(default_factory=dict)
    events: tuple[Event, ...] = ()
    links: tuple[LinkReport, ...] = ()


class Part(Document):
    """A stretch of a checkpoint's file; its bytes travel beside the message. Answered by `PartTaken`, either way."""

    kind: Literal["part"] = "part"
    step: int
    name: str  #: of the file within the checkpoint's folder
    offset: int
    size: int  #: of the whole file
    last: bool  #: this was the last stretch of the last file


class PartTaken(Document):
    """The next stretch may be sent; `error` where the receiver gives up."""

    kind: Literal["part-taken"] = "part-taken"
    step: int
    name: str
    offset: int
    error: str | None = None


class AskStop(Document):
    """The agent was told to end the run (SIGTERM): the coordinator decides how."""

    kind: Literal["ask-stop"] = "ask-stop"
    node: str
    reason: str
    checkpoint: bool = True


AgentMessage = Hello | Report | AskStop | Part | PartTaken
AGENT_MESSAGE: TypeAdapter[AgentMessage] = TypeAdapter(Annotated[AgentMessage, Field(discriminator="kind")])


class Ack(Document):
    """Answers each report: the agent's proof that its coordinator lives, and the run's global numbers."""

    kind: Literal["ack"] = "ack"
    sequence: int
    env_steps: int  #: of the whole run, over all nodes, restarts and resumes
    base_env_steps: int  #: the part of it that earlier attempts of the run had made
    state: RunState
    paused: bool = False  #: the run waits for a node: make nothing new meanwhile


class Assign(Document):
    """The plan that holds from now on, whole. An agent that works by it already ignores it."""

    kind: Literal["assign"] = "assign"
    plan: Plan
    attempt: int  #: of the run


class OpenLink(Document):
    """Open a port at which the courier of `peer` may connect; answered in the next reports."""

    kind: Literal["open-link"] = "open-link"
    peer: str
    serial: int


class JoinLink(Document):
    """Accept the courier of `peer` at the port opened (`port` is none), or connect to it there."""

    kind: Literal["join-link"] = "join-link"
    peer: str
    serial: int
    port: str | None = None


class ResetLink(Document):
    """The node at the other end has begun anew: replace the courier of this link, and forget what it mirrored."""

    kind: Literal["reset-link"] = "reset-link"
    peer: str
    serial: int


class Checkpoint(Document):
    """Every component writes its shard of checkpoint `step` into `paths.checkpoints / f".tmp-{step:012d}"`.

    Sent again to an agent that may have missed it; steps only rise, so a step not above the newest known is a repeat.
    """

    kind: Literal["checkpoint"] = "checkpoint"
    step: int


class Stop(Document):
    """All components leave. The checkpoint, where one was wanted, has been written before this is sent."""

    kind: Literal["stop"] = "stop"
    reason: str


class Shutdown(Document):
    """The run has ended and its record is written: the agent itself leaves."""

    kind: Literal["shutdown"] = "shutdown"
    state: RunState
    reason: str


class Refused(Document):
    """The agent cannot take part (other version, unknown node); it reports the reason and leaves."""

    kind: Literal["refused"] = "refused"
    reason: str


CoordinatorMessage = (
    Ack | Assign | OpenLink | JoinLink | ResetLink | Checkpoint | Part | PartTaken | Stop | Shutdown | Refused
)
COORDINATOR_MESSAGE: TypeAdapter[CoordinatorMessage] = TypeAdapter(
    Annotated[CoordinatorMessage, Field(discriminator="kind")]
)
