"""The two ends of a measured link on the loopback device: what they see, and whom they refuse."""

from __future__ import annotations

import random
import secrets
import socket
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing

import pytest

from runtime.contract.measurement import LinkReport
from runtime.measure.link import LinkError, connect, listen, main

HERE = "127.0.0.1"


def free_port() -> int:
    with closing(socket.create_server((HERE, 0))) as server:
        port: int = server.getsockname()[1]
        return port


def both(listener_key: bytes, connector_key: bytes) -> tuple[Future[LinkReport], Future[LinkReport]]:
    """Both ends, run to their end."""
    port = free_port()
    with ThreadPoolExecutor(max_workers=2) as pool:
        return (
            pool.submit(listen, HERE, port, listener_key, patience_s=5.0),
            pool.submit(connect, HERE, port, connector_key, patience_s=5.0),
        )


def test_each_end_tells_what_it_received_and_who_connected_how_long_a_round_trip_takes() -> None:
    key = secrets.token_bytes(32)
    listened, connected = (end.result() for end in both(key, key))
    for report in (listened, connected):
        assert report.received_mb_per_s.median > 1.0
        assert report.received_mb_per_s.repeats >= 2
    assert listened.rtt_s is None
    assert connected.rtt_s is not None
    assert connected.rtt_s.repeats > 5
    assert 0 < connected.rtt_s.low <= connected.rtt_s.median <= connected.rtt_s.high < 1


def test_who_does_not_know_the_secret_is_refused_by_both_ends() -> None:
    for end in both(secrets.token_bytes(32), secrets.token_bytes(32)):
        with pytest.raises(LinkError, match="secret"):
            end.result()


def test_a_stranger_gets_a_challenge_and_no_proof() -> None:
    port = free_port()
    with ThreadPoolExecutor(max_workers=1) as pool:
        end = pool.submit(listen, HERE, port, secrets.token_bytes(32), patience_s=5.0)
        stranger = None
        while stranger is None and not end.done():
            try:
                stranger = socket.create_connection((HERE, port), timeout=5.0)
            except ConnectionRefusedError:
                continue
        assert stranger is not None
        with stranger:
            stranger.sendall(random.Random(1).randbytes(64))  # a nonce, and a proof that is none
            said = b""
            while piece := _received(stranger):
                said += piece
            assert len(said) == 32, "its nonce, and nothing that was made with the key"
        with pytest.raises(LinkError, match="does not know the secret"):
            end.result()


def _received(stranger: socket.socket) -> bytes:
    try:
        return stranger.recv(4096)
    except ConnectionResetError:
        return b""


def test_nobody_is_waited_for_without_end() -> None:
    with pytest.raises(LinkError, match="nobody came"):
        listen(HERE, free_port(), bytes(32), patience_s=0.05)
    with pytest.raises(LinkError, match="nobody listens"):
        connect(HERE, free_port(), bytes(32), patience_s=0.05)


def test_a_port_that_somebody_has_is_told_apart_from_other_failures(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import io

    with closing(socket.create_server((HERE, 0))) as taken:
        monkeypatch.setattr("sys.stdin", io.StringIO("ab" * 32 + "\n"))
        assert main(["listen", HERE, str(taken.getsockname()[1])]) == 3
    monkeypatch.setattr("sys.stdin", io.StringIO("ab\n"))
    assert main(["listen", HERE, "1"]) == 2, "a secret of one byte is none"
    assert "secret of 16 bytes" in capsys.readouterr().out
