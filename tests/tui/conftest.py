"""One time zone for all screens, and what the viewer is given in place of a run."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import pytest

from runtime.contract.operator import Difference
from runtime.contract.view import Event
from support.pictures import checkpoints, live, small_view
from tianjictl.errors import Infeasible, UsageProblem
from tianjictl.runs.checkpoints import CheckpointView
from tianjictl.runs.client import Picture


@pytest.fixture(autouse=True)
def utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Events are shown at local time: here that is UTC."""
    monkeypatch.setenv("TZ", "UTC")
    for name in ("NO_COLOR", "COLORTERM", "TEXTUAL"):
        monkeypatch.delenv(name, raising=False)
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@dataclass
class MadeUpSource:
    """Answers with what the test puts into it."""

    shown: Picture = field(default_factory=lambda: live(small_view()))
    lines: dict[str, list[str]] = field(default_factory=dict)
    looks: int = 0
    looked: threading.Event = field(default_factory=threading.Event)

    def picture(self) -> Picture:
        self.looks += 1
        self.looked.set()
        return self.shown

    def plan(self) -> object:
        raise UsageProblem("the plan of this run cannot be read")

    def checkpoints(self) -> list[CheckpointView]:
        return checkpoints()

    def events(self) -> list[Event]:
        return list(self.shown.view.events)

    def log(self, component: str, *, afresh: bool) -> list[str]:
        return self.lines.get(component, []) if afresh else []


@dataclass
class NotedActions:
    """Notes what it is asked for, and answers at once."""

    done: list[str] = field(default_factory=list)
    revision: int = 1  #: of the plan
    host: str = "cn02"  #: where there is room

    def checkpoint(self, progress: Callable[[str], None]) -> str:
        progress("writing checkpoint 13000000")
        self.done.append("checkpoint")
        return "wrote checkpoint 13,000,000 in 0.1 s"

    def difference(self, shape: str) -> Difference:
        if shape == "L9A9":
            raise Infeasible("no room for L9A9", hint="L2A4 fits")
        return Difference(
            revision=self.revision + 1, shape_before="L1A4", shape_after=shape, starts=(f"actor-4 on {self.host}",),
            stays=6,
        )  # fmt: skip

    def scale(self, shape: str, shown: Difference, progress: Callable[[str], None]) -> str | Difference:
        if (now := self.difference(shape)) != shown:
            return now
        progress("waiting for actor-4")
        self.done.append(f"scale {shape}")
        return f"it is {shape} after 0.3 s"

    def stop(self, progress: Callable[[str], None]) -> str:
        progress("asked to stop")
        self.done.append("stop")
        return "stopped in 1.0 s (asked); nothing is left"


@pytest.fixture
def source() -> MadeUpSource:
    return MadeUpSource()


@pytest.fixture
def actions() -> NotedActions:
    return NotedActions()
