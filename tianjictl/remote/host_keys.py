"""Whether the key that a host shows is the one that is known for it: facts in, nothing or a refusal out."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from tianjictl.remote.failures import HostKeyRefused, Phase
from tianjictl.remote.known_hosts import fingerprint, remember

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tianjictl.remote.known_hosts import Known
    from tianjictl.remote.openssh_config import SshConfig


class Policy(StrEnum):
    """What to do with a key that is seen for the first time. A changed key is refused always."""

    STRICT = "strict"
    ACCEPT_NEW = "accept-new"


@dataclass(frozen=True, slots=True)
class NewKey:
    """A key that a host has shown and that is not known."""

    config: SshConfig
    kind: str
    blob: bytes

    @property
    def name(self) -> str:
        """What known_hosts calls the host."""
        return self.config.host_key_alias or self.config.hostname

    @property
    def fingerprint(self) -> str:
        return fingerprint(self.blob)


def keep_key(key: NewKey) -> str:
    """Add a key to the user's known_hosts, under a lock; where it is kept, in words."""
    file = next(iter(key.config.user_known_hosts), None)
    if file is None:
        return "kept nowhere: there is no UserKnownHostsFile"
    remember(file, key.name, key.config.port, key.kind, key.blob)
    return f"kept in {file}"


def judge(config: SshConfig, known: Known, kind: str, blob: bytes, policy: Policy) -> bool:
    """Whether the key is new and to be remembered; false where it is known. HostKeyRefused where it is not accepted."""
    shown = f"{kind} {fingerprint(blob)}"
    for key in known.revoked:
        if key.blob == blob:
            raise _refused(config, f"its key {shown} is revoked at {key.place}", "do not use this host")
    if any(key.blob == blob for key in known.keys):
        return False
    for key in known.keys:
        if key.kind == kind:
            why = f"its key has changed: it shows {shown}, known is {key.fingerprint} ({key.place})"
            raise _refused(config, why, f"if you know why: {_forget(config, key.place)}, then log in once with ssh")
    if known.keys:
        raise other_kind(config, known, offered=shown)
    if policy is Policy.ACCEPT_NEW:
        return True
    why = f"its key is not known: it shows {shown}"
    if known.authorities:
        why += f"; {known.authorities[0]} trusts an authority, but host certificates are not checked here"
    hint = f"compare it with the host's own, then log in once: ssh{_port(config)} {config.hostname};"
    raise _refused(config, why, f"{hint} or set tianji_host_keys: accept-new")


def other_kind(config: SshConfig, known: Known, offered: str | None = None) -> HostKeyRefused:
    """The refusal of a host that has no key of a type that is known for it."""
    has = f"shows {offered}" if offered else "has no key of a type that is known for it"
    places = ", ".join(f"{key.kind} at {key.place}" for key in known.keys)
    hint = f"ssh-keyscan{_port(config)} {config.hostname} shows its keys; if you know why: "
    return _refused(config, f"it {has}; known is {places}", hint + _forget(config, known.keys[0].place))


def algorithms(kinds: Iterable[str], supported: Iterable[str]) -> tuple[str, ...]:
    """What to ask the server for, so that it shows a key of a known type: signature algorithms."""
    wanted = [name for kind in kinds for name in (("rsa-sha2-512", "rsa-sha2-256") if kind == "ssh-rsa" else (kind,))]
    able = set(supported)
    return tuple(name for name in wanted if name in able)


def _refused(config: SshConfig, why: str, hint: str) -> HostKeyRefused:
    return HostKeyRefused(config.host, Phase.HOST_KEY, why, hint=hint)


def _port(config: SshConfig) -> str:
    return "" if config.port == 22 else f" -p {config.port}"


def _forget(config: SshConfig, place: str) -> str:
    name = config.host_key_alias or config.hostname
    name = name if config.port == 22 else f"'[{name}]:{config.port}'"
    return f"ssh-keygen -R {name} -f {place.rpartition(':')[0]}"
