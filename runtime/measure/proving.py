"""Two ends of a connection prove to each other that they have the same key, by the couriers' handshake."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from runtime.courier.handshake import Handshake

if TYPE_CHECKING:
    import socket

_WORDS = struct.Struct("=4q")


class HungUpError(ConnectionError):
    """The other end has closed the connection."""


def prove(peer: socket.socket, key: bytes, *, accepted: bool) -> bool:
    """Whether the other end has the key; `accepted`: this end was called.

    HungUpError where it leaves before it has proved itself, TimeoutError where it is silent.
    """
    handshake = Handshake(key, accepted=accepted)
    peer.sendall(_WORDS.pack(*handshake.challenge))
    answer = handshake.answer(_WORDS.unpack(_read(peer)))
    # Who was called answers last: a stranger learns nothing but a nonce.
    if not accepted:
        peer.sendall(_WORDS.pack(*answer))
    if not handshake.check(_WORDS.unpack(_read(peer))):
        return False
    if accepted:
        peer.sendall(_WORDS.pack(*answer))
    return True


def _read(peer: socket.socket) -> bytes:
    data = b""
    while len(data) < _WORDS.size:
        piece = peer.recv(_WORDS.size - len(data))
        if not piece:
            raise HungUpError("the connection was closed before the other side had proved itself")
        data += piece
    return data
