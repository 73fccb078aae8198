"""Four pretend hosts for the tests of this folder; skipped, with the reason, where there can be none."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.pretend_hosts import PretendHosts, why_not

HOSTS = 4
_HERE = Path(__file__).parent


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "cluster: on pretend hosts, with real SSH between them (root)")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if _HERE in item.path.parents:
            item.add_marker("cluster")


@pytest.fixture(scope="session")
def pretend_hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PretendHosts]:
    """The hosts, up; `up` makes more of them. After each test they are on, connected and fast again."""
    reason = why_not()
    if reason is not None:
        pytest.skip(reason)
    hosts = PretendHosts(tmp_path_factory.mktemp("hosts"))
    try:
        hosts.up(HOSTS)
        yield hosts
    finally:
        hosts.close()


@pytest.fixture(autouse=True)
def _well_again(request: pytest.FixtureRequest) -> Iterator[None]:
    yield
    if "pretend_hosts" in request.fixturenames:
        request.getfixturevalue("pretend_hosts").restore()
