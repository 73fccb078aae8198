"""`python -m runtime reach`: listeners and those who connect, as real processes on the loopback."""

from __future__ import annotations

import json
import secrets
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from pydantic import TypeAdapter

from runtime.contract.reach import Connect, Connected, Listen, Listening, Target
from runtime.measure.reach import accept_all, bound

KEY = secrets.token_hex(32)
LOOPBACK = "127.0.0.0/8"
ANSWERS: TypeAdapter[Listening | Connected] = TypeAdapter(Listening | Connected)


@pytest.fixture
def free_port() -> Iterator[int]:
    """A port that nobody listens on, and that nobody else is given meanwhile."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.2", 0))
        yield int(taken.getsockname()[1])


def asked(folder: Path, wish: Listen | Connect) -> Listening | Connected:
    file = folder / "wish.json"
    file.write_text(wish.model_dump_json())
    command = [sys.executable, "-m", "runtime", "reach", str(file)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    assert not file.exists(), "the key does not lie about"
    return ANSWERS.validate_json(done.stdout)


def listening(folder: Path, **changes: object) -> str:
    answer = asked(folder, Listen.model_validate({"network": LOOPBACK, "key": KEY, "within_s": 60.0, **changes}))
    assert isinstance(answer, Listening)
    assert answer.error == ""
    return answer.address


def connected(folder: Path, *addresses: str, key: str = KEY, within_s: float = 20.0) -> list[tuple[bool, str]]:
    targets = tuple(Target(name=str(number), address=address) for number, address in enumerate(addresses))
    answer = asked(folder, Connect(network=LOOPBACK, key=key, targets=targets, within_s=within_s))
    assert isinstance(answer, Connected)
    return [(reached.took_s is not None, reached.problem) for reached in answer.reached]


def test_who_has_the_key_gets_through_and_the_listener_leaves_when_all_were_there(tmp_path: Path) -> None:
    address = listening(tmp_path, ports=(20000, 20100))
    host, _, port = address.rpartition(":")
    assert (host, 20000 <= int(port) <= 20100) == ("127.0.0.1", True)
    assert connected(tmp_path, address) == [(True, "")]
    deadline = time.monotonic() + 60
    while connected(tmp_path, address) != [(False, "Connection refused")]:
        assert time.monotonic() < deadline, "the listener stays though everybody was there"


def test_who_has_another_key_does_not_and_does_not_count(tmp_path: Path) -> None:
    address = listening(tmp_path)
    ((through, problem),) = connected(tmp_path, address, key=secrets.token_hex(32))
    assert (through, "before the other side had proved itself" in problem) == (False, True)
    assert connected(tmp_path, address) == [(True, "")], "the one who was expected still gets through"


def test_a_port_without_a_listener_and_one_that_never_answers_are_told_apart(tmp_path: Path, free_port: int) -> None:
    with socket.create_server(("127.0.0.3", 0)) as silent:
        mute = f"127.0.0.3:{silent.getsockname()[1]}"
        refused, waited = connected(tmp_path, f"127.0.0.2:{free_port}", mute, within_s=0.3)
    assert refused == (False, "Connection refused")
    assert waited == (False, "no answer within 0.3 s: a firewall drops it?")


def test_a_range_that_others_hold_is_said_to_be_taken(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        answer = asked(tmp_path, Listen(network=LOOPBACK, ports=(port, port), key=KEY))
    assert isinstance(answer, Listening)
    assert (answer.address, f"no port of {port} is free" in answer.error) == ("", True)


def test_a_network_without_an_address_here_is_named(tmp_path: Path) -> None:
    answer = asked(tmp_path, Listen(network="203.0.113.0/24", key=KEY))
    assert isinstance(answer, Listening)
    assert "no address in 203.0.113.0/24" in answer.error


def test_strangers_who_say_nothing_hold_nobody_up_for_long() -> None:
    wish = Listen(network=LOOPBACK, key=KEY)
    with bound(wish) as server:
        server.listen()
        came: list[int] = []
        serving = threading.Thread(
            target=lambda: came.append(accept_all(server, bytes.fromhex(KEY), 1, time.monotonic() + 2.5))
        )
        serving.start()
        strangers = [socket.create_connection(server.getsockname()) for _ in range(2)]
        serving.join(10)
        for stranger in strangers:
            stranger.close()
    assert came == [0]


def test_two_worlds_of_mpi_meet(tmp_path: Path) -> None:
    port = listening(tmp_path, mpi=True)
    wish = Connect(network=LOOPBACK, mpi=True, key=KEY, targets=(Target(name="x", address=port),), within_s=60.0)
    answer = asked(tmp_path, wish)
    assert isinstance(answer, Connected)
    (reached,) = answer.reached
    assert (reached.problem, reached.took_s is not None) == ("", True)
    assert reached.transport.startswith("tcp, MPICH")


def test_a_request_that_is_none_is_refused_in_words(tmp_path: Path) -> None:
    file = tmp_path / "wish.json"
    file.write_text('{"do": "dance"}')
    done = subprocess.run([sys.executable, "-m", "runtime", "reach", str(file)], capture_output=True, check=False)
    assert done.returncode == 2
    assert "dance" in json.loads(done.stdout)["error"]
