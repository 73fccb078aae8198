"""What the run folder says of the run as a whole: how it began and how it ended."""

from __future__ import annotations

from datetime import datetime

from pydantic import Field, JsonValue

from runtime.contract.model import View
from runtime.contract.states import RunState


class NodeRecord(View):
    """One node of a run: how its host is reached, and where the run lies on it."""

    name: str
    folder: str  #: of the run on that node, absolute
    state: str  #: the node's folder for all runs and for what is staged, absolute
    python: str  #: interpreter that runs the agent, absolute
    pythonpath: str | None = None  #: where the staged runtime lies; none where it is installed
    started: bool = False  #: an agent was started there in this attempt
    machine: str = ""  #: alike for two names of one machine until that boots; empty where it could not be told
    host: dict[str, JsonValue] = Field(default_factory=dict)  #: the inventory's settings of the host, by field


class RunRecord(View):
    """Written by `launch`; rewritten (attempt + 1) by `resume`, and when nodes join."""

    run_id: str
    name: str
    created_at: datetime
    user: str
    host: str
    argv: tuple[str, ...]
    version: str
    attempt: int = 1
    resumed_from: str | None = None  #: the checkpoint folder this attempt started from
    nodes: tuple[NodeRecord, ...] = ()  #: empty for a run on the operator's machine alone
    former: tuple[NodeRecord, ...] = ()  #: nodes of earlier attempts that take no part now, but may hold checkpoints
    head: str | None = None  #: the node with the coordinator, where there are nodes
    endpoint: str | None = None  #: where its coordinator listens for the agents of other nodes


class CompletionRecord(View):
    """How an attempt ended, in the coordinator's own word; only `completed` means that training finished."""

    run_id: str
    attempt: int
    state: RunState
    reason: str
    ended_at: datetime
    env_steps: int
    updates: int
    checkpoint: str | None = None
