"""Short measurements of one node: what is asked of `python -m runtime measure`, and what it answers (JSON both)."""

from __future__ import annotations

from pydantic import Field, NonNegativeInt, PositiveFloat, PositiveInt

from runtime.contract.envspec import EnvSpec
from runtime.contract.job import Job
from runtime.contract.model import Document
from runtime.contract.plan import Sizes


class Spread(Document):
    """Repeated measurements of one quantity: the median, and the smallest and largest seen."""

    median: float = Field(ge=0)
    low: float = Field(ge=0)
    high: float = Field(ge=0)
    repeats: PositiveInt


class MeasureRequest(Document):
    """One node's share of a profile. Sizes are those that the job would run with."""

    job: Job
    env: EnvSpec
    sizes: Sizes
    cores: tuple[NonNegativeInt, ...] = Field(min_length=1)  #: CPU numbers it may use
    learner_cores: tuple[PositiveInt, ...] = (1,)  #: numbers of cores to train with, rising
    #: Besides `sizes`: an actor is tried with each other number of environments, a learner with each other batch.
    other_sizes: tuple[Sizes, ...] = ()
    folder: str  #: an existing folder on the file system that will hold checkpoints
    couriers: bool = False  #: whether the job may cross hosts: then couriers are measured, too
    leave_out_strangers: bool = False  #: count no time in which others had the core of what is measured
    seconds: PositiveFloat = 1.5  #: for an actor, once warm; twice that for a learner


class ActorRate(Document):
    """Environment steps per second of one actor on one core while `busy_neighbours` other cores run the same."""

    num_envs: PositiveInt
    busy_neighbours: NonNegativeInt
    steps_per_s: Spread
    cpu_s_per_step: Spread | None = None  #: core seconds; less than 1 / steps_per_s where it waits for a simulator


class LearnerRate(Document):
    """Samples per second through one learner (all epochs of a sample count once), fed by a buffer in another process
    that never lets it wait, while the cores that are left run actors."""

    cores: PositiveInt
    samples_per_s: Spread
    cpu_s_per_sample: Spread | None = None  #: core seconds over all of its cores


class TurnRate(Document):
    """A learner and its buffer by turns on one core, neither waiting for the other, in its core seconds.

    Too short to plan with by itself: held against the same of the usual sizes it says what others cost.
    """

    num_envs: PositiveInt
    batch_size: PositiveInt
    learner_s_per_sample: PositiveFloat
    buffer_s_per_fragment: PositiveFloat  #: of `num_envs` environments


class MeasureReport(Document):
    """Rates of one node. Seconds are of one core.

    `strangers` is the share of the time in which others had the core of what was measured; where the request said so,
    it is left out of the rates.
    """

    actors: tuple[ActorRate, ...]
    learners: tuple[LearnerRate, ...]
    fragment_samples: PositiveInt  #: samples of one fragment as measured
    buffer_s_per_fragment: Spread  #: T_rv of formula (1): receiving it, and drawing the batches that it is worth
    buffer_cpu_s_per_fragment: Spread | None = None  #: core seconds for the same, waking up included
    courier_cpu_s_per_fragment: Spread | None = None  #: at either end, to send it to another host; none: not measured
    memcpy_mb_per_s: Spread
    checkpoint_mb_per_s: Spread
    by_turns: tuple[TurnRate, ...] = ()  #: with the sizes that all else was measured with, then with others
    strangers: float = Field(default=0.0, ge=0)


class LinkReport(Document):
    """What one end of a link has seen. MB are 10^6 bytes."""

    received_mb_per_s: Spread
    rtt_s: Spread | None = None  #: of 64 bytes to and fro, up to the 99th percentile; none at the end that only answers


class LinkRate(Document):
    """One direction between two hosts, through the network that a run would take."""

    source: str
    target: str
    mb_per_s: Spread
    rtt_s: Spread


class MeasureProgress(Document):
    """A line on standard error while measuring."""

    doing: str
    done: NonNegativeInt  #: measurements finished
    total: PositiveInt
