"""Hosts of an SSH client configuration: its `Host` lines name them, and `ssh -G` says how each is reached.

Patterns name no host, and `Match` blocks only change what holds for one; both are left to `ssh -G`.
"""

from __future__ import annotations

import re
import shlex
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING

from runtime.contract.yaml_source import Place, Problem
from tianjictl.errors import UsageProblem
from tianjictl.hosts.importing.found import Found, all_or_problem, named
from tianjictl.remote.failures import HostFailure
from tianjictl.remote.openssh_config import SshConfig, resolve

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

_DEEPEST = 16  #: as OpenSSH
_KEYWORD = re.compile(r"\s*(?P<key>[A-Za-z]+)(?:\s*=\s*|\s+)(?P<rest>.+)")
_USUAL_KEY = re.compile(r"id_(?:rsa|dsa|xmss|ecdsa|ecdsa_sk|ed25519|ed25519_sk)")


def usual_file() -> Path:
    """The user's own configuration."""
    return Path.home() / ".ssh" / "config"


def ssh_config_hosts(
    file: Path, match: str | None = None, ask: Callable[[str, Sequence[str]], SshConfig] = resolve
) -> list[Found]:
    """Every host that `file` names (those like the shell pattern `match`), in its order.

    `ask` answers for `ssh -G`. UsageProblem lists all that is wrong, with file and line.
    """
    words = () if file == usual_file() else ("-F", str(file.absolute()))
    places: dict[str, Place] = {}
    for name, place in _named_in(file, 0):
        if match is None or fnmatchcase(name, match):
            places.setdefault(name, place)
    if not places:
        which = f" like {match}" if match else ""
        raise UsageProblem(f"{file}: names no host{which}", hint="only Host lines without wildcards name hosts")
    usual = _usual_user(ask)
    found: list[Found | Problem] = []
    for name, place in places.items():
        try:
            found.append(named(name, place, **_variables(name, ask(name, words), words, usual)))
        except HostFailure as failure:
            found.append(place.problem(failure.message, failure.hint))
    return all_or_problem(found)


def _named_in(file: Path, depth: int) -> Iterator[tuple[str, Place]]:
    for number, line in enumerate(_lines(file, depth), start=1):
        match = _KEYWORD.match(line)
        if match is None:
            continue
        key = match["key"].lower()
        place = Place(str(file), number, 1)
        if key in ("host", "include"):
            for word in _words(match["rest"], place):
                if key == "include":
                    yield from _included(word, place, depth)
                elif not any(sign in word for sign in "*?!"):
                    yield word, place


def _lines(file: Path, depth: int) -> list[str]:
    try:
        return file.read_text(errors="surrogateescape").splitlines()
    except OSError as error:
        if depth:
            return []  # as OpenSSH: what an Include cannot read is passed over
        raise UsageProblem(
            f"{file}: cannot be read: {error.strerror}", hint="name another: --ssh-config FILE"
        ) from error


def _words(rest: str, place: Place) -> list[str]:
    try:
        return shlex.split(rest, comments=True)
    except ValueError as error:
        raise UsageProblem(f"{place.problem(f'cannot be split into words: {error}')}") from error


def _included(pattern: str, place: Place, depth: int) -> Iterator[tuple[str, Place]]:
    if depth >= _DEEPEST:
        raise UsageProblem(str(place.problem("Include goes too deep: does a file include itself?")))
    path = Path(pattern).expanduser()
    base = Path("/") if path.is_absolute() else Path.home() / ".ssh"
    for found in sorted(base.glob(str(path).lstrip("/"))):
        if found.is_file():
            yield from _named_in(found, depth + 1)


def _usual_user(ask: Callable[[str, Sequence[str]], SshConfig]) -> str:
    """Whom SSH logs in as where nothing is configured."""
    try:
        return ask("localhost", ("-F", "/dev/null")).user
    except HostFailure:
        return ""


def _variables(name: str, config: SshConfig, words: Sequence[str], usual_user: str) -> dict[str, str | int]:
    """What differs from SSH's defaults, so that the inventory stands on its own."""
    told: dict[str, str | int] = {}
    if config.hostname != name:
        told["ansible_host"] = config.hostname
    if config.port != 22:
        told["ansible_port"] = config.port
    if config.user != usual_user:
        told["ansible_user"] = config.user
    keys = [str(file) for file in config.identity_files if not _is_usual(file)]
    if keys:
        told["ansible_ssh_private_key_file"] = keys[0]
    args = [*words, *(word for key in keys[1:] for word in ("-i", key)), *_options(config)]
    if args:
        told["ansible_ssh_common_args"] = shlex.join(args)
    return told


def _options(config: SshConfig) -> list[str]:
    told = {
        "IdentitiesOnly": "yes" if config.identities_only else None,
        "HostKeyAlias": config.host_key_alias,
        "ProxyJump": config.proxy_jump,
        "ProxyCommand": config.proxy_command,
    }
    return [word for key, value in told.items() if value is not None for word in ("-o", f"{key}={value}")]


def _is_usual(file: Path) -> bool:
    return file.parent == Path.home() / ".ssh" and _USUAL_KEY.fullmatch(file.name) is not None
