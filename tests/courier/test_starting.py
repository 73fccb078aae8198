"""A courier is a world of its own, listens where it was told to and nowhere else, and ends with who started it."""

from __future__ import annotations

import socket
import struct
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from runtime.courier.environment import find_mpiexec
from runtime.courier.orders import OpenPort
from runtime.courier.pmi import LonelyWorld, fields
from runtime.memory.layout import Field, Layout
from runtime.memory.ring import RingSpec
from support.couriers import NodeRing, RunningCourier, join, until

_LISTEN = "0A"

Start = Callable[..., RunningCourier]


def listening(pid: int) -> set[tuple[str, int]]:
    """Addresses and ports at which a process and its children listen, in its own network namespace."""
    inodes = set()
    for one in [psutil.Process(pid), *psutil.Process(pid).children(recursive=True)]:
        links = [str(entry.readlink()) for entry in Path(f"/proc/{one.pid}/fd").iterdir() if entry.is_symlink()]
        inodes |= {link[8:-1] for link in links if link.startswith("socket:[")}
    found = set()
    for table, family in (("tcp", socket.AF_INET), ("tcp6", socket.AF_INET6)):
        for line in Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
            words = line.split()
            if words[3] == _LISTEN and words[9] in inodes:
                address, _, port = words[1].partition(":")
                whole = b"".join(struct.pack("=I", int(address[at : at + 8], 16)) for at in range(0, len(address), 8))
                found.add((socket.inet_ntop(family, whole), int(port, 16)))
    return found


def maps(pid: int) -> list[str]:
    """What a process has in its memory, a line each, ending with its file."""
    return Path(f"/proc/{pid}/maps").read_text().splitlines()


def test_joined_couriers_listen_on_their_interface_and_in_their_ports_only(courier: Start) -> None:
    ports = (42_710, 42_719)
    a, b = courier("a", ports=ports), courier("b", ports=ports)
    ring = RingSpec("ring", Layout((Field("x", "uint8", (100,)),)), 4)
    near, far = NodeRing(ring), NodeRing(RingSpec("far", ring.layout, 5))
    near.mirror(a, "b", 1, "send")
    far.mirror(b, "a", 1, "receive")
    join(a, b)
    producer, consumer = near.producer(), far.consumer()
    assert producer.acquire() is not None
    producer.commit(1)
    until(lambda: consumer.peek() is not None, "the slot came")
    seen = [listening(one.process.pid) for one in (a, b)]
    assert all(seen), "no listener was found, so this test sees nothing"
    for address, port in set.union(*seen):
        assert address == "127.0.0.1"
        assert ports[0] <= port <= ports[1]
    near.close()
    far.close()


def test_a_courier_has_no_other_process_beside_it(courier: Start) -> None:
    a = courier("a")
    assert a.pid == a.process.pid
    assert psutil.Process(a.pid).children(recursive=True) == []


def test_a_killed_courier_leaves_no_shared_memory_behind(courier: Start) -> None:
    before = set(Path("/dev/shm").glob("mpich_shm_*"))
    a = courier("a")
    mapped = [line for line in maps(a.pid) if "/dev/shm/mpich_shm_" in line]
    a.kill()
    made = {line.split()[5] for line in mapped}
    assert made, "MPICH has no such memory any more, so this test sees nothing"
    assert not {str(path) for path in set(Path("/dev/shm").glob("mpich_shm_*")) - before} & made


def test_a_launcher_is_used_where_one_is_wanted_and_such_a_courier_joins_one_without(courier: Start) -> None:
    mpiexec = find_mpiexec()
    if mpiexec is None:
        pytest.skip("no mpiexec beside this Python or on PATH")
    a, b = courier("a", mpiexec=mpiexec), courier("b")
    assert a.pid != a.process.pid
    join(a, b)
    until(lambda: all(one.view().links[0].up for one in (a, b)), "the link is up")


def test_another_mpi_library_is_taken_where_one_is_named(courier: Start, tmp_path: Path) -> None:
    own = next(Path(line.split()[5]) for line in maps(courier("a").pid) if "/libmpi.so" in line)
    site = tmp_path / "site" / own.name
    site.parent.mkdir()
    site.write_bytes(own.read_bytes())
    for beside in own.parent.iterdir():  # where the library looks for what it needs
        if beside.is_dir() and beside.name.startswith("mpi"):
            (site.parent / beside.name).symlink_to(beside)
    b = courier("b", abi=str(site))
    assert any(line.endswith(str(site)) for line in maps(b.pid))
    assert not any(line.endswith(str(own)) for line in maps(b.pid))
    assert b.view().library.startswith("MPICH")


def test_what_a_launcher_left_in_the_environment_does_not_confuse_a_courier(
    courier: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {"PMI_RANK": "3", "PMI_SIZE": "8", "PMI_FD": "99", "PMIX_RANK": "3"}.items():
        monkeypatch.setenv(name, value)
    assert courier("a").order(OpenPort())


def test_a_courier_ends_when_its_starter_is_killed(tmp_path: Path) -> None:
    path, log = tmp_path / "a.sock", tmp_path / "a.log"
    starter = textwrap.dedent("""
        import pathlib, socket, sys
        from runtime.courier.starting import start_courier
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        listener.bind(sys.argv[1])
        listener.listen(1)
        process = start_courier(pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]), interface="lo")
        channel, _ = listener.accept()
        print(process.pid, flush=True)
        channel.recv(1)
    """)
    with subprocess.Popen([sys.executable, "-c", starter, path, log], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        courier = psutil.Process(int(process.stdout.readline()))
        process.kill()
    try:
        until(lambda: not courier.is_running() or courier.status() == psutil.STATUS_ZOMBIE, "it ended")
    finally:
        if courier.is_running():
            courier.kill()
    assert "the agent is gone" in log.read_text()


def test_a_world_of_one_answers_what_mpi_asks() -> None:
    world = LonelyWorld("alone")
    said = {ask: fields(world.answer(f"cmd={ask}")) for ask in ("init", "get_maxes", "get_my_kvsname", "barrier_in")}
    assert {answer["rc"] for answer in said.values()} == {"0"}
    assert said["get_my_kvsname"]["kvsname"] == "alone"
    assert said["barrier_in"]["cmd"] == "barrier_out"
    world.answer("cmd=put kvsname=alone key=card value=with spaces = and signs")
    assert world.answer("cmd=get kvsname=alone key=card").endswith(" value=with spaces = and signs")
    assert fields(world.answer("cmd=get kvsname=alone key=none"))["rc"] == "-1"
    assert fields(world.answer("cmd=spawn"))["rc"] == "-1"
    assert fields(world.answer("nonsense"))["rc"] == "-1"
