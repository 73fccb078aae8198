"""A coordinator's and agents' ends of the wire over TCP, in one thread."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from runtime.control.wire import AgentWire, CoordinatorWire, make_keys, tcp_endpoint

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from runtime.contract.messages import AgentMessage, CoordinatorMessage
    from runtime.contract.paths import RunPaths

PATIENCE_S = 60.0


class Wires:
    """The head, and nodes that reach it at 127.0.0.1, each through `ports[node]` if there is something in between."""

    def __init__(self, paths: RunPaths) -> None:
        make_keys(paths.keys)
        self.paths = paths
        self.head = CoordinatorWire(paths, "127.0.0.1")
        self.agents: dict[str, AgentWire] = {}
        self.at_head: Callable[[str, AgentMessage, bytes | None], None] = lambda *_: None
        self.at_node: Callable[[str, CoordinatorMessage, bytes | None], None] = lambda *_: None
        self.looks: list[Callable[[float], None]] = []

    @property
    def port(self) -> int:
        return int(self.paths.wire_port.read_text())

    def node(self, name: str, port: int | None = None) -> AgentWire:
        wire = AgentWire(self.paths.keys, name, tcp_endpoint("127.0.0.1", port or self.port))
        self.agents[name] = wire
        return wire

    def turn(self) -> None:
        """Everybody hears what has come, and looks at what is due."""
        self.head.wait(0.002)
        for peer, message, blob in self.head.receive():
            self.at_head(peer, message, blob)
        for name, wire in list(self.agents.items()):
            wire.wait(0.0)
            for told, blob in wire.receive():
                self.at_node(name, told, blob)
        for look in self.looks:
            look(time.monotonic())

    def until(self, what: str, check: Callable[[], object]) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not check():
            assert time.monotonic() < deadline, f"{what} did not happen within {PATIENCE_S} s"
            self.turn()

    def replace_head(self) -> None:
        """The coordinator is another from now on."""
        self.head.close()
        self.head = CoordinatorWire(self.paths, "127.0.0.1")

    def close(self) -> None:
        for wire in self.agents.values():
            wire.close()
        self.head.close()


def folder_content(folder: Path) -> dict[str, bytes]:
    """Every file in a folder, by name."""
    return {file.name: file.read_bytes() for file in folder.iterdir()} if folder.exists() else {}
