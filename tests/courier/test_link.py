"""A link over a wire that a test can cut anywhere: liveness, the key, and mirrors that outlive every break."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runtime.courier.channel import LinkLostError
from runtime.courier.handshake import Handshake
from runtime.courier.link import Link, decode, encode
from runtime.courier.protocol import Frame, Kind, ProtocolError
from runtime.courier.transport import explain, provider_in, transport_of
from support.memory_channel import channel_pair

KEY = b"k" * 32


def linked(key: bytes = KEY, other: bytes = KEY) -> tuple[Link, Link]:
    ends = channel_pair()
    return Link(ends[0], key, 0.0, accepted=True), Link(ends[1], other, 0.0, accepted=False)


def greet(a: Link, b: Link) -> None:
    for _ in range(4):
        a.poll(0.0)
        b.poll(0.0)


def test_both_sides_prove_that_they_know_the_key() -> None:
    a, b = linked()
    greet(a, b)
    assert a.proven
    assert b.proven


def test_a_peer_with_another_key_is_refused() -> None:
    a, b = linked(KEY, b"x" * 32)
    with pytest.raises(LinkLostError, match="key"):
        greet(a, b)
    assert not a.proven
    assert a.lost_because is not None


def test_an_answer_thrown_back_proves_nothing() -> None:
    ours = Handshake(KEY, accepted=True)
    assert not ours.check(ours.answer(ours.challenge))
    assert not Handshake(KEY, accepted=True).check((0, 0, 0, 0)), "no proof without a challenge"


def test_frames_before_the_proof_are_refused() -> None:
    ends = channel_pair()
    link = Link(ends[0], KEY, 0.0, accepted=True)
    ends[1].send(memoryview(encode([Frame(Kind.ACK, 1, (0, 0))])[0]), 0)
    with pytest.raises(LinkLostError, match="before the peer has shown"):
        link.poll(0.0)


def test_a_silent_peer_is_lost_after_the_time_limit_and_keep_alives_prevent_that() -> None:
    a, b = linked()
    greet(a, b)
    now = 0.0
    for _ in range(50):
        now += 0.2
        a.poll(now)
        b.poll(now)
    heard_until = now
    with pytest.raises(LinkLostError, match="nothing heard"):
        while now < heard_until + 3.0:
            now += 0.2
            a.poll(now)
    assert 1.9 < now - heard_until < 2.5


def test_ones_own_pause_is_not_held_against_the_peer() -> None:
    a, b = linked()
    greet(a, b)
    a.poll(60.0)
    b.poll(60.0)
    a.poll(60.1)


def test_a_goodbye_ends_the_link_at_once() -> None:
    a, b = linked()
    greet(a, b)
    a.say_goodbye()
    with pytest.raises(LinkLostError, match="left"):
        b.poll(0.1)


frames = st.builds(
    Frame,
    st.sampled_from(Kind),
    st.integers(0, 99),
    st.lists(st.integers(-(2**63), 2**63 - 1), max_size=200).map(tuple),
)


@settings(max_examples=50, deadline=None)
@given(st.lists(frames, max_size=60))
def test_frames_come_out_as_they_went_in(sent: list[Frame]) -> None:
    messages = encode(sent)
    assert [frame for message in messages for frame in decode(memoryview(message))] == sent
    assert all(len(message) <= 32 * 1024 for message in messages)


@given(st.binary(max_size=200))
def test_garbage_is_a_protocol_error_or_frames_but_nothing_else(data: bytes) -> None:
    try:
        decode(memoryview(data))
    except ProtocolError:
        return


def test_mirror_numbers_are_used_once() -> None:
    a, _ = linked()
    with pytest.raises(ValueError, match="below 1"):
        a.add(0, None)  # type: ignore[arg-type]


def test_the_provider_is_found_in_what_mpi_prints_and_explained() -> None:
    summary = "provider: tcp, score = 4\nlibfabric provider: verbs;ofi_rxm - 10.0.0.0/24\nMPIDI_OFI_ENABLE_DATA: 1\n"
    assert provider_in(summary) == "verbs;ofi_rxm"
    assert provider_in("") == ""
    assert [transport_of(name) for name in ("verbs;ofi_rxm", "tcp", "sockets", "efa", "shm", "odd", "")] == [
        "verbs",
        "tcp",
        "tcp",
        "efa",
        "shm",
        "odd",
        "unknown",
    ]
    assert "no RDMA device" in explain("tcp", [])
    assert "mlx5_0" in explain("tcp", ["mlx5_0"])
    assert explain("verbs;ofi_rxm", ["mlx5_0"]).startswith("verbs: RDMA")
