"""RunView: the one picture of a run that status, the terminal UI and the metrics are made from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Protocol

from pydantic import Field

from runtime.contract.model import View
from runtime.contract.rates import HostRates
from runtime.contract.states import ComponentState, Role, RunState


class ShapeView(View):
    wanted: str
    present: str


class Progress(View):
    env_steps: int = 0
    updates: int = 0
    episodes: int = 0
    version: int = 0


class Reward(View):
    mean_100: float | None = None  #: mean return of the newest 100 episodes; none before 100 have ended
    best_mean_100: float | None = None
    episodes: int = 0
    mean: float | None = None  #: mean of what there is, also before 100 episodes
    history: tuple[tuple[float, float], ...] = ()  #: (elapsed seconds, mean return), at most 240 points
    evaluation_mean: float | None = None  #: newest evaluator result
    evaluation_version: int | None = None


class Rates(View):
    """Over 10 s, or since the start where that is shorter; over up to 30 s where what grows does so in rare leaps."""

    env_steps_per_s: float = 0.0
    samples_per_s: float = 0.0
    updates_per_s: float = 0.0


class Predicted(View):
    """What the plan of the present shape expects; absent where nothing was measured."""

    env_steps_per_s: float | None = None
    samples_per_s: float | None = None
    updates_per_s: float | None = None
    bottleneck: str | None = None  #: the side that the plan expects to limit
    explanation: tuple[str, ...] = ()  #: sentences of the plan, the most important first


class Lag(View):
    mean: float = 0.0
    p50: int = 0
    p95: int = 0
    max: int = 0


class Freshness(View):
    pool_ratio: float = 0.0
    flow_ratio: float = 0.0
    version_lag: Lag = Lag()
    staleness_ratio: float = 0.0
    lag_bins: tuple[
        tuple[int, int], ...
    ] = ()  #: (smallest lag of the bin, samples) over the window, empty bins left out


class Samples(View):
    """The ledger: produced = consumed + dropped_stale + dropped_other + in_flight, at any moment."""

    produced: int = 0
    consumed: int = 0
    dropped_stale: int = 0
    dropped_other: int = 0
    in_flight: int = 0


class Bottleneck(View):
    side: str = "unknown"  #: `actors`, `receiver`, `learner` or `unknown`
    t_sp_s: float | None = None
    t_rv_s: float | None = None
    n_actors: int = 0
    advice: str = ""


class Drift(View):
    """Measured rates beside predicted ones; absent until both are known and steady."""

    ratio: float | None = None  #: measured / predicted samples per second
    drifting: bool = False  #: it has been beyond the threshold for some time
    reason: str = ""  #: whose cost has changed, in words


class HostCosts(View):
    """What components cost on one host, as this run has measured it; goes back into the profile."""

    host: str
    rates: HostRates
    profile_key: str | None = None  #: of the profile that it belongs to
    num_envs: int | None = None  #: environments per actor and samples per update, with which it was measured
    batch_size: int | None = None


class Advice(View):
    """A better shape for this run, by the rates that it measures."""

    shape: str
    reason: str
    gain: float | None = None  #: predicted: 0.25 is a quarter more samples per second
    command: str = ""  #: what an operator types to have it


class Checkpoints(View):
    last_step: int | None = None
    last_age_s: float | None = None
    complete: int = 0
    failed_in_a_row: int = 0  #: since the last complete one
    problem: str = ""  #: why the newest of those failed
    hint: str = ""  #: what helps against it


class Gauged(Protocol):
    """What a component says of itself, as reported or as shown."""

    @property
    def state(self) -> ComponentState: ...

    @property
    def gauges(self) -> Mapping[str, float]: ...


def mean_gauge(components: Iterable[Gauged], name: str) -> float | None:
    """Mean over the working components that have set this gauge; none where none has."""
    values = [c.gauges[name] for c in components if c.state is ComponentState.RUNNING and name in c.gauges]
    return sum(values) / len(values) if values else None


class ComponentView(View):
    name: str
    role: Role
    host: str
    pid: int | None = None
    cores: tuple[int, ...] = ()
    state: ComponentState
    reason: str = ""
    attempt: int = 0
    restarts: int = 0
    heartbeat_age_s: float | None = None
    cpu_percent: float | None = None
    waiting_percent: float = 0.0  #: of the time: it was ready to run, and its core was another's
    throttled_percent: float = 0.0  #: of the time: it was ready to run, and a quota of CPU time was used up
    rss_bytes: int | None = None
    gauges: dict[str, float] = Field(default_factory=dict)  #: loss, entropy, epsilon, busy share, …


class HostView(View):
    name: str
    state: str  #: `waiting` (not heard of yet), `connected`, `lost`; of a run that is over `ended` or `lost`
    heartbeat_age_s: float | None = None
    clock_offset_s: float | None = None  #: its clock minus the head's; shown, never used
    reason: str = ""
    cores: tuple[int, ...] = ()
    head: bool = False


class LinkView(View):
    source: str
    target: str
    transport: str
    mb_per_s: float
    state: str  #: `waiting`, `joining`, `up`, `lost`
    reason: str = ""
    why: str = ""  #: why this transport
    wan: bool = False
    sent_bytes: int = 0  #: in this direction, since it was joined
    saved_bytes: int = 0  #: how many more it would have been uncompressed
    joins: int = 0


class Event(View):
    """One line of the event log. `cause` names the event that led to this one, so that a story greps as one thread."""

    id: str
    time: datetime
    kind: str  #: `component.died`, `run.state`, `checkpoint.written`, …
    message: str
    component: str | None = None
    host: str | None = None
    cause: str | None = None


class RunView(View):
    """Everything a viewer may show of one run."""

    run_id: str
    name: str
    state: RunState
    reason: str
    shape: ShapeView
    attempt: int = 1  #: counts resumes of the run
    started_at: datetime | None = None
    updated_at: datetime
    elapsed_s: float = 0.0
    progress: Progress = Progress()
    reward: Reward = Reward()
    rates: Rates = Rates()
    predicted: Predicted = Predicted()
    freshness: Freshness = Freshness()
    samples: Samples = Samples()
    bottleneck: Bottleneck = Bottleneck()
    drift: Drift = Drift()
    costs: tuple[HostCosts, ...] = ()
    advice: Advice | None = None
    checkpoints: Checkpoints = Checkpoints()
    components: tuple[ComponentView, ...] = ()
    hosts: tuple[HostView, ...] = ()
    links: tuple[LinkView, ...] = ()
    events: tuple[Event, ...] = ()
