"""The operator's socket, over a real one."""

from __future__ import annotations

import os
import select
import socket
import threading
from typing import TYPE_CHECKING

import pytest

from runtime.contract.operator import CheckpointRequest, Reply, StopRequest, ViewRequest, ask, short_path
from runtime.control.operator_server import OperatorRequest, OperatorServer

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class Door:
    """Serves in a thread until told to end."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.server = OperatorServer(path)
        self.asked: list[OperatorRequest] = []
        self._end, self._ended = os.pipe()
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self) -> None:
        while True:
            watched = [*self.server.descriptors(), self._end]
            ready = set(select.select(watched, [], [])[0])
            if self._end in ready:
                return
            self.server.serve(ready, self.answer)

    def answer(self, request: OperatorRequest) -> Reply:
        self.asked.append(request)
        return Reply(ok=True, data={"op": request.op, "padding": "x" * 300_000})

    def close(self) -> None:
        os.close(self._ended)
        self._thread.join()
        os.close(self._end)
        self.server.close()


@pytest.fixture
def door(tmp_path: Path) -> Iterator[Door]:
    folder = tmp_path / ("deep" * 30)
    folder.mkdir()
    door = Door(folder / "control.sock")
    yield door
    door.close()


def raw(door: Door) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.settimeout(5.0)
    with short_path(door.path) as name:
        connection.connect(name)
    return connection


def test_each_request_is_answered_on_a_socket_that_only_its_owner_can_open(door: Door) -> None:
    assert door.path.stat().st_mode & 0o777 == 0o600
    for request in (ViewRequest(), CheckpointRequest(), StopRequest(checkpoint=False, reason="r")):
        reply = ask(door.path, request)
        assert reply.data["op"] == request.op
        assert door.asked[-1] == request


def test_several_requests_on_one_connection_in_odd_pieces(door: Door) -> None:
    with raw(door) as connection, connection.makefile("rb") as lines:
        line = ViewRequest().model_dump_json().encode() + b"\n"
        for piece in (line[:5], line[5:] + line[:3], line[3:]):
            connection.sendall(piece)
        answers = [Reply.model_validate_json(lines.readline()) for _ in range(2)]
    assert all(answer.ok for answer in answers)


@pytest.mark.parametrize("line", [b"{", b"{}", b'{"op":"format-disk"}', b'{"op":"view","extra":1}', b"\xff\xfe"])
def test_a_malformed_request_is_told_so_and_the_door_stays_open(door: Door, line: bytes) -> None:
    with raw(door) as connection, connection.makefile("rb") as lines:
        connection.sendall(line + b"\n")
        reply = Reply.model_validate_json(lines.readline())
    assert not reply.ok
    assert "not a request" in (reply.error or "")
    assert ask(door.path, ViewRequest()).ok


def test_a_caller_that_reads_nothing_or_talks_for_ever_is_dropped(door: Door) -> None:
    with raw(door) as mute, raw(door) as chatty:
        for _ in range(4):
            mute.sendall(ViewRequest().model_dump_json().encode() + b"\n")
        chatty.sendall(b"y" * (100 << 10))
        assert chatty.recv(1) == b""
        assert ask(door.path, ViewRequest()).ok


def test_the_socket_of_a_dead_predecessor_is_replaced_and_ours_is_removed(tmp_path: Path) -> None:
    path = tmp_path / "control.sock"
    dead = socket.socket(socket.AF_UNIX)
    dead.bind(str(path))
    dead.close()
    server = OperatorServer(path)
    server.close()
    assert not path.exists()
