"""What dies while a training runs over four hosts, and how the rest goes on."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from support.cluster_runs import STEADY, Look, Operator, Watcher, in_time, nothing_left, socket_of
from support.pretend_hosts import PretendHosts, wait

pytestmark = pytest.mark.timeout(300)


JOB = {"name": "steady", **STEADY, "training": {"stop": {"wall_time": "1h"}}}


@pytest.fixture(scope="module")
def operator(tmp_path_factory: pytest.TempPathFactory, pretend_hosts: PretendHosts) -> Operator:
    folder = tmp_path_factory.mktemp("operator")
    return Operator(folder / "home", pretend_hosts.inventory(folder / "hosts.yaml", range(4)))


@dataclass
class Steady:
    """A training over four hosts that goes from test to test for as long as each leaves it whole."""

    hosts: PretendHosts
    operator: Operator
    run: str | None = None

    def whole(self) -> str:
        """The run of the test before, or a new one where there is none that has all it began with."""
        if self.run is not None and not self._is_whole(self.run):
            self.end()
        if self.run is None:
            path = self.operator.home.parent / "steady.yaml"
            path.write_text(yaml.safe_dump(JOB, sort_keys=False))
            self.run = self.operator.launch(path)
        return self.run

    def _is_whole(self, run: str) -> bool:
        view = self.operator.status(run)
        return bool(view["state"] == "running" and view["shape"]["present"] == "L2A8" and Look(0.0, view).linked)

    def end(self) -> None:
        """With a look whether anything is left."""
        if self.run is not None:
            run, self.run = self.run, None
            self.operator.type("stop", run, "--yes")
            assert nothing_left(self.hosts, run)


@pytest.fixture(scope="module")
def steady(operator: Operator, pretend_hosts: PretendHosts) -> Iterator[Steady]:
    made = Steady(pretend_hosts, operator)
    yield made
    made.end()


@pytest.fixture
def run(request: pytest.FixtureRequest, steady: Steady, pretend_hosts: PretendHosts) -> Iterator[str]:
    """A training over four hosts that is well under way; nobody takes it over from a test that has failed."""
    failed = request.session.testsfailed
    yield steady.whole()
    pretend_hosts.restore()
    if request.session.testsfailed > failed:
        steady.end()


def under_way(watcher: Watcher) -> Look:
    return watcher.until(lambda look: look.view["state"] == "running" and look.updates > 20, "it trains", 60)


def actors_only(look: Look, hosts: PretendHosts) -> int:
    """A host without a learner."""
    homes = {c["host"] for c in look.view["components"] if c["role"] == "learner"}
    return next(number for number in range(1, 4) if hosts.name(number) not in homes)


def test_a_host_without_power_is_missed_at_once_and_used_again_when_it_is_back(
    pretend_hosts: PretendHosts, operator: Operator, run: str
) -> None:
    with Watcher(socket_of(pretend_hosts, run)) as watcher:
        number = actors_only(under_way(watcher), pretend_hosts)
        name = pretend_hosts.name(number)
        off = time.monotonic()
        pretend_hosts.power_off(number)
        lost = watcher.until(lambda look: look.hosts()[name] == "lost", "it is missed", 6)
        assert in_time(lost.at - off, 3.2, "lost")
        told = watcher.until(lambda look: name in look.view["reason"], "the reason names it", 3)
        assert in_time(told.at - off, 5, "told")
        time.sleep(3)
        assert watcher.kept_updating(off - 1, 1.0)
        pretend_hosts.power_on(number)
        back = operator.type("scale", run, "L2A8", "--add-host", name, "--yes")
        assert back.returncode == 0, back.stderr
        again = watcher.until(
            lambda look: look.view["state"] == "running" and look.view["shape"]["present"] == "L2A8",
            "it is used again",
            30,
        )
        assert any(c["host"] == name and c["role"] == "actor" for c in again.view["components"])
        assert all(look.balanced for look in watcher.looks)
        assert watcher.never_back()


def test_without_a_host_that_had_a_learner_its_actors_elsewhere_join_the_other_learner(
    pretend_hosts: PretendHosts, operator: Operator, tmp_path: Path
) -> None:
    path = tmp_path / "job.yaml"
    job = {**STEADY, "elastic": {"min": "L1A2", "max": "L4A16", "regroup_after": "1s"}}
    path.write_text(yaml.safe_dump({"name": "regrouped", **job}, sort_keys=False))
    run = operator.launch(path)
    with Watcher(socket_of(pretend_hosts, run)) as watcher:
        before = under_way(watcher)
        homes = {c["name"]: c["host"] for c in before.view["components"] if c["role"] == "learner"}
        name = homes["learner-1"]
        number = pretend_hosts.names.index(name)
        assert number != 0, "the head keeps the first learner"
        off = time.monotonic()
        pretend_hosts.power_off(number)
        told = watcher.until(lambda look: name in look.view["reason"], "the reason names it", 6)
        assert in_time(told.at - off, 3.5, "told")
        again = watcher.until(
            lambda look: any(event["kind"] == "plan.revised" for event in look.view["events"]), "it is planned anew", 6
        )
        assert in_time(again.at - off, 5, "again")
        time.sleep(3)
        assert watcher.kept_updating(off - 1, 1.0)
        pretend_hosts.power_on(number)
        back = operator.type("scale", run, "L2A8", "--add-host", name, "--yes")
        assert back.returncode == 0, back.stderr
        watcher.until(
            lambda look: look.view["state"] == "running" and look.view["shape"]["present"] == "L2A8",
            "all are there",
            30,
        )
        assert all(look.balanced for look in watcher.looks)
        assert watcher.never_back()
    assert operator.type("stop", run, "--yes").returncode == 0
    assert nothing_left(pretend_hosts, run)


def test_a_link_that_is_cut_for_ten_seconds_costs_no_component_and_no_sample(
    pretend_hosts: PretendHosts, run: str
) -> None:
    with Watcher(socket_of(pretend_hosts, run)) as watcher:
        before = under_way(watcher)
        number = actors_only(before, pretend_hosts)
        pids = {c["name"]: c["pid"] for c in before.view["components"] if c["role"] != "courier"}
        cut = time.monotonic()
        pretend_hosts.cut(number)
        time.sleep(10)
        pretend_hosts.mend(number)
        after = watcher.until(
            lambda look: look.at > cut + 10 and look.view["state"] == "running"
            and look.linked,
            "it is whole again", 20,
        )  # fmt: skip
        assert {c["name"]: c["pid"] for c in after.view["components"] if c["role"] != "courier"} == pids
        assert watcher.kept_updating(cut - 1, 1.0)
        assert all(look.balanced for look in watcher.looks)
        assert after.view["samples"]["dropped_other"] == before.view["samples"]["dropped_other"]


def test_a_frozen_host_is_missed_and_takes_part_again_when_it_goes_on(pretend_hosts: PretendHosts, run: str) -> None:
    with Watcher(socket_of(pretend_hosts, run)) as watcher:
        number = actors_only(under_way(watcher), pretend_hosts)
        name = pretend_hosts.name(number)
        frozen = time.monotonic()
        pretend_hosts.signal(number, run, signal.SIGSTOP)
        lost = watcher.until(lambda look: look.hosts()[name] == "lost", "it is missed", 6)
        assert in_time(lost.at - frozen, 3.2, "lost")
        time.sleep(4)
        assert watcher.kept_updating(frozen - 1, 1.0)
        pretend_hosts.signal(number, run, signal.SIGCONT)
        watcher.until(
            lambda look: look.view["state"] == "running" and look.view["shape"]["present"] == "L2A8", "it is back", 30
        )
        assert all(look.balanced for look in watcher.looks)


def kill_one(hosts: PretendHosts, number: int, run: str, name: str) -> None:
    """SIGKILL to the process of the run on a host that is called so, or has that in its command line."""
    for pid in hosts.processes_of(number, run):
        called = Path(f"/proc/{pid}/comm").read_text().strip()
        typed = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
        if called.startswith(name) or name in typed:
            os.kill(pid, signal.SIGKILL)
            return
    raise AssertionError(f"no {name} on {hosts.name(number)}")


def test_a_killed_courier_is_replaced_and_nothing_is_lost(pretend_hosts: PretendHosts, run: str) -> None:
    with Watcher(socket_of(pretend_hosts, run)) as watcher:
        before = under_way(watcher)
        number = actors_only(before, pretend_hosts)
        killed = time.monotonic()
        kill_one(pretend_hosts, number, run, "courier.")
        after = watcher.until(
            lambda look: look.at > killed + 1 and look.view["state"] == "running"
            and look.linked,
            "the link is up again", 15,
        )  # fmt: skip
        assert watcher.kept_updating(killed - 1, 1.0)
        assert all(look.balanced for look in watcher.looks)
        assert after.view["samples"]["dropped_other"] == before.view["samples"]["dropped_other"]


def test_a_killed_agent_is_followed_by_another_and_the_host_takes_part_again(
    pretend_hosts: PretendHosts, run: str
) -> None:
    with Watcher(socket_of(pretend_hosts, run)) as watcher:
        number = actors_only(under_way(watcher), pretend_hosts)
        killed = time.monotonic()
        kill_one(pretend_hosts, number, run, "runtime agent")
        watcher.until(
            lambda look: look.at > killed + 1 and look.view["state"] == "running"
            and look.view["shape"]["present"] == "L2A8", "the host takes part again", 30,
        )  # fmt: skip
        assert watcher.kept_updating(killed - 1, 1.0)
        assert all(look.balanced for look in watcher.looks)


def test_a_killed_coordinator_is_followed_by_another_that_knows_everything(
    pretend_hosts: PretendHosts, run: str
) -> None:
    with Watcher(socket_of(pretend_hosts, run)) as watcher:
        under_way(watcher)
        killed = time.monotonic()
        kill_one(pretend_hosts, 0, run, "runtime coordinator")
        watcher.until(lambda look: look.at > killed + 0.5, "a successor answers", 10)
        after = watcher.until(
            lambda look: look.view["state"] == "running" and look.view["shape"]["present"] == "L2A8",
            "all are known",
            15,
        )
        assert set(after.hosts().values()) == {"connected"}
        assert watcher.never_back()


def test_when_the_head_is_lost_the_rest_leaves_and_the_run_goes_on_from_another_hosts_checkpoint(
    pretend_hosts: PretendHosts, operator: Operator, tmp_path: Path
) -> None:
    path = tmp_path / "job.yaml"
    training = {"stop": {"reward": 475, "wall_time": "3m"}}
    job = {
        **STEADY,
        "env": {"id": "CartPole-v1", "delay_us": 3000},
        "training": training,
        "health": {"orphan_timeout": "4s"},
    }
    path.write_text(yaml.safe_dump({"name": "headless", **job, "checkpoint": {"every": "1s"}}, sort_keys=False))
    run = operator.launch(path)
    with Watcher(socket_of(pretend_hosts, run)) as watcher:
        kept = watcher.until(lambda look: look.view["checkpoints"]["complete"] >= 2, "there are checkpoints", 40)
    pretend_hosts.power_off(0)
    others = range(1, pretend_hosts.count)
    wait(lambda: all(pretend_hosts.processes_of(n, run) == [] for n in others), "everybody left", 40)
    done = operator.type("resume", run, "--from-checkpoint", "--yes", "-d", within_s=120)
    assert done.returncode == 0, done.stderr
    end = time.monotonic() + 180
    while time.monotonic() < end and (shown := operator.status(run))["state"] not in ("completed", "failed", "stopped"):
        time.sleep(1)
    assert shown["state"] == "completed", shown["reason"]
    assert shown["progress"]["env_steps"] > kept.view["progress"]["env_steps"] // 2
    assert shown["reward"]["best_mean_100"] >= 475
