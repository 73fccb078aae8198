"""Real sockets: who holds the run's keys is heard, nobody else."""

from __future__ import annotations

import logging
import os
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest
import zmq

from runtime.contract.messages import PROTOCOL_VERSION, Ack, AgentMessage, CoordinatorMessage, Hello, Stop
from runtime.contract.paths import RunPaths
from runtime.contract.states import RunState
from runtime.control.wire import AgentWire, CoordinatorWire, WireError, ipc_endpoint, make_keys

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

VERSION = str(PROTOCOL_VERSION).encode()
HELLO = Hello(node="n1", pid=7, version="1")


@pytest.fixture
def paths(run_folder: RunPaths) -> RunPaths:
    make_keys(run_folder.keys)
    return run_folder


@pytest.fixture
def coordinator(paths: RunPaths) -> Iterator[CoordinatorWire]:
    wire = CoordinatorWire(paths)
    yield wire
    wire.close()


def connect(paths: RunPaths, node: str = "n1") -> AgentWire:
    return AgentWire(paths.keys, node, ipc_endpoint(paths))


def hear(wire: CoordinatorWire, within_s: float = 60.0) -> list[tuple[str, AgentMessage, bytes | None]]:
    deadline = time.monotonic() + within_s
    while time.monotonic() < deadline:
        wire.wait(0.05)
        if messages := wire.receive():
            return messages
    return []


def told(agent: AgentWire, within_s: float = 60.0) -> list[tuple[CoordinatorMessage, bytes | None]]:
    deadline = time.monotonic() + within_s
    while time.monotonic() < deadline:
        agent.wait(0.05)
        if messages := agent.receive():
            return messages
    return []


def gone(agent: AgentWire) -> None:
    """Until the agent has noticed that its coordinator is gone."""
    deadline = time.monotonic() + 60.0
    while agent.send(HELLO):
        assert time.monotonic() < deadline
        agent.wait(0.01)


def say(agent: AgentWire, coordinator: CoordinatorWire, *, blob: bytes | None = None) -> None:
    """Hello, as soon as the coordinator has let the agent in."""
    deadline = time.monotonic() + 60.0
    while not agent.send(HELLO, blob):
        assert time.monotonic() < deadline
        coordinator.wait(0.01)


def test_messages_go_both_ways_and_to_the_one_meant(paths: RunPaths, coordinator: CoordinatorWire) -> None:
    agent, other = connect(paths, "n1"), connect(paths, "n2")
    say(agent, coordinator)
    assert hear(coordinator) == [("n1", HELLO, None)]
    say(other, coordinator)
    assert hear(coordinator) == [("n2", HELLO, None)]
    assert coordinator.send("n1", Stop(reason="enough"))
    assert told(agent) == [(Stop(reason="enough"), None)]
    assert other.receive() == []
    assert not coordinator.send("n3", Stop(reason="nobody there"))
    agent.close()
    other.close()


def test_an_agent_may_come_first_and_outlives_its_coordinator(paths: RunPaths) -> None:
    agent = connect(paths)
    assert not agent.send(HELLO), "nothing is kept for a coordinator that is not there"
    for life in (1, 2):
        coordinator = CoordinatorWire(paths)
        say(agent, coordinator)
        assert hear(coordinator) == [("n1", HELLO, None)]
        agent.wait(0.0)
        assert agent.connections == life
        coordinator.close()
        gone(agent)
    agent.close()


@contextmanager
def stranger(paths: RunPaths, **keys: bytes) -> Iterator[Any]:
    """A raw socket at the run's address with keys of its own choice."""
    folder = os.open(paths.root, os.O_PATH)
    with zmq.Context() as context, context.socket(zmq.DEALER) as socket:
        socket.setsockopt(zmq.LINGER, 0)
        socket.setsockopt(zmq.IDENTITY, b"n1")
        for option, value in keys.items():
            socket.setsockopt(getattr(zmq, option), value)
        socket.connect(f"ipc:///proc/self/fd/{folder}/wire.sock")
        yield socket
    os.close(folder)


@pytest.mark.parametrize("knows_server", [False, True], ids=["without any key", "with the coordinator's public key"])
def test_a_stranger_is_neither_heard_nor_told_anything(
    paths: RunPaths, coordinator: CoordinatorWire, knows_server: bool, caplog: pytest.LogCaptureFixture
) -> None:
    keys: dict[str, bytes] = {}
    if knows_server:
        public, secret = zmq.curve_keypair()
        server = (paths.keys / "coordinator.public").read_bytes()
        keys = {"CURVE_SERVERKEY": server, "CURVE_PUBLICKEY": public, "CURVE_SECRETKEY": secret}
    with stranger(paths, **keys) as socket, caplog.at_level(logging.WARNING):
        socket.send_multipart([VERSION, HELLO.model_dump_json().encode()])
        assert hear(coordinator, within_s=0.5) == []
        assert not coordinator.send("n1", Ack(sequence=1, env_steps=1, base_env_steps=0, state=RunState.RUNNING))
        assert not socket.poll(100)
    assert ("reason=key" in caplog.text) == knows_server
    agent = connect(paths)
    say(agent, coordinator)
    assert hear(coordinator) == [("n1", HELLO, None)], "the real agent still gets in"
    agent.close()


def test_an_agent_does_not_talk_to_a_false_coordinator(paths: RunPaths, tmp_path: Path) -> None:
    other = RunPaths(tmp_path / "other")
    other.root.mkdir()
    make_keys(other.keys)
    for name in ("coordinator.secret", "coordinator.public"):
        (paths.keys / name).replace(paths.keys / f"true-{name}")
        (paths.keys / name).write_bytes((other.keys / name).read_bytes())
        (paths.keys / name).chmod(0o600)
    false = CoordinatorWire(paths)
    (paths.keys / "coordinator.public").write_bytes((paths.keys / "true-coordinator.public").read_bytes())
    agent = connect(paths)
    assert hear(false, within_s=0.5) == []
    assert not agent.send(HELLO)
    agent.close()
    false.close()


def test_malformed_messages_are_dropped_and_logged(
    paths: RunPaths, coordinator: CoordinatorWire, caplog: pytest.LogCaptureFixture
) -> None:
    own = {name: (paths.keys / file).read_bytes() for name, file in (
        ("CURVE_SERVERKEY", "coordinator.public"), ("CURVE_PUBLICKEY", "agent.public"),
        ("CURVE_SECRETKEY", "agent.secret"))}  # fmt: skip
    good = HELLO.model_dump_json().encode()
    with stranger(paths, **own) as socket, caplog.at_level(logging.WARNING):
        for frames in ([b"99", good], [VERSION, b"{"], [VERSION, b'{"kind":"hello","node":"n1"}'], [VERSION],
                       [VERSION, good, b"", b""], [VERSION, good]):  # fmt: skip
            socket.send_multipart(frames)
        assert hear(coordinator) == [("n1", HELLO, None)]
    assert caplog.text.count("wire.refused") == 5


def test_keys_are_private_and_kept(paths: RunPaths) -> None:
    assert paths.keys.stat().st_mode & 0o777 == 0o700
    assert {file.stat().st_mode & 0o777 for file in paths.keys.iterdir()} == {0o600}
    before = {file.name: file.read_bytes() for file in paths.keys.iterdir()}
    make_keys(paths.keys)
    assert before == {file.name: file.read_bytes() for file in paths.keys.iterdir()}
    assert len(set(before.values())) == 5
    (paths.keys / "agent.secret").chmod(0o644)
    with pytest.raises(WireError, match="chmod 600"):
        connect(paths)


def test_a_missing_key_is_named(run_folder: RunPaths) -> None:
    with pytest.raises(WireError, match=r"agent\.public is missing"):
        CoordinatorWire(run_folder)


def test_a_deep_run_folder_works_and_nothing_is_left_behind(tmp_path: Path) -> None:
    deep = RunPaths(tmp_path / ("d" * 120) / ("e" * 120))
    deep.root.mkdir(parents=True)
    make_keys(deep.keys)
    descriptors = len(os.listdir("/proc/self/fd"))  # noqa: PTH208
    coordinator, agent = CoordinatorWire(deep), connect(deep)
    say(agent, coordinator)
    assert hear(coordinator) == [("n1", HELLO, None)]
    assert (deep.root / "wire.sock").stat().st_mode & 0o777 == 0o600
    agent.close()
    coordinator.close()
    assert [entry.name for entry in deep.root.iterdir()] == ["keys"]
    assert len(os.listdir("/proc/self/fd")) == descriptors  # noqa: PTH208


def test_waiting_also_watches_other_descriptors(coordinator: CoordinatorWire) -> None:
    reader, writer = os.pipe()
    try:
        assert coordinator.wait(0.0, [reader]) == set()
        os.write(writer, b"x")
        assert coordinator.wait(5.0, [reader]) == {reader}
        assert coordinator.wait(0.0) == set(), "one that is no longer named is no longer watched"
    finally:
        os.close(reader)
        os.close(writer)
