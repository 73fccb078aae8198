"""The plan: which component runs where, on which cores, with which sizes. Readable, diffable, re-checkable."""

from __future__ import annotations

from pydantic import Field

from runtime.contract.envspec import EnvSpec
from runtime.contract.job import Job
from runtime.contract.model import Document
from runtime.contract.rates import HostRates
from runtime.contract.shape import Shape
from runtime.contract.states import Role


class Placement(Document):
    """One component on one node."""

    name: str  #: `actor-3`: role and index within the run
    role: Role
    index: int = Field(ge=0)
    group: int = Field(ge=0)
    host: str
    cores: tuple[int, ...]  #: operating-system CPU numbers it is pinned to
    core_share: float = Field(gt=0)  #: cores it is charged for
    threads: int = Field(default=1, ge=1)  #: torch and BLAS threads
    leaving: bool = False  #: it drains: makes nothing new, and leaves when what it made is used up
    donor: int | None = None  #: of a learner that joins a run: the group whose parameters and optimiser it begins with


class Sizes(Document):
    """Every number that was `auto` in the job, resolved. Sample counts are per learner or per buffer."""

    num_envs: int  #: environments per actor (B)
    rollout: int  #: env steps per fragment (T)
    batch_size: int  #: samples per update of one learner
    fragments_per_batch: int  #: on-policy: batch_size / (T·B); off-policy: 0
    buffer_size: int  #: samples one buffer holds (N_s)
    ring_slots: int  #: fragments one actor may be ahead
    batch_slots: int  #: batches one buffer may be ahead
    publish_every: int
    staleness_tolerance: float
    pool_ratio: float  #: P = batch_size / buffer_size

    @property
    def fragment_samples(self) -> int:
        return self.rollout * self.num_envs


class Prediction(Document):
    """What the planner expects, from the measured profile; absent where nothing was measured."""

    env_steps_per_s: float | None = None
    samples_per_s: float | None = None
    updates_per_s: float | None = None
    bottleneck: str | None = None  #: `actors`, `learner`, …
    explanation: tuple[str, ...] = ()


class HostPlan(Document):
    """One node of the plan."""

    name: str
    cores: tuple[int, ...]  #: usable CPU numbers
    oversubscription: float = 0.0  #: core shares charged / cores there are, where above 1
    roles: tuple[Role, ...] = ()  #: what may run there; empty: anything
    network: str | None = None  #: CIDR of the network that data and control messages take
    ports: tuple[int, int] | None = None  #: first and last TCP port it may listen on; none: any
    capacity: float | None = None  #: CPUs' worth of time there is, where a quota makes that less than its cores
    mb_per_s: float | None = None  #: what its network carries in either direction, as measured; none: not known
    wan: bool = False  #: reached over a slow link: what goes there is compressed
    leaving: bool = False  #: it is being emptied, and no node of the run any more when nothing is left there


class Fingerprints(Document):
    """Digests of what the plan was made from; a plan is refused when they no longer match."""

    job: str
    inventory: str
    profile: str | None = None


class Origin(Document):
    """The files a saved plan was made from, by which a change of theirs is noticed when the plan is used."""

    job_file: str | None = None  #: absolute
    job_sha256: str | None = None
    profile_file: str | None = None  #: absolute; none where the profile came from the cache
    inventory_file: str | None = None  #: absolute; none where it was made for this machine alone


class NamesUsed(Document):
    """How many actors and groups a run has ever named. A name is never given twice in one attempt of a run."""

    actors: int = 0
    groups: int = 0


class Plan(Document):
    """A solved placement for one job. The first host is the head: it runs the coordinator."""

    schema_version: int = 1
    revision: int = 1  #: rises with each change while the run lives
    names_used: NamesUsed = NamesUsed()
    shape: str
    job: Job
    env: EnvSpec
    sizes: Sizes
    hosts: tuple[HostPlan, ...]
    placements: tuple[Placement, ...]
    predicted: Prediction = Prediction()
    rates: dict[str, HostRates] = Field(
        default_factory=dict
    )  #: of each host that was measured: what `predicted` is from
    profile_keys: dict[str, str] = Field(default_factory=dict)  #: of each host: where its measurements are kept
    fingerprints: Fingerprints
    solver: str  #: `optimal`, `feasible gap 2%`, `greedy`
    notes: tuple[str, ...] = ()
    origin: Origin = Origin()

    def of_role(self, role: Role) -> tuple[Placement, ...]:
        return tuple(p for p in self.placements if p.role is role)

    def group_of(self, group: int, role: Role) -> tuple[Placement, ...]:
        return tuple(p for p in self.placements if p.role is role and p.group == group)

    def on(self, node: str) -> tuple[Placement, ...]:
        """What runs on one node."""
        return tuple(p for p in self.placements if p.host == node)

    def home(self, group: int) -> str:
        """The node of a group's learner and buffer. KeyError where there is no such group."""
        for placement in self.placements:
            if placement.role is Role.LEARNER and placement.group == group:
                return placement.host
        raise KeyError(f"no learner of group {group}")

    @property
    def groups(self) -> tuple[int, ...]:
        """Numbers of the groups, rising; there may be gaps."""
        return tuple(sorted(p.group for p in self.of_role(Role.LEARNER)))

    @property
    def head(self) -> str:
        """The node that runs the coordinator."""
        return self.hosts[0].name

    def host(self, node: str) -> HostPlan:
        """One node of the plan. KeyError where it is none."""
        for host in self.hosts:
            if host.name == node:
                return host
        raise KeyError(f"{node} is no node of this plan")

    @property
    def learners_and_actors(self) -> Shape:
        return Shape.parse(self.shape)
