"""What listens for other nodes: who holds the run's keys is heard, nobody else, and nobody else disturbs."""

from __future__ import annotations

import logging
import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil
import pytest
import zmq

from runtime.contract.messages import PROTOCOL_VERSION, Hello, Stop
from runtime.contract.paths import RunPaths
from runtime.control.refusals import QUIET_S, Refusals
from runtime.control.wire import AgentWire, CoordinatorWire, WireError, make_keys, tcp_endpoint
from support.cuttable import Cuttable
from support.wires import Wires

HELLO = Hello(node="n2", pid=7, version="1")
KEYS = {"CURVE_SERVERKEY": "coordinator.public", "CURVE_PUBLICKEY": "agent.public", "CURVE_SECRETKEY": "agent.secret"}


@pytest.fixture
def wires(run_folder: RunPaths) -> Iterator[Wires]:
    wires = Wires(run_folder)
    yield wires
    wires.close()


def greets(wires: Wires, agent: AgentWire) -> bool:
    """Whether a message goes each way."""
    heard: list[Any] = []
    wires.at_head = lambda peer, message, _: heard.append((peer, message))
    wires.at_node = lambda _, message, __: heard.append(message)
    wires.until("Hello", lambda: agent.send(HELLO))
    wires.until("Hello at the head", lambda: heard)
    assert wires.head.send("n2", Stop(reason="enough"))
    wires.until("an answer", lambda: len(heard) > 1)
    return heard == [("n2", HELLO), Stop(reason="enough")]


@contextmanager
def stranger(port: int, keys: dict[str, bytes]) -> Iterator[Any]:
    """Somebody who has found the port, and calls himself n2."""
    with zmq.Context() as context, context.socket(zmq.DEALER) as knocker:
        knocker.setsockopt(zmq.LINGER, 0)
        knocker.setsockopt(zmq.IDENTITY, b"n2")
        for option, value in keys.items():
            knocker.setsockopt(getattr(zmq, option), value)
        knocker.connect(f"tcp://127.0.0.1:{port}")
        yield knocker


def keys_of(folder: Path, **others: bytes) -> dict[str, bytes]:
    return {option: (folder / name).read_bytes() for option, name in KEYS.items()} | others


def no_keys(_paths: RunPaths) -> dict[str, bytes]:
    return {}


def keys_of_another_run(paths: RunPaths) -> dict[str, bytes]:
    make_keys(paths.root.parent / "other")
    return keys_of(paths.root.parent / "other")


def own_keys_for_the_right_server(paths: RunPaths) -> dict[str, bytes]:
    public, secret = zmq.curve_keypair()
    return keys_of(paths.keys, CURVE_PUBLICKEY=public, CURVE_SECRETKEY=secret)


def the_public_key_with_a_wrong_secret_one(paths: RunPaths) -> dict[str, bytes]:
    return keys_of(paths.keys, CURVE_SECRETKEY=zmq.curve_keypair()[1])


@pytest.mark.parametrize(
    ("keys", "reason"),
    [
        (no_keys, "handshake"),
        (keys_of_another_run, "handshake"),
        (own_keys_for_the_right_server, "key"),
        (the_public_key_with_a_wrong_secret_one, "handshake"),
    ],
    ids=lambda value: getattr(value, "__name__", value),
)
def test_a_stranger_is_neither_heard_nor_told_anything_and_is_logged(
    wires: Wires, keys: Any, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    heard: list[Any] = []
    wires.at_head = lambda peer, *_: heard.append(peer)
    with stranger(wires.port, keys(wires.paths)) as knocker, caplog.at_level(logging.WARNING):
        knocker.send_multipart([str(PROTOCOL_VERSION).encode(), HELLO.model_dump_json().encode()])
        wires.until("a line in the log", lambda: "wire.refused" in caplog.text)
        assert f"reason={reason} address=" in caplog.text
        assert not wires.head.send("n2", Stop(reason="secret"))
        assert not knocker.poll(50)
        assert heard == []
        assert greets(wires, wires.node("n2")), "the true n2 gets in beside him"
        assert not knocker.poll(50)


@pytest.mark.parametrize(
    "noise",
    [b"GET / HTTP/1.1\r\n\r\n", os.urandom(4096), b"\xff" + bytes(8) + b"\x7f" + b"\x03" + bytes(53), b""],
    ids=["http", "random", "half a greeting", "nothing"],
)
def test_garbage_at_the_port_disturbs_nobody(wires: Wires, noise: bytes, caplog: pytest.LogCaptureFixture) -> None:
    agent = wires.node("n2")
    assert greets(wires, agent)
    with caplog.at_level(logging.WARNING), socket.create_connection(("127.0.0.1", wires.port)) as knocker:
        knocker.sendall(noise)
        if not noise:
            knocker.shutdown(socket.SHUT_WR)
        wires.until("a line in the log", lambda: "wire.refused reason=handshake" in caplog.text)
        assert greets(wires, agent)
    assert agent.connections == 1


def test_who_connects_and_says_nothing_is_put_out(wires: Wires, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING), socket.create_connection(("127.0.0.1", wires.port)) as knocker:
        began = time.monotonic()
        wires.until("the end of it", lambda: "wire.refused reason=handshake" in caplog.text)
        assert time.monotonic() - began > 2.0  # it may be slow
        knocker.settimeout(60.0)
        with suppress(ConnectionResetError):
            while knocker.recv(4096):
                pass


def test_hundreds_who_knock_fill_neither_the_log_nor_the_table_of_descriptors(
    wires: Wires, caplog: pytest.LogCaptureFixture
) -> None:
    agent = wires.node("n2")
    assert greets(wires, agent)
    before = psutil.Process().num_fds()
    with caplog.at_level(logging.WARNING):
        for _ in range(200):
            with socket.create_connection(("127.0.0.1", wires.port)) as knocker:
                knocker.sendall(b"let me in, let me in, let me in, let me in, let me in")
            wires.turn()
        assert greets(wires, agent)
        wires.until("their sockets to be closed", lambda: psutil.Process().num_fds() <= before)
    assert 1 <= caplog.text.count("wire.refused") <= 3
    assert agent.connections == 1
    assert len(wires.head._accepted) <= 3


def test_a_line_is_written_for_the_first_and_then_now_and_again(caplog: pytest.LogCaptureFixture) -> None:
    clock = [0.0]
    refusals = Refusals(lambda: clock[0])
    with caplog.at_level(logging.WARNING):
        for clock[0] in (0.0, 1.0, QUIET_S - 0.1, QUIET_S + 1.0):
            refusals.note("key", "10.0.0.9")
        refusals.note("key", "10.0.0.8")
        for n in range(3000):
            refusals.note("key", f"10.1.{n}")
    lines = [record.getMessage() for record in caplog.records]
    assert lines[:3] == [
        "wire.refused reason=key address=10.0.0.9",
        "wire.refused reason=key address=10.0.0.9 times=3",
        "wire.refused reason=key address=10.0.0.8",
    ]
    assert len(refusals._told) <= 1000


def test_it_listens_at_the_given_address_only_and_its_successor_at_the_same_port(run_folder: RunPaths) -> None:
    make_keys(run_folder.keys)
    ports = set()
    for _ in range(2):
        wire = CoordinatorWire(run_folder, "127.0.0.2")
        port = int(run_folder.wire_port.read_text())
        ports.add(port)
        listening = {c.laddr for c in psutil.Process().net_connections("inet") if c.status == psutil.CONN_LISTEN}
        assert listening == {("127.0.0.2", port)}
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", port))
        wire.close()
    assert len(ports) == 1
    assert run_folder.wire_port.stat().st_mode & 0o777 == 0o600


def test_without_an_address_nothing_listens_for_other_nodes(run_folder: RunPaths) -> None:
    make_keys(run_folder.keys)
    wire = CoordinatorWire(run_folder)
    assert not [c for c in psutil.Process().net_connections("inet") if c.status == psutil.CONN_LISTEN]
    assert not run_folder.wire_port.exists()
    wire.close()


def test_the_first_free_port_of_a_range_is_taken_and_a_taken_one_is_an_error(run_folder: RunPaths) -> None:
    make_keys(run_folder.keys)
    with socket.create_server(("127.0.0.1", 0)) as other:
        taken = other.getsockname()[1]
        with pytest.raises(WireError, match=f"any port of {taken}-{taken} of 127.0.0.1 is in use"):
            CoordinatorWire(run_folder, "127.0.0.1", (taken, taken))
        wire = CoordinatorWire(run_folder, "127.0.0.1", (taken, taken + 20))
        assert taken < int(run_folder.wire_port.read_text()) <= taken + 20
        wire.close()
        run_folder.wire_port.write_text(f"{taken}\n")
        with pytest.raises(WireError, match=f"port {taken} of 127.0.0.1 is in use"):
            CoordinatorWire(run_folder, "127.0.0.1")
    assert not (run_folder.root / "wire.sock").exists()
    run_folder.wire_port.unlink()
    with pytest.raises(WireError, match=r"tcp://192\.0\.2\.7"):
        CoordinatorWire(run_folder, "192.0.2.7")


def test_key_files_that_others_can_read_are_refused_at_either_end(run_folder: RunPaths) -> None:
    make_keys(run_folder.keys)
    for name in ("coordinator.secret", "agent.public"):
        (run_folder.keys / name).chmod(0o644)
        with pytest.raises(WireError, match="chmod 600"):
            CoordinatorWire(run_folder, "127.0.0.1")
        (run_folder.keys / name).chmod(0o600)
    for name in KEYS.values():
        (run_folder.keys / name).chmod(0o640)
        with pytest.raises(WireError, match="chmod 600"):
            AgentWire(run_folder.keys, "n2", tcp_endpoint("127.0.0.1", 9))
        (run_folder.keys / name).chmod(0o600)


def test_an_agent_needs_no_secret_of_the_coordinators(wires: Wires) -> None:
    (wires.paths.keys / "coordinator.secret").unlink()
    assert greets(wires, wires.node("n2"))


def test_blobs_come_with_their_messages_also_empty_ones(wires: Wires) -> None:
    agent = wires.node("n2")
    heard: list[Any] = []
    wires.at_head = lambda _peer, _message, blob: heard.append(blob)
    wires.at_node = lambda _node, _message, blob: heard.append(blob)
    for blob in (None, b"", b"\0" * (1 << 20)):
        wires.until("room", lambda blob=blob: agent.send(HELLO, blob))
        wires.until("it", lambda: heard)
        assert wires.head.send("n2", Stop(reason="x"), blob)
        wires.until("the other", lambda: len(heard) == 2)
        assert heard == [blob, blob]
        heard.clear()


def test_a_line_that_goes_silent_is_noticed_by_both_ends_and_mended(wires: Wires) -> None:
    relay = Cuttable(wires.port)
    agent = wires.node("n2", relay.port)
    assert greets(wires, agent)
    relay.silent = True
    began = time.monotonic()
    wires.until("an end of trust", lambda: not agent.send(HELLO) and not wires.head.send("n2", Stop(reason="x")))
    assert time.monotonic() - began < 20.0  # TCP on its own takes many minutes
    relay.silent = False
    wires.at_head = wires.at_node = lambda *_: None
    wires.until("a new connection", lambda: agent.connections == 2)
    for _ in range(20):
        wires.turn()  # nothing old is left in between
    assert greets(wires, agent)
    relay.close()
