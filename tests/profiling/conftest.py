"""A real SSH server for the tests that want one; skipped, with the reason, where there is no sshd."""

from __future__ import annotations

import shutil
from collections.abc import Iterator

import pytest

from support.ssh_servers import SSHD, Server, Servers, make_key


@pytest.fixture(scope="module")
def ssh_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One server for tests that ask nothing special of it; they do not change its files."""
    if SSHD is None or shutil.which("ssh") is None:
        pytest.skip("sshd or ssh is not installed (Debian: openssh-server)")
    folder = tmp_path_factory.mktemp("ssh")
    servers = Servers(folder, make_key(folder / "id"))
    yield servers(last=4)
    servers.close()
