"""The command palette: Textual's, with the commands of the keys and nothing else."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.command import CommandPalette, DiscoveryHit, Hit, Provider

from tianjictl.tui.keys import COMMANDS, title_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from textual.command import Hits

    from tianjictl.tui.app import RunApp
    from tianjictl.tui.keys import Command


class Palette(CommandPalette):
    """In the terminal's own colours."""

    DEFAULT_CSS = """
    Palette { background: transparent; }
    Palette > Vertical { margin-top: 2; }
    """


class RunCommands(Provider):
    """What keys do, found by name."""

    async def discover(self) -> Hits:
        """All of it, before anything is typed."""
        for command in self._offered():
            yield DiscoveryHit(title_of(command), self._chosen(command), help=command.help)

    async def search(self, query: str) -> Hits:
        """What is like the words typed."""
        matcher = self.matcher(query)
        for command in self._offered():
            title = title_of(command)
            score = matcher.match(f"{title} {command.help}")
            if score > 0:
                yield Hit(score, matcher.highlight(title), self._chosen(command), help=command.help)

    def _offered(self) -> Iterator[Command]:
        read_only = self._run_app.model.scene.read_only
        return (command for command in COMMANDS if command.in_palette and not (command.acts and read_only))

    def _chosen(self, command: Command) -> Callable[[], None]:
        return lambda: self._run_app.run_command(command.name)

    @property
    def _run_app(self) -> RunApp:
        from tianjictl.tui.app import RunApp

        app = self.app
        assert isinstance(app, RunApp), "this palette belongs to the viewer"
        return app
