"""The life of one component, told event by event to the pure machine."""

from __future__ import annotations

from runtime.contract.job import HealthConfig
from runtime.contract.states import ComponentState as S
from runtime.contract.states import Phase, Role
from runtime.control.component_life import Beat, Effect, Event, Exited, Life, Log, Spawn, Spawned, Start, Tick
from runtime.control.component_machine import step

HEALTH = HealthConfig(init=60, steady=3, checkpoint=120, restarts=4, restart_window=100, stop_grace=5)


class Story:
    """Feeds one life and keeps what the agent was told to do."""

    def __init__(self, health: HealthConfig = HEALTH) -> None:
        self.life = Life.of("actor-0", Role.ACTOR, health)
        self.now = 100.0
        self.beat = 0
        self.pid = 1000

    def tell(self, event: Event) -> list[Effect]:
        self.life, effects = step(self.life, event, now=self.now)
        return effects

    @property
    def state(self) -> S:
        return self.life.state

    def tick(self, after: float = 0.05) -> list[Effect]:
        """Let time pass in agent-sized steps, as a real agent would."""
        effects: list[Effect] = []
        end = self.now + after
        while self.now < end:
            self.now = min(end, self.now + 0.5)
            effects += self.tell(Tick(id="t"))
        return effects

    def alive(self, phase: Phase = Phase.STEADY) -> None:
        self.beat += 1
        self.tell(Beat(id="b", phase=phase, beat=self.beat, attempt=self.life.attempt))

    def spawned(self) -> None:
        self.pid += 1
        self.tell(Spawned(id="s", pid=self.pid))

    def run(self, working_s: float = 0.0) -> None:
        self.spawned()
        self.alive(Phase.INIT)
        self.alive()
        for _ in range(int(working_s)):
            self.tick(1.0)
            self.alive()

    def die(self, status: int = -9, report: str | None = None) -> list[Effect]:
        return self.tell(Exited(id="x", status=status, report=report))


def started(working_s: float = 0.0, health: HealthConfig = HEALTH) -> Story:
    story = Story(health)
    assert story.tell(Start(id="go")) == [Spawn(attempt=1, cause="go")]
    story.run(working_s)
    return story


def kinds(effects: list[Effect]) -> list[str]:
    return [e.kind if isinstance(e, Log) else type(e).__name__ for e in effects]
