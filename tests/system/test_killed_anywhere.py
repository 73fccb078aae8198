"""Components that are killed again and again, at every step that another process can see: nothing stands still for it,
nothing is counted twice. One thread, so that every death is where the test wants it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from runtime.components import learner as learner_module
from runtime.components import saving
from runtime.contract.paths import RunPaths
from runtime.contract.states import Role
from runtime.in_process import InProcessRun
from runtime.memory.block import StatsBlock
from runtime.memory.board import BoardWriter
from runtime.memory.ring import Consumer, Producer, read_ledger
from runtime.replay.memory import Replay
from support.plans import make_job, make_plan

PATIENCE_TICKS = 2_000
LEARN: dict[str, dict[str, Any]] = {
    "ppo": {"algorithm": {"epochs": 1}},
    "dqn": {
        "algorithm": {"learning_starts": 128, "samples_per_insert": 2.0, "replay": {"kind": "proportional"}},
        "training": {"batch_size": 32},
    },
}


class Killed(BaseException):
    """The process ends here."""


class Death:
    """Strikes before or after every `stride`-th visible step."""

    def __init__(self, stride: int) -> None:
        self.stride = stride
        self.steps = self.struck = 0
        self.armed = False

    def step(self) -> None:
        self.steps += self.armed
        if self.armed and self.steps % self.stride == 0:
            self.struck += 1
            raise Killed

    def around(self, act: Callable[..., Any]) -> Callable[..., Any]:
        def visible(*arguments: Any, **named: Any) -> Any:
            self.step()
            result = act(*arguments, **named)
            self.step()
            return result

        return visible

    @contextmanager
    def at_hand(self) -> Iterator[None]:
        self.armed = True
        try:
            yield
        finally:
            self.armed = False


@pytest.fixture
def death(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Death:
    death = Death(request.param)
    for owner, name in ((Producer, "commit"), (Consumer, "release"), (BoardWriter, "publish"), (Replay, "insert")):
        monkeypatch.setattr(owner, name, death.around(getattr(owner, name)))
    for module in (saving, learner_module):
        monkeypatch.setattr(module, "save_part", death.around(saving.save_part))
    done = StatsBlock.checkpoint_done
    monkeypatch.setattr(StatsBlock, "checkpoint_done", property(done.fget, death.around(done.fset)))
    return death


class Mortal:
    """A run in one thread whose components die and are replaced."""

    def __init__(self, folder: Path, death: Death, learn: str, dependencies: str) -> None:
        parts = {**LEARN[learn], "training": {**LEARN[learn].get("training", {}), "dependencies": dependencies}}
        paths = RunPaths(folder / "run")
        paths.root.mkdir()
        self.run = InProcessRun(make_plan(make_job(learn, **parts), "L1A2"), paths)
        self.run.start()
        self._death = death
        self._lives = dict.fromkeys(self.run.components, 1)

    def tick(self) -> None:
        for name in tuple(self.run.components):
            try:
                with self._death.at_hand():
                    self.run.components[name].tick()
            except Killed:
                self._replace(name)

    def _replace(self, name: str) -> None:
        """A successor may be killed while it starts, too."""
        while True:
            self._lives[name] += 1
            successor = self.run.assembly.build(name, self._lives[name])
            try:
                with self._death.at_hand():
                    successor.start()
            except Killed:
                continue
            self.run.components[name] = successor
            return

    def total(self, role: Role, counter: str) -> int:
        return self.run.total(role, counter)

    def check(self) -> None:
        """The ledger balances, and what is in the replay memory is there once."""
        ledgers = {
            name: read_ledger(self.run.resources.segment(name), spec)
            for name, spec in self.run.assembly.wiring.rings.items()
        }
        assert all(ledger.in_flight >= 0 for ledger in ledgers.values())
        consumed = sum(ledger.consumed for name, ledger in ledgers.items() if name.startswith("fragments"))
        buffer: Any = self.run.components["buffer-0"]
        if hasattr(buffer, "_replay"):
            assert buffer._replay.inserted == consumed
        else:
            assert ledgers["batches.0"].produced == consumed


@pytest.mark.parametrize("death", [13, 17, 23], indirect=True)
@pytest.mark.parametrize("dependencies", ["relaxed", "policy-only", "strict"])
@pytest.mark.parametrize("learn", ["ppo", "dqn"])
def test_training_goes_on_whoever_is_killed_wherever(
    tmp_path: Path, death: Death, learn: str, dependencies: str
) -> None:
    mortal = Mortal(tmp_path, death, learn, dependencies)
    counters = ((Role.LEARNER, "updates"), (Role.LEARNER, "samples_trained"), (Role.LEARNER, "version"))
    seen, moved = [0, 0, 0], 0
    for tick in range(30_000):
        mortal.tick()
        mortal.check()
        now = [mortal.total(role, counter) for role, counter in counters]
        assert all(a <= b for a, b in zip(seen, now, strict=True)), f"{counters}: {seen} → {now}"
        if now[0] > seen[0]:
            moved = tick
        assert tick - moved < PATIENCE_TICKS, f"nothing moves any more: {now[0]} updates, {death.struck} deaths"
        seen = now
        if death.struck >= 40 and now[0] >= 40:
            break
    assert death.struck >= 40
    mortal.run.stop()


@pytest.mark.parametrize("death", [14, 19], indirect=True)
@pytest.mark.parametrize("learn", ["ppo", "dqn"])
def test_a_checkpoint_comes_about_whoever_is_killed_wherever(tmp_path: Path, death: Death, learn: str) -> None:
    mortal = Mortal(tmp_path, death, learn, "relaxed")
    needed = ("learner-0", "buffer-0")
    for step in range(1, 5):
        mortal.run.assembly.control.checkpoint_request = step
        for _ in range(PATIENCE_TICKS):
            if all(mortal.run.assembly.block(name).checkpoint_done == step for name in needed):
                break
            mortal.tick()
        else:
            raise AssertionError(f"checkpoint {step} never came about")
        folder = mortal.run.paths.checkpoints / f".tmp-{step:012d}"
        shards = {path: path.read_bytes() for path in folder.iterdir()}
        assert {f"{name}.json" for name in needed} <= {path.name for path in shards}
        for _ in range(20):
            mortal.tick()
        after = {path: path.read_bytes() for path in shards if "actor" not in path.name}
        assert all(after[path] == shards[path] for path in after), "what is said to be written is not written again"
    mortal.run.stop()
