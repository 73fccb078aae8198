"""Every connection keeps the same contract: this machine, a real SSH server, and the fake that other tests rely on."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from support.ssh_servers import Server, alive, eventually, in_background
from tianjictl.remote import files
from tianjictl.remote.base import Completed, Connection
from tianjictl.remote.failures import CommandTimedOut, ConnectionLost, RemoteFileProblem
from tianjictl.remote.fake import FakeConnection
from tianjictl.remote.local import LocalConnection
from tianjictl.remote.processes import end_detached, is_alive, start_detached
from tianjictl.remote.reach import reach

BOTH_STREAMS = 'echo "out of $1"; echo "err of $1" >&2; exit 3'
SYNTAX = "if true; then"
READS_INPUT = "cat; echo end"
BINARY = r"printf '\000\377\r\n'"

#: What the fake is told; the real ones must come to the same.
ANSWERS = {
    BOTH_STREAMS: lambda arg: Completed(3, f"out of {arg}\n".encode(), f"err of {arg}\n".encode()),
    SYNTAX: Completed(2, b"", b"sh: 1: Syntax error"),
    READS_INPUT: Completed(0, b"end\n"),
    BINARY: Completed(0, b"\0\xff\r\n"),
}


def open_local(_request: pytest.FixtureRequest) -> Connection:
    return LocalConnection("cn01")


def open_fake(_request: pytest.FixtureRequest) -> Connection:
    return FakeConnection("cn01", ANSWERS)


def open_ssh(request: pytest.FixtureRequest) -> Connection:
    server: Server = request.getfixturevalue("shared_server")
    return reach(server.host())


KINDS: dict[str, Callable[[pytest.FixtureRequest], Connection]] = {
    "local": open_local, "fake": open_fake, "ssh": open_ssh,
}  # fmt: skip


@pytest.fixture(params=KINDS)
def connection(request: pytest.FixtureRequest) -> Iterator[Connection]:
    with KINDS[request.param](request) as opened:
        yield opened


@pytest.fixture(params=["local", "ssh"])
def real(request: pytest.FixtureRequest) -> Iterator[Connection]:
    """Connections behind which there are processes."""
    with KINDS[request.param](request) as opened:
        yield opened


def test_a_script_gets_its_words_whole_and_its_streams_and_status_come_back_apart(connection):
    word = """a 'b' "c" $d `e` \\ ! * ;"""
    done = connection.run(BOTH_STREAMS, word)
    assert done == Completed(3, f"out of {word}\n".encode(), f"err of {word}\n".encode())
    assert (done.text, done.complaint) == (f"out of {word}", f"err of {word}")


def test_a_script_that_is_no_script_fails_alone(connection):
    assert connection.run(SYNTAX).status == 2
    assert connection.run(BOTH_STREAMS, "x").status == 3


def test_a_script_has_no_input_and_bytes_stay_what_they_are(connection):
    assert connection.run(READS_INPUT).out == b"end\n"
    assert connection.run(BINARY).out == b"\0\xff\r\n"


def test_a_file_comes_back_as_it_went(connection, tmp_path):
    content = os.urandom(3_000_000) + b"\r\n\0\n@@TJ-"
    target = str(tmp_path / "a file's name")
    connection.put(content, target)
    assert connection.get(target) == content
    source = tmp_path / "source"
    source.write_bytes(b"")
    connection.put(source, target)
    assert connection.get(target) == b""


def test_a_file_that_is_not_there_is_a_problem_of_that_file(connection, tmp_path):
    with pytest.raises(RemoteFileProblem, match=r"cn01: file: .*nothing: .*No such file"):
        connection.get(str(tmp_path / "nothing"))
    assert connection.run(BOTH_STREAMS, "x").status == 3


def test_a_closed_connection_says_so(connection):
    connection.close()
    connection.close()
    with pytest.raises(ConnectionLost, match=r"^cn01: channel: the connection is closed$"):
        connection.run(BOTH_STREAMS, "x")


def test_files_are_private_and_whole_or_not_there(real, tmp_path):
    folder = tmp_path / "target"
    folder.mkdir()
    real.put(b"secret", str(folder / "key"))
    real.put(b"tool", str(folder / "tool"), mode=0o755)
    assert [oct((folder / name).stat().st_mode & 0o777) for name in ("key", "tool")] == ["0o600", "0o755"]
    with pytest.raises(RemoteFileProblem, match="tool/x"):
        real.put(b"x", str(folder / "tool" / "x"))
    assert sorted(path.name for path in folder.iterdir()) == ["key", "tool"]


def test_content_that_breaks_off_leaves_what_was_there(real, tmp_path, monkeypatch):
    folder = tmp_path / "target"
    folder.mkdir()
    real.put(b"before", str(folder / "file"))
    monkeypatch.setattr(files, "size_of", lambda content: len(content) + 1)
    with pytest.raises(RemoteFileProblem, match="only 5 of 6 bytes have arrived"):
        real.put(b"after", str(folder / "file"))
    assert [(path.name, path.read_bytes()) for path in folder.iterdir()] == [("file", b"before")]


def test_a_home_folder_is_the_users(real):
    name = f"~/.tianji-test-{os.getpid()}"
    real.put(b"here", name)
    try:
        assert real.get(name) == b"here"
    finally:
        real.run('rm -- "$HOME/${1#??}"', name)
    assert not Path(name).expanduser().exists()


def test_large_output_arrives_whole(real):
    done = real.run("head -c 20000000 /dev/zero; head -c 300000 /dev/zero >&2")
    assert (len(done.out), len(done.err)) == (20_000_000, 300_000)


def run_into_deadline(connection: Connection, script: str, pids: Path) -> None:
    """The script, which tells its PIDs, is given half a second; more where a busy machine has not begun it by then."""
    for timeout_s in (0.5, 4.0, 30.0):
        began = time.monotonic()
        with pytest.raises(CommandTimedOut, match=rf"^cn01: command: not done after {timeout_s:g} s"):
            connection.run(script, str(pids), timeout_s=timeout_s)
        assert time.monotonic() - began < timeout_s + 25, "it has waited for the script"
        if pids.exists():
            return
    raise AssertionError("the script was never begun")


def test_a_script_that_is_not_done_in_time_is_ended_with_its_children(real, tmp_path):
    pids = tmp_path / "pids"
    run_into_deadline(real, 'sleep 60 & echo $! $$ >"$1.new"; mv "$1.new" "$1"; wait', pids)
    assert eventually(lambda: not any(alive(int(pid)) for pid in pids.read_text().split()))
    assert real.run("echo on").text == "on"


def test_closing_ends_what_is_running(real, tmp_path):
    pids = tmp_path / "pids"
    running = in_background(real, 'sleep 62 & echo $! $$ >"$1.new"; mv "$1.new" "$1"; wait', str(pids))
    assert eventually(pids.exists)
    found = [int(pid) for pid in pids.read_text().split()]
    assert all(alive(pid) for pid in found)
    real.close()
    assert isinstance(running(), ConnectionLost)
    assert eventually(lambda: not any(alive(pid) for pid in found))


def test_what_ignores_term_is_killed(real, tmp_path):
    pids = tmp_path / "pids"
    run_into_deadline(real, """trap '' TERM; echo $$ >"$1.new"; mv "$1.new" "$1"; while :; do sleep 1; done""", pids)
    assert eventually(lambda: not alive(int(pids.read_text())))


def test_a_started_process_outlives_its_connection_and_is_ended_by_group(real, tmp_path, request):
    log = tmp_path / "log"
    script = 'echo "$WORD in $PWD"; sleep 61 & echo $!; wait'
    started = start_detached(
        real, ["sh", "-c", script], log=str(log), folder=str(tmp_path), environment={"WORD": "two words"}
    )
    assert started.pid == started.group
    real.close()
    assert eventually(lambda: log.read_text().count("\n") == 2)
    assert log.read_text().splitlines()[0] == f"two words in {tmp_path}"
    child = int(log.read_text().splitlines()[1])
    with KINDS[request.node.callspec.params["real"]](request) as again:
        assert is_alive(again, started)
        assert end_detached(again, started)
        assert not is_alive(again, started)
        assert eventually(lambda: not alive(child))
        assert end_detached(again, started), "what is gone already counts as ended"


def test_a_later_process_with_the_same_number_is_left_alone(real, tmp_path):
    from dataclasses import replace

    started = start_detached(real, ["sleep", "60"], log=str(tmp_path / "log"))
    earlier = replace(started, started_ticks=started.started_ticks - 1)
    assert not is_alive(real, earlier)
    assert end_detached(real, earlier)
    assert is_alive(real, started)
    assert end_detached(real, started)


def test_a_program_that_is_not_there_cannot_be_started(real, tmp_path):
    from tianjictl.errors import TianjiError

    with pytest.raises(TianjiError, match="there is no program nowhere-to-be-found"):
        start_detached(real, ["nowhere-to-be-found"], log=str(tmp_path / "log"))


def test_a_file_of_any_size_is_fetched_part_by_part(real, tmp_path):
    source, target = tmp_path / "large", tmp_path / "fetched"
    for size in (0, 999, 1000, 2500):
        source.write_bytes(os.urandom(size))
        assert files.fetch(real, str(source), target, part=1000) == size
        assert target.read_bytes() == source.read_bytes()
    with pytest.raises(RemoteFileProblem):
        files.fetch(real, str(tmp_path / "none"), target)
