"""Only who knows the run's key may mirror: a challenge both ways before anything else is said on a link.

Each side sends a random nonce and answers the other's with HMAC-SHA256 over its own role and both nonces. The role
keeps an answer from being good for the other direction. The key itself never travels. This keeps strangers out of a
run; it does not hide the data, which is the business of the network that the links are on.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import struct

_WORDS = struct.Struct("=4q")
Words = tuple[int, ...]


def _mac(key: bytes, role: bytes, ours: bytes, theirs: bytes) -> bytes:
    return hmac.new(key, b"tianji courier " + role + ours + theirs, hashlib.sha256).digest()


class Handshake:
    """One side's part. `accepted` is true for the side that accepted the connection."""

    def __init__(self, key: bytes, *, accepted: bool) -> None:
        self._key = key
        self._role, self._peer_role = (b"acceptor", b"connector") if accepted else (b"connector", b"acceptor")
        self._nonce = secrets.token_bytes(_WORDS.size)
        self._peer_nonce = b""

    @property
    def challenge(self) -> Words:
        """The nonce to send."""
        return _WORDS.unpack(self._nonce)

    def answer(self, challenge: Words) -> Words:
        """What to send back for the peer's nonce. struct.error if that has not four words."""
        self._peer_nonce = _WORDS.pack(*challenge)
        return _WORDS.unpack(_mac(self._key, self._role, self._nonce, self._peer_nonce))

    def check(self, proof: Words) -> bool:
        """Whether the peer's answer shows that it has the key. struct.error if that has not four words."""
        expected = _mac(self._key, self._peer_role, self._peer_nonce, self._nonce)
        return bool(self._peer_nonce) and hmac.compare_digest(_WORDS.pack(*proof), expected)
