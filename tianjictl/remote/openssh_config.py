"""What SSH's own configuration says about a host, asked of `ssh -G`, which knows Include, Match and all the rest."""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tianjictl.remote.failures import HostFailure, Phase

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_ASKED_WITHIN_S = 10.0  #: a Match exec of the user's may take its time


@dataclass(frozen=True, slots=True)
class SshConfig:
    """The part of a host's configuration that is acted on. Paths are expanded."""

    host: str  #: as it was asked for
    hostname: str
    port: int = 22
    user: str = ""
    identity_files: tuple[Path, ...] = ()
    identities_only: bool = False
    agent: str | None = None  #: socket of the agent; `SSH_AUTH_SOCK` means that of the environment, none means no agent
    user_known_hosts: tuple[Path, ...] = ()
    global_known_hosts: tuple[Path, ...] = ()
    host_key_alias: str | None = None
    proxy_jump: str | None = None
    proxy_command: str | None = None


def resolve(host: str, words: Sequence[str] = (), *, program: str | None = None) -> SshConfig:
    """Ask `ssh -G` about `host`; `words` are options such as ("-p", "2222"). HostFailure where it refuses,
    or where there is no `ssh` program.
    """
    ssh = program or shutil.which("ssh")
    if ssh is None:
        raise HostFailure(
            host, Phase.CONFIGURATION, "there is no ssh program to ask for its configuration",
            hint="install the OpenSSH client",
        )  # fmt: skip
    if host.startswith("-"):
        raise HostFailure(host, Phase.CONFIGURATION, "an address cannot begin with '-'")
    try:
        done = subprocess.run(
            [ssh, "-G", "-T", *words, "--", host], stdin=subprocess.DEVNULL, capture_output=True, text=True,
            errors="replace", timeout=_ASKED_WITHIN_S, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired as error:
        why = f"ssh -G has not answered within {_ASKED_WITHIN_S:g} s"
        raise HostFailure(host, Phase.CONFIGURATION, why, hint="look for a slow 'Match exec'") from error
    if done.returncode != 0:
        said = done.stderr.strip().splitlines() or [f"exit status {done.returncode}"]
        raise HostFailure(host, Phase.CONFIGURATION, f"ssh -G refuses: {said[-1]}", hint=f"ssh -G {host} shows it")
    return parse(done.stdout, host)


def parse(text: str, host: str, home: Path | None = None) -> SshConfig:
    """The configuration in what `ssh -G` has printed."""
    said: dict[str, list[str]] = {}
    for line in text.splitlines():
        key, _, value = line.strip().partition(" ")
        if value:
            said.setdefault(key.lower(), []).append(value.strip())

    def one(key: str, default: str = "") -> str:
        return said.get(key, [default])[0]

    def unless_none(key: str) -> str | None:
        value = one(key)
        return None if value.lower() in ("", "none") else value

    hostname, user, port = one("hostname", host), one("user"), int(one("port", "22"))
    here = home or Path.home()
    tokens = {"%": "%", "d": str(here), "h": hostname, "n": host, "p": str(port), "r": user}

    def path(value: str) -> Path:
        return _expanded(value.strip('"'), tokens, here)

    files = [path(value) for value in said.get("identityfile", []) if value.lower() != "none"]
    agent = one("identityagent", "SSH_AUTH_SOCK")
    return SshConfig(
        host=host,
        hostname=hostname,
        port=port,
        user=user,
        identity_files=tuple(dict.fromkeys(files)),
        identities_only=one("identitiesonly") in ("yes", "true"),
        agent=None if agent.lower() == "none" else agent if agent == "SSH_AUTH_SOCK" else str(path(agent)),
        user_known_hosts=tuple(path(word) for word in _words(one("userknownhostsfile"))),
        global_known_hosts=tuple(path(word) for word in _words(one("globalknownhostsfile"))),
        host_key_alias=unless_none("hostkeyalias"),
        proxy_jump=unless_none("proxyjump"),
        proxy_command=unless_none("proxycommand"),
    )


def _words(value: str) -> list[str]:
    return [word for word in re.findall(r'"[^"]*"|\S+', value) if word.lower() not in ("none", "/dev/null")]


def _expanded(value: str, tokens: Mapping[str, str], home: Path) -> Path:
    if value == "~" or value.startswith("~/"):
        value = str(home) + value[1:]
    return Path(re.sub(r"%([%dhnpr])", lambda match: tokens[match[1]], value))
