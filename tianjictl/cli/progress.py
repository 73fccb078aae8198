"""What is being done right now: a spinner on a terminal, one line for each step elsewhere."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

from tianjictl.cli.output import err, is_terminal, note, safe

if TYPE_CHECKING:
    from contextlib import AbstractContextManager


class Progress:
    """Call it with each step; `keep` is for lines that must still stand there when the work is done."""

    def __init__(self, first: str = "planning") -> None:
        self._status = err().status(first, spinner="line") if is_terminal(sys.stderr) else None
        self._block: AbstractContextManager[Any] = self._status or nullcontext()

    def __enter__(self) -> Progress:
        self._block.__enter__()
        return self

    def __exit__(self, *details: Any) -> None:
        self._block.__exit__(*details)

    def __call__(self, line: str) -> None:
        """The step that begins now."""
        if self._status is None:
            note(line)
            return
        from rich.text import Text

        self._status.update(Text(safe(line, sys.stderr)))

    def keep(self, line: str) -> None:
        """A line that stays; it goes above the spinner, never into it."""
        if self._status is None:
            note(line)
            return
        from rich.text import Text

        self._status.console.print(Text(safe(line, sys.stderr)), soft_wrap=True)
