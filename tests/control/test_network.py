"""Which address a node listens at."""

from __future__ import annotations

import importlib.metadata

import pytest

from runtime.contract import version
from runtime.control.network import NetworkError, address_in


def test_a_run_of_one_machine_stays_on_loopback() -> None:
    assert address_in(None) == ("127.0.0.1", "lo")


def test_the_address_inside_the_network_is_found_with_its_device() -> None:
    assert address_in("127.0.0.0/8") == ("127.0.0.1", "lo")
    assert address_in("127.0.0.1/8") == ("127.0.0.1", "lo"), "an address with its prefix length names the network, too"


def test_a_machine_outside_the_network_says_what_addresses_it_has() -> None:
    with pytest.raises(NetworkError, match=r"no address in 203\.0\.113\.0/24; it has .*127\.0\.0\.1 \(lo\)"):
        address_in("203.0.113.0/24")
    with pytest.raises(NetworkError, match="no network such as"):
        address_in("my cluster")


def test_a_program_that_was_copied_knows_its_version_from_its_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    assert version.installed_version() == importlib.metadata.version("tianjictl")

    def missing(_name: str) -> str:
        raise importlib.metadata.PackageNotFoundError

    monkeypatch.setattr(version, "version", missing)
    monkeypatch.setenv("TIANJI_VERSION", "9.8.7")
    assert version.installed_version() == "9.8.7"
    monkeypatch.delenv("TIANJI_VERSION")
    assert version.installed_version() == "unknown"
