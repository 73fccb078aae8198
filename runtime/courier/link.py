"""A link: one connection to a peer courier, and all the mirrors over it.

Control frames of one poll leave as one message. A peer that says nothing for `timeout_s` is taken for lost, by the
receiver's own clock; a link that has nothing to say sends an ALIVE every `keepalive_s`. A pause of this very process is
not held against the peer. Frames for a mirror that is not added yet wait for it, so the two sides may add in any order.
"""

from __future__ import annotations

import struct
from collections import deque
from typing import TYPE_CHECKING

from runtime.courier.channel import LinkLostError
from runtime.courier.handshake import Handshake
from runtime.courier.port import CONTROL_TAG, ChannelPort, Traffic
from runtime.courier.protocol import Frame, Kind, ProtocolError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from runtime.courier.channel import Channel, Transfer
    from runtime.courier.port import Mirror

KEEPALIVE_S = 0.4
TIMEOUT_S = 2.0
_CONTROL_BYTES = 32 * 1024
_CONTROL_POSTED = 4
_MOST_WAITING = 256  # frames for mirrors that this side does not have yet
_WORD = struct.calcsize("q")


class Link:
    """The state of one join; `channel` is closed with it. `accepted`: this side accepted, the other connected."""

    def __init__(
        self,
        channel: Channel,
        key: bytes,
        now: float,
        *,
        accepted: bool,
        keepalive_s: float = KEEPALIVE_S,
        timeout_s: float = TIMEOUT_S,
    ) -> None:
        self.traffic = Traffic()
        self.lost_because: str | None = None
        self._channel = channel
        self._keepalive_s, self._timeout_s = keepalive_s, timeout_s
        self._heard = self._said = self._polled = now
        self._mirrors: dict[int, Mirror] = {}
        self._waiting: dict[int, list[Frame]] = {}
        self._outbox: list[Frame] = []
        self._sending: deque[tuple[Transfer, bytes]] = deque()
        self._posted: deque[tuple[Transfer, bytearray]] = deque()
        self._handshake = Handshake(key, accepted=accepted)
        self._proven = False
        for _ in range(_CONTROL_POSTED):
            self._post()
        self._outbox.append(Frame(Kind.CHALLENGE, 0, self._handshake.challenge))

    @property
    def proven(self) -> bool:
        """The peer has shown that it knows the key; mirrors move from then on."""
        return self._proven

    @property
    def mirrors(self) -> Mapping[int, Mirror]:
        """By their numbers."""
        return self._mirrors

    def add(self, number: int, mirror: Mirror) -> None:
        """Mirror over this link under a number ≥ 1 that both sides use for it, and for nothing else, ever."""
        if number < 1 or number in self._mirrors:
            raise ValueError(f"mirror number {number} is taken or below 1")
        self._mirrors[number] = mirror
        if self._proven:
            self._start(number)

    def remove(self, number: int) -> None:
        """Stop mirroring: the memory may go once this returns. Raises StuckTransferError if a receive cannot end."""
        mirror = self._mirrors.pop(number, None)
        if mirror is not None:
            self._channel.withdraw(number)

    def poll(self, now: float) -> bool:
        """Move on everything. True if anything moved. Raises LinkLostError, after which only `close` is left."""
        try:
            return self._poll(now)
        except ProtocolError as problem:
            self.lost_because = str(problem)
            raise LinkLostError(str(problem)) from problem
        except LinkLostError as problem:
            self.lost_because = str(problem)
            raise

    def _poll(self, now: float) -> bool:
        if now - self._polled > self._timeout_s / 2:
            self._heard = now
        self._polled = now
        moved = self._hear_all(now)
        if self._proven:
            for mirror in self._mirrors.values():
                moved = mirror.poll() or moved
        while self._sending and self._sending[0][0].done() is not None:
            self._sending.popleft()
        if not self._outbox and now - self._said >= self._keepalive_s:
            self._outbox.append(Frame(Kind.ALIVE, 0))
        if self._outbox:
            self._flush()
            self._said = now
        if now - self._heard > self._timeout_s:
            raise LinkLostError(f"nothing heard for {now - self._heard:.1f} s")
        return moved

    def close(self) -> None:
        """Give up the connection and every receive into shared memory. Raises StuckTransferError."""
        self._mirrors.clear()
        self._channel.close()

    @property
    def busy(self) -> bool:
        """Something is on its way."""
        return any(mirror.busy for mirror in self._mirrors.values())

    def waits(self) -> Sequence[int]:
        """Descriptors of local events."""
        return [fd for mirror in self._mirrors.values() for fd in mirror.waits()]

    def _start(self, number: int) -> None:
        mirror = self._mirrors[number]
        mirror.start(ChannelPort(number, self._channel, self._outbox, self.traffic))
        for frame in self._waiting.pop(number, []):
            mirror.hear(frame)

    def _post(self) -> None:
        buffer = bytearray(_CONTROL_BYTES)
        self._posted.append((self._channel.receive(memoryview(buffer), CONTROL_TAG), buffer))

    def _hear_all(self, now: float) -> bool:
        heard = False
        while (nbytes := self._posted[0][0].done()) is not None:
            buffer = self._posted.popleft()[1]
            self._post()
            self._heard = now
            for frame in decode(memoryview(buffer)[:nbytes]):
                self._hear(frame)
                heard = heard or frame.kind is not Kind.ALIVE
        return heard

    def _hear(self, frame: Frame) -> None:
        if frame.kind is Kind.BYE:
            raise LinkLostError("the peer has left")
        if frame.mirror == 0:
            self._greet(frame)
        elif not self._proven:
            raise ProtocolError(f"{frame.kind.name} before the peer has shown that it knows the key")
        elif frame.mirror in self._mirrors:
            self._mirrors[frame.mirror].hear(frame)
        else:
            waiting = self._waiting.setdefault(frame.mirror, [])
            if len(waiting) >= _MOST_WAITING:
                raise ProtocolError(f"{len(waiting)} frames for mirror {frame.mirror}, which is not here")
            waiting.append(frame)

    def _greet(self, frame: Frame) -> None:
        try:
            if frame.kind is Kind.CHALLENGE:
                self._outbox.append(Frame(Kind.PROOF, 0, self._handshake.answer(frame.values)))
            elif frame.kind is Kind.PROOF:
                if not self._handshake.check(frame.values):
                    raise ProtocolError("the peer does not know the key of this run")
                self._proven = True
                for number in self._mirrors:
                    self._start(number)
        except struct.error as problem:
            raise ProtocolError(f"a {frame.kind.name} of {len(frame.values)} words") from problem

    def say_goodbye(self) -> None:
        """Tell the peer that this side leaves in good order; what is on its way is sent again in the next join."""
        self._outbox.append(Frame(Kind.BYE, 0))
        self._flush()

    def flush_until(self, deadline: float, clock: Callable[[], float]) -> None:
        """Wait until every control message has left, or until `deadline` by `clock`."""
        while self._sending and clock() < deadline:
            if self._sending[0][0].done() is not None:
                self._sending.popleft()

    def _flush(self) -> None:
        for message in encode(self._outbox):
            self._sending.append((self._channel.send(memoryview(message), CONTROL_TAG), message))
        self._outbox.clear()  # ports hold this very list


def encode(frames: Sequence[Frame]) -> list[bytes]:
    """Frames as one or several control messages: for each the number of its values, kind, mirror, values."""
    messages, current = [], bytearray()
    for frame in frames:
        words = (len(frame.values), int(frame.kind), frame.mirror, *frame.values)
        packed = struct.pack(f"={len(words)}q", *words)
        if len(current) + len(packed) > _CONTROL_BYTES:
            messages.append(bytes(current))
            current = bytearray()
        current += packed
    return [*messages, bytes(current)]


def decode(message: memoryview) -> list[Frame]:
    """What `encode` was given. ProtocolError for anything else."""
    if len(message) % _WORD:
        raise ProtocolError(f"a control message of {len(message)} bytes")
    words, frames, at = message.cast("q"), [], 0
    while at < len(words):
        if at + 3 > len(words) or words[at] < 0 or at + 3 + words[at] > len(words):
            raise ProtocolError("a control message ends in mid-frame")
        try:
            kind = Kind(words[at + 1])
        except ValueError as problem:
            raise ProtocolError(f"a control frame of unknown kind {words[at + 1]}") from problem
        frames.append(Frame(kind, words[at + 2], tuple(words[at + 3 : at + 3 + words[at]])))
        at += 3 + words[at]
    return frames
