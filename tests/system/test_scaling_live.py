"""A training on this machine is scaled while it trains, with the command that an operator types."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from runtime.contract.states import Role
from runtime.contract.view import RunView
from support.running import ENDLESS, PATIENT, LiveRun, tianjictl

JOB = Path(__file__).parents[2] / "playbooks" / "train" / "cartpole-ppo.yaml"
SLOW = "env.delay_us=5000"  #: a simulator that leaves the cores to others, so that more actors make more samples


@pytest.fixture
def run(tmp_path: Path) -> Iterator[LiveRun]:
    live = LiveRun(tmp_path, JOB, *ENDLESS, PATIENT, SLOW, "env.num_envs=16", "training.batch_size=512")
    try:
        live.wait_for_updates(2)
        yield live
    finally:
        live.stop()


class Onlooker:
    """Looks at the run all the while."""

    def __init__(self, run: LiveRun) -> None:
        self._run = run
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look)
        self.views: list[RunView] = []

    def __enter__(self) -> Onlooker:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._over.wait(0.05):
            self.views.append(self._run.view())


def scale(run: LiveRun, shape: str) -> dict[str, object]:
    return json.loads(tianjictl(run.home, "scale", run.run_id, shape, "--yes", "--json").stdout)["data"]


def shape_of(view: RunView) -> str:
    roles = [component.role for component in view.components]
    return f"L{roles.count(Role.LEARNER)}A{roles.count(Role.ACTOR)}"


def test_a_run_grows_and_shrinks_while_it_trains_and_its_account_stays_exact(run):
    first = run.view()
    with Onlooker(run) as onlooker:
        for shape in ("L1A3", "L2A4", "L1A1", "L2A2"):
            data = scale(run, shape)
            assert (data["applied"], data["shape_after"]) == (True, shape)
            assert shape_of(run.view()) == shape
            run.wait_for_updates(3)
    last = run.view()
    names = {component.name for view in onlooker.views for component in view.components}
    assert {name for name in names if name.startswith("learner")} == {"learner-0", "learner-1", "learner-2"}
    staying = {component.name: component.pid for component in first.components if component.role is Role.ACTOR}
    assert {c.name: c.pid for c in last.components if c.name in staying} == staying
    for before, after in zip(onlooker.views, onlooker.views[1:], strict=False):
        assert after.progress.env_steps >= before.progress.env_steps
        assert after.progress.updates >= before.progress.updates
        samples = after.samples
        parts = samples.consumed + samples.dropped_stale + samples.dropped_other + samples.in_flight
        assert samples.produced == parts
    assert last.samples.dropped_other == 0
    assert not run.events("component.died")
