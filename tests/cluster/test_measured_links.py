"""Links between real SSH hosts: measured by both ends, kept, and told apart from each other."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import runtime
from support.pretend_hosts import PretendHosts
from tianjictl.launching.fleet import Fleet
from tianjictl.launching.measured_links import Ground, measure_links
from tianjictl.profiling.links import host_mb_per_s
from tianjictl.profiling.nodes import look_at


@pytest.fixture(autouse=True)
def own_state_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIANJICTL_HOME", str(tmp_path / "state"))


def test_a_slow_cable_shows_in_the_links_of_its_host_alone_and_what_is_known_is_not_measured_again(
    pretend_hosts: PretendHosts,
) -> None:
    hosts = [host for host in pretend_hosts.hosts() if host.name in ("cn01", "cn02", "cn03")]
    pretend_hosts.netem(2, rate_mbit=80, delay_ms=20)
    told: list[str] = []
    with Fleet({host.name: host for host in hosts}) as fleet:
        assert fleet.reach(progress=told.append) == {}
        nodes = look_at(hosts, fleet.connections)
        networks = dict.fromkeys(("cn01", "cn02", "cn03"), pretend_hosts.network)
        path = str(Path(runtime.__file__).parents[1])
        grounds = {
            host.name: Ground(sys.executable, path, str(pretend_hosts.workdir(number)))
            for number, host in enumerate(hosts)
        }
        arguments = (nodes, "cn01", networks, fleet.connections, grounds)
        links, failures = measure_links(*arguments, progress=told.append)
        assert failures == ()
        again, _ = measure_links(*arguments, progress=told.append)
    assert again == links
    assert len([line for line in told if line.startswith("measuring the link")]) == 3, "three pairs of three hosts"
    assert {(link.source, link.target) for link in links} == {
        (a.name, b.name) for a in hosts for b in hosts if a is not b
    }
    slow = host_mb_per_s(links, "cn03")
    quick = host_mb_per_s(links, "cn01")
    assert slow is not None
    assert quick is not None
    assert 3 < slow < 12, "80 Mbit/s are 10 MB/s"
    assert quick > 3 * slow
    for link in links:
        assert (link.rtt_s.median > 0.02) == ("cn03" in (link.source, link.target))
    assert not list(pretend_hosts.workdir(0).glob(".link-*")), "no secret stays behind"
