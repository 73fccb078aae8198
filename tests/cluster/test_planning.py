"""`tianjictl plan` over real SSH hosts: told apart, met on their own network, refused where the inventory is wrong."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from support.pretend_hosts import PretendHosts
from tianjictl.cli.main import main

WORDS = ["plan", "--env", "CartPole-v1", "--algo", "ppo", "--shape", "L2A4", "--json", "-i"]


@pytest.fixture(autouse=True)
def own_state_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIANJICTL_HOME", str(tmp_path / "state"))


def planned(capsys: pytest.CaptureFixture[str], inventory: Path, code: int = 0) -> dict[str, Any]:
    assert main([*WORDS, str(inventory)]) == code
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    return document


def test_a_plan_knows_every_host_its_cores_and_its_network(pretend_hosts: PretendHosts, tmp_path: Path, capsys) -> None:
    made = {"cn02": {"tianji_max_cores": 1}, "cn03": {"tianji_roles": "actor", "tianji_link": "wan"}}
    inventory = pretend_hosts.inventory(tmp_path / "h.yaml", range(4), tianji_ports="5000-5100", **made)
    hosts = planned(capsys, inventory)["data"]["hosts"]
    assert [host["name"] for host in hosts] == pretend_hosts.names[:4]
    assert {host["network"] for host in hosts} == {pretend_hosts.network}
    assert {tuple(host["ports"]) for host in hosts} == {(5000, 5100)}
    assert len(hosts[1]["cores"]) == 1
    assert (hosts[2]["roles"], hosts[2]["wan"]) == (["actor"], True)


def test_without_a_network_hosts_take_the_one_on_which_they_meet_the_head(
    pretend_hosts: PretendHosts, tmp_path: Path, capsys
) -> None:
    inventory = pretend_hosts.inventory(tmp_path / "h.yaml", range(3), tianji_network=None)
    document = planned(capsys, inventory)
    assert {host["network"] for host in document["data"]["hosts"]} == {pretend_hosts.network}
    told = f"cn02: no tianji_network; it takes {pretend_hosts.network} by eth0, {pretend_hosts.address(1)}"
    assert told in document["warnings"]


def test_two_names_for_one_host_are_refused_with_both(pretend_hosts: PretendHosts, tmp_path: Path, capsys) -> None:
    again = {"cn03": {"ansible_host": pretend_hosts.address(1)}}
    document = planned(capsys, pretend_hosts.inventory(tmp_path / "h.yaml", range(4), **again), code=2)
    where = pretend_hosts.address(1)
    assert f"hosts cn02 ({where}) and cn03 ({where}) are one machine" in document["errors"][0]["message"]


def test_a_host_outside_its_network_is_named_with_the_addresses_it_has(
    pretend_hosts: PretendHosts, tmp_path: Path, capsys
) -> None:
    inventory = pretend_hosts.inventory(tmp_path / "h.yaml", range(2), cn02={"tianji_network": "203.0.113.0/24"})
    (error,) = planned(capsys, inventory, code=2)["errors"]
    assert error["message"].startswith("cn02: it has no address in its tianji_network 203.0.113.0/24")
    assert f"{pretend_hosts.address(1)} (eth0)" in error["message"]


def test_a_host_that_is_off_is_named_and_nothing_is_planned(
    pretend_hosts: PretendHosts, tmp_path: Path, capsys
) -> None:
    pretend_hosts.power_off(1)
    inventory = pretend_hosts.inventory(tmp_path / "h.yaml", range(3), ansible_ssh_timeout=1)
    (error,) = planned(capsys, inventory, code=4)["errors"]
    assert error["message"].startswith("cn02: connect: ")
