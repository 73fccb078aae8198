"""What the run folder says of the run as a whole: how it began and how it ended."""

from __future__ import annotations

from datetime import datetime

from runtime.contract.model import View
from runtime.contract.states import RunState


class RunRecord(View):
    """Written by `launch`; rewritten (attempt + 1) by `resume`."""

    run_id: str
    name: str
    created_at: datetime
    user: str
    host: str
    argv: tuple[str, ...]
    version: str
    attempt: int = 1
    resumed_from: str | None = None  #: the checkpoint folder this attempt started from


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
