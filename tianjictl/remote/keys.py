"""Which keys are offered to a host, and in which order. Pure but for reading the files that a configuration names."""

from __future__ import annotations

import base64
import binascii
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from tianjictl.remote.openssh_config import SshConfig

MOST_KEYS = 5  #: servers end the connection at the sixth
K = TypeVar("K")


class Offer(NamedTuple, Generic[K]):
    """A key and what to call it."""

    name: str
    key: K


def choose(
    config: SshConfig,
    agent: Mapping[bytes, Offer[K]],
    load: Callable[[Path], tuple[bytes, K]],
) -> tuple[list[Offer[K]], list[str]]:
    """Keys to offer, each once: the identity files, by way of the agent where it has them, then the agent's own.

    With IdentitiesOnly the agent's other keys stay out. `load` reads a private key and gives its public blob with it;
    ValueError says why it cannot. Also returns the names of the keys that are passed over, each with the reason.
    """
    chosen: dict[bytes, Offer[K]] = {}
    passed_over: list[str] = []
    for path in config.identity_files:
        public = _public_blob(path.with_name(f"{path.name}.pub"))
        if public is not None and public in agent:
            chosen[public] = Offer(f"{path} (agent)", agent[public].key)
        elif path.is_file():
            try:
                blob, key = load(path)
            except ValueError as error:
                passed_over.append(f"{path} ({error})")
                continue
            chosen.setdefault(blob, Offer(str(path), key))
    if not config.identities_only:
        for blob, offer in agent.items():
            chosen.setdefault(blob, offer)
    offers = list(chosen.values())
    passed_over += [f"{offer.name} (no more than {MOST_KEYS} are tried)" for offer in offers[MOST_KEYS:]]
    return offers[:MOST_KEYS], passed_over


def _public_blob(path: Path) -> bytes | None:
    try:
        return base64.b64decode(path.read_text(encoding="utf-8").split()[1], validate=True)
    except (OSError, UnicodeDecodeError, IndexError, binascii.Error):
        return None  # no public half beside the key: the key itself tells
