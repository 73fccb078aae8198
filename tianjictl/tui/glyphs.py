"""The characters that a screen is drawn with, by what the terminal can show: braille, blocks or plain ASCII."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from runtime.contract.states import ComponentState, Role, RunState
from tianjictl.runs.words import in_ascii

if TYPE_CHECKING:
    from collections.abc import Mapping

Plot = Literal["braille", "block", "ascii"]


@dataclass(frozen=True, slots=True)
class Glyphs:
    """One set of characters; each takes one cell, save `ellipsis`."""

    plot: Plot
    rule: str
    bar: str
    ellipsis: str
    dot: str
    free: str  #: a core nobody uses
    cursor: str
    bars: str  #: rising, the first is empty
    meter: str  #: rising parts of one cell, left to right
    good: str
    warn: str
    bad: str
    begin: str
    idle: str
    done: str
    off: str

    def shown(self, text: str) -> str:
        """Foreign text in what this terminal can show."""
        return in_ascii(text) if self.plot == "ascii" and not text.isascii() else text


BRAILLE = Glyphs(
    plot="braille", rule="─", bar="│", ellipsis="…", dot="·", free="·", cursor="▸",
    bars=" ▁▂▃▄▅▆▇█", meter=" ▏▎▍▌▋▊▉█",
    good="●", warn="▲", bad="✖", begin="◐", idle="○", done="✔", off="■",
)  # fmt: skip
#: Fonts of a bare console have blocks and boxes, and little else.
BLOCK = replace(
    BRAILLE, plot="block", cursor=">", bars=" ▄█", meter=" ▌█", good="*", warn="!", bad="X", begin="~", idle="o",
    done="+", off="=",
)  # fmt: skip
ASCII = replace(
    BLOCK, plot="ascii", rule="-", bar="|", ellipsis="...", dot="-", free=".", bars=" .:|#", meter=" #",
)  # fmt: skip

#: Each state has a symbol of its class, and is always written out beside it.
_RUN: dict[RunState, tuple[str, str]] = {
    RunState.PENDING: ("idle", "dim"),
    RunState.PREFLIGHT: ("begin", "warn"),
    RunState.STARTING: ("begin", "warn"),
    RunState.RUNNING: ("good", "good"),
    RunState.DEGRADED: ("warn", "warn"),
    RunState.STOPPING: ("begin", "warn"),
    RunState.COMPLETED: ("done", "good"),
    RunState.FAILED: ("bad", "bad"),
    RunState.STOPPED: ("off", "warn"),
    RunState.LOST: ("bad", "bad"),
}
_COMPONENT: dict[ComponentState, tuple[str, str]] = {
    ComponentState.PENDING: ("idle", "dim"),
    ComponentState.STARTING: ("begin", "warn"),
    ComponentState.RUNNING: ("good", "good"),
    ComponentState.FROZEN: ("bad", "bad"),
    ComponentState.BACKOFF: ("warn", "warn"),
    ComponentState.STOPPING: ("begin", "warn"),
    ComponentState.EXITED: ("off", "dim"),
    ComponentState.FAILED: ("bad", "bad"),
    ComponentState.AWAY: ("bad", "bad"),
}
_HOST = {
    "connected": ("good", "good"), "waiting": ("idle", "warn"), "lost": ("bad", "bad"), "ended": ("off", "dim"),
}  # fmt: skip
_LINK = {"up": ("good", "good"), "waiting": ("idle", "warn"), "joining": ("begin", "warn"), "lost": ("bad", "bad")}
LETTERS = {Role.LEARNER: "L", Role.BUFFER: "B", Role.ACTOR: "A", Role.EVALUATOR: "E", Role.COURIER: "c"}


def run_mark(glyphs: Glyphs, state: RunState) -> tuple[str, str]:
    """The symbol of a run's state and its style."""
    return _mark(glyphs, *_RUN[state])


def component_mark(glyphs: Glyphs, state: ComponentState) -> tuple[str, str]:
    """The symbol of a component's state and its style."""
    return _mark(glyphs, *_COMPONENT[state])


def host_mark(glyphs: Glyphs, state: str) -> tuple[str, str]:
    """The symbol of a host's state and its style."""
    return _mark(glyphs, *_HOST.get(state, ("idle", "")))


def link_mark(glyphs: Glyphs, state: str) -> tuple[str, str]:
    """The symbol of a link's state and its style."""
    return _mark(glyphs, *_LINK.get(state, ("idle", "")))


def _mark(glyphs: Glyphs, name: str, style: str) -> tuple[str, str]:
    return getattr(glyphs, name), style


def glyphs_for(encoding: str | None, environment: Mapping[str, str]) -> Glyphs:
    """What a terminal of this encoding and these variables (TERM, LC_ALL, LC_CTYPE, LANG) can show."""
    named = [environment.get(name, "") for name in ("LC_ALL", "LC_CTYPE", "LANG")]
    if named[1] == "C.UTF-8" and named[2]:
        named[1] = ""  # Python itself sets this where LANG is C
    locale = next(filter(None, named), "")
    plain_locale = locale in ("C", "POSIX") or ("." in locale and not _is_utf8(locale.partition(".")[2]))
    if plain_locale or not _is_utf8(encoding or "ascii"):
        return ASCII
    return BLOCK if environment.get("TERM", "") in ("linux", "cons25") else BRAILLE


def _is_utf8(encoding: str) -> bool:
    return encoding.partition("@")[0].lower().replace("-", "").replace("_", "") == "utf8"
