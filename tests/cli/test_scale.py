"""Scaling from the command line: what is shown, asked, sent and waited for. The answers are a real coordinator's."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from runtime.contract.arrangement import settle
from runtime.contract.operator import Reply, ScaleRequest
from runtime.contract.plan import HostPlan, Plan
from runtime.contract.states import ComponentState, RunState
from runtime.contract.view import ComponentView, HostView, ShapeView
from runtime.control.scaling import answer
from support.arranged import nodes, plan_over
from tianjictl.cli import scale as command
from tianjictl.errors import Unreachable
from tianjictl.hosts.types import Inventory
from tianjictl.launching import cluster

INVENTORY = """
all:
  hosts:
    tj1: {ansible_connection: local}
    tj2: {ansible_host: 192.0.2.2}
    tj9: {ansible_host: 192.0.2.9}
"""


class Scaled:
    """A run over two nodes that does what it is asked, at once or never."""

    def __init__(self, run, plan: Plan) -> None:
        self.run, self.plan, self.obeys = run, plan, True
        self.lost: tuple[str, ...] = ()
        run.on_scale = self.on_scale
        run.serve()
        self.show()

    def on_scale(self, request: ScaleRequest) -> Reply:
        found = answer(request, self.plan, state=RunState.RUNNING, away=frozenset(self.lost))
        if found.plan is not None and self.obeys:
            self.plan = settle(found.plan)
            self.show()
        return found.reply

    def show(self) -> None:
        self.run.show(
            shape=ShapeView(wanted=self.plan.shape, present=self.plan.shape),
            components=tuple(
                ComponentView(name=p.name, role=p.role, host=p.host, state=ComponentState.RUNNING)
                for p in self.plan.placements
            ),
            hosts=tuple(HostView(name=name, state="lost") for name in self.lost),
        )

    @property
    def asked(self) -> list[ScaleRequest]:
        return [request for request in self.run.requests if isinstance(request, ScaleRequest)]


@pytest.fixture
def scaled(run) -> Scaled:
    return Scaled(run, plan_over(nodes(4, 4), "L1A4"))


@pytest.fixture
def inventory(tmp_path: Path) -> str:
    file = tmp_path / "hosts.yaml"
    file.write_text(INVENTORY)
    return str(file)


@pytest.fixture
def joining(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """What is done to hosts that join; no host is reached."""
    done: list[tuple[str, str]] = []

    def add_nodes(
        _run: object, hosts: Inventory, names: Sequence[str], _say: Callable[[str], None], *, dry_run: bool = False
    ) -> tuple[HostPlan, ...]:
        assert all(hosts.find(name) is not None for name in names)
        done.extend(("look" if dry_run else "add", name) for name in names)
        return tuple(HostPlan(name=name, cores=(0, 1, 2, 3)) for name in names)

    def start_nodes(_run: object, names: Sequence[str], _say: Callable[[str], None]) -> None:
        done.extend(("start", name) for name in names)

    monkeypatch.setattr(cluster, "add_nodes", add_nodes)
    monkeypatch.setattr(cluster, "start_nodes", start_nodes)
    return done


def test_the_difference_is_shown_and_made(scaled, tianjictl):
    code, out, _ = tianjictl("scale", scaled.run.run_id, "L2A4", "--yes")
    assert code == 0
    lines = out.splitlines()
    assert lines[0] == "L1A4 → L2A4"
    assert {"+ learner-1 on tj2", "+ buffer-1 on tj2", "- actor-3 on tj2"} <= set(lines)
    assert "~ 4 components go on where they are" in lines
    assert lines[-1].startswith(f"{scaled.run.run_id} is L2A4 after ")
    assert [request.dry_run for request in scaled.asked] == [True, False]
    assert scaled.plan.shape == "L2A4"


def test_a_dry_run_only_shows(scaled, tianjictl, joining, inventory):
    code, out, _ = tianjictl("scale", scaled.run.run_id, "L2A9", "--add-host", "tj9", "-i", inventory, "--dry-run")
    assert code == 0
    assert "+ host tj9" in out
    assert out.splitlines()[-1] == "nothing was changed"
    assert [request.dry_run for request in scaled.asked] == [True]
    assert joining == [("look", "tj9")]


def test_without_a_terminal_it_does_not_ask_and_does_nothing(scaled, tianjictl):
    code, _, err = tianjictl("scale", scaled.run.run_id, "L2A4")
    assert code == 2
    assert "--yes" in err
    assert scaled.plan.shape == "L1A4"


def test_json_is_one_document(scaled, tianjictl):
    code, out, _ = tianjictl("scale", scaled.run.run_id, "L1A6", "--yes", "--json")
    assert code == 0
    data = json.loads(out)["data"]
    assert (data["shape_before"], data["shape_after"], data["applied"]) == ("L1A4", "L1A6", True)
    assert len(data["starts"]) == 2


def test_a_run_that_is_as_wanted_is_left_alone(scaled, tianjictl):
    code, out, _ = tianjictl("scale", scaled.run.run_id, "L1A4")
    assert code == 0
    assert "is as wanted already" in out
    assert [request.dry_run for request in scaled.asked] == [True]


def test_a_shape_that_does_not_fit_ends_with_3_and_the_nearest_that_does(scaled, tianjictl):
    code, _, err = tianjictl("scale", scaled.run.run_id, "L2A8", "--yes")
    assert code == 3
    assert "hint: L2A6 is the nearest shape that fits" in err


@pytest.mark.usefixtures("joining")
def test_what_the_coordinator_refuses_has_a_code_and_a_way_out(scaled, tianjictl, inventory):
    code, _, err = tianjictl("scale", scaled.run.run_id, "--remove-host", "tj7", "--yes")
    assert (code, "hint: its nodes are tj1, tj2" in err) == (2, True)
    code, _, err = tianjictl("scale", scaled.run.run_id, "--add-host", "tj1", "-i", inventory, "--yes")
    assert (code, "hint: leave out --add-host tj1" in err) == (2, True)
    scaled.plan = plan_over(nodes(4, 4), "L1A4", elastic={"min": "L1A2"})
    code, _, err = tianjictl("scale", scaled.run.run_id, "L1A1", "--yes")
    assert (code, "hint: the nearest shape that the job allows is L1A2" in err) == (3, True)


@pytest.mark.usefixtures("joining")
def test_a_lost_host_is_told_before_it_comes_back_and_after_a_scale_without_it(scaled, tianjictl, inventory):
    scaled.lost = ("tj2",)
    scaled.show()
    code, out, err = tianjictl("scale", scaled.run.run_id, "L1A3", "--yes")
    assert code == 0
    assert "tj2 is lost" in err
    out = tianjictl("scale", scaled.run.run_id, "--add-host", "tj2", "-i", inventory, "--dry-run")[1]
    assert "+ host tj2, back with what it ran" in out


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ((), "nothing to change"),
        (("4x16",), "is not a shape"),
        (("L2A4", "--add-host", "tj9", "--remove-host", "tj9"), "at once"),
        (("--add-host", "tj9"), "pass -i INVENTORY"),
    ],
)
def test_what_makes_no_sense_is_refused_before_anybody_is_asked(scaled, tianjictl, words, told, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    code, _, err = tianjictl("scale", scaled.run.run_id, *words)
    assert code == 2
    assert told in err
    assert scaled.run.requests == []


def test_a_host_joins_before_it_is_counted_on_and_its_agent_starts_after_that(scaled, tianjictl, joining, inventory):
    code, out, _ = tianjictl("scale", scaled.run.run_id, "L2A9", "--add-host", "tj9", "-i", inventory, "--yes")
    assert code == 0
    assert "+ learner-1 on tj9" in out
    assert joining == [("look", "tj9"), ("add", "tj9"), ("start", "tj9")]
    assert scaled.asked[-1].add == (HostPlan(name="tj9", cores=(0, 1, 2, 3)),)


@pytest.mark.usefixtures("joining")
def test_a_host_whose_agent_does_not_start_is_named_with_the_way_back(scaled, tianjictl, inventory, monkeypatch):
    def start_nodes(_run: object, names: Sequence[str], _say: Callable[[str], None]) -> None:
        raise Unreachable(f"{names[0]} does not answer")

    monkeypatch.setattr(cluster, "start_nodes", start_nodes)
    code, _, err = tianjictl("scale", scaled.run.run_id, "--add-host", "tj9", "-i", inventory, "--yes")
    assert code == 4
    assert "tj9 joined" in err
    assert f"hint: tianjictl scale {scaled.run.run_id} L1A4 --remove-host tj9" in err


def test_a_host_is_left(scaled, tianjictl):
    code, out, _ = tianjictl("scale", scaled.run.run_id, "L1A3", "--remove-host", "tj2", "--yes")
    assert code == 0
    assert "- host tj2" in out
    assert [host.name for host in scaled.plan.hosts] == ["tj1"]


def test_who_does_not_come_in_time_is_named(scaled, tianjictl, monkeypatch):
    monkeypatch.setattr(command, "_PRESENT_WITHIN_S", 0.3)
    scaled.obeys = False
    code, _, err = tianjictl("scale", scaled.run.run_id, "L1A5", "--yes")
    assert code == 124
    assert "actor-4 (not there)" in err


def test_a_run_that_is_over_is_not_scaled_but_may_be_resumed_as_another(scaled, tianjictl):
    scaled.run.complete(RunState.COMPLETED, "475 reached")
    code, _, err = tianjictl("scale", scaled.run.run_id, "L1A5")
    assert code == 2
    assert "is over (completed: 475 reached)" in err
    assert f"hint: tianjictl resume {scaled.run.run_id} --from-checkpoint --shape L1A5" in err
    assert scaled.asked == []


def test_a_run_that_ends_meanwhile_is_no_success(scaled, tianjictl):
    def fail(request: ScaleRequest) -> Reply:
        if not request.dry_run:
            scaled.run.complete(RunState.FAILED, "no actor is left")
        return scaled.on_scale(request)

    scaled.obeys = False
    scaled.run.on_scale = fail
    code, _, err = tianjictl("scale", scaled.run.run_id, "L1A5", "--yes")
    assert code == 6
    assert "no actor is left" in err
