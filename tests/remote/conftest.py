"""Real SSH servers for the tests that want one; skipped, with the reason, where there is no sshd."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.ssh_servers import SSHD, Server, Servers, make_key

WHY = "sshd or ssh is not installed (Debian: openssh-server)"


@pytest.fixture(scope="session")
def user_key(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if SSHD is None or shutil.which("ssh") is None:
        pytest.skip(WHY)
    return make_key(tmp_path_factory.mktemp("user") / "id")


@pytest.fixture
def sshd(tmp_path: Path, user_key: Path) -> Iterator[Servers]:
    """Starts servers: `sshd("MaxStartups 2:50:4")`."""
    servers = Servers(tmp_path, user_key)
    yield servers
    servers.close()


@pytest.fixture(scope="module")
def shared_server(tmp_path_factory: pytest.TempPathFactory, user_key: Path) -> Iterator[Server]:
    """One server for tests that ask nothing special of it; they do not change its files."""
    servers = Servers(tmp_path_factory.mktemp("shared"), user_key)
    yield servers(last=3)
    servers.close()
