"""The job: what to train. `auto` (or a key left out) means: chosen to fit by the planner."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import Field, PositiveInt, field_validator, model_validator

from runtime.contract.algorithm import AlgorithmConfig
from runtime.contract.model import Document
from runtime.contract.shape import Shape
from runtime.contract.states import Dependencies
from runtime.contract.units import Duration

Auto = Literal["auto"]
Scalar = bool | int | float | str | None
JobName = Annotated[str, Field(pattern=r"^[a-zA-Z0-9][a-zA-Z0-9._-]{0,62}$")]


class EnvConfig(Document):
    """A Gymnasium environment: an id, or `package.module:factory` called with `kwargs`."""

    id: str = Field(min_length=1)
    num_envs: PositiveInt | Auto = "auto"  #: environments per actor
    delay_us: int = Field(default=0, ge=0)  #: sleep per vector step, to stand in for a slow simulator
    kwargs: dict[str, Scalar] = Field(default_factory=dict)


class DistributedConfig(Document):
    """How many of each component, and the buffer's size in samples (per buffer)."""

    actors: PositiveInt | Auto = "auto"
    learners: PositiveInt | Auto = "auto"
    buffer_size: PositiveInt | Auto = "auto"
    learner_cores: PositiveInt | Auto = "auto"
    oversubscribe: bool = False


class StopConfig(Document):
    """The run completes when the first of these is met; none set means: until stopped."""

    reward: float | None = None  #: mean return of the last 100 episodes
    env_steps: PositiveInt | None = None
    updates: PositiveInt | None = None
    wall_time: Duration | None = None


class ShadowConfig(Document):
    """Slowly averaged parameters for the evaluator: shadow += rate × (online − shadow) after each update."""

    enabled: bool = False
    rate: float = Field(default=0.05, gt=0.0, le=1.0)


class TrainingConfig(Document):
    """How samples become updates. Sizes are per learner."""

    batch_size: PositiveInt | Auto = "auto"
    staleness_tolerance: float | Auto = Field(default="auto")  #: upper bound of P = batch size / buffer size
    staleness_learning_rate: float = Field(default=0.0, ge=0.0)  #: λ of α / (1 + λ·P); 0 switches it off
    seed: int = Field(default=0, ge=0, lt=2**63)
    dependencies: Dependencies = Dependencies.RELAXED
    publish_every: PositiveInt | Auto = "auto"  #: updates between published versions
    sync_every: PositiveInt = 16  #: updates between averagings with peer learners
    shadow: ShadowConfig = ShadowConfig()
    stop: StopConfig = StopConfig()

    @field_validator("staleness_tolerance")
    @classmethod
    def _tolerance_is_a_ratio(cls, value: float | str) -> float | str:
        if not isinstance(value, str) and not 0.0 < value <= 1.0:
            raise ValueError("must be above 0 and at most 1: it bounds batch_size / buffer_size")
        return value


class CheckpointConfig(Document):
    """When checkpoints are written, how many are kept, and on how many nodes."""

    every: Duration | None = 60.0
    keep: PositiveInt = 5
    copies: int = Field(
        default=1, ge=0
    )  #: nodes besides the head that hold each complete checkpoint, where there are any


class ElasticConfig(Document):
    """The bounds within which the run may shrink and grow."""

    min: str | None = None
    max: str | None = None
    mode: Literal["manual", "advise", "auto"] = "manual"
    patience: Duration = 10.0  #: how long on end a rule must hold before it speaks
    cool_down: Duration = 30.0  #: after a change, until the next; four times that until the reverse of the last one
    node_loss: Literal["shrink", "wait"] = (
        "shrink"  #: go on with what is left (never below `min`), or pause until it is back
    )
    #: how long actors of a lost learner on other nodes wait for it before they are given to other learners; longer
    #: than a cable that somebody trips over
    regroup_after: Duration = 12.0

    @field_validator("min", "max")
    @classmethod
    def _is_a_shape(cls, value: str | None) -> str | None:
        return value if value is None else str(Shape.parse(value))


class EvaluationConfig(Document):
    """An evaluator process beside the training; off unless `enabled`."""

    enabled: bool = False
    episodes: PositiveInt = 10
    every: Duration = 10.0
    seed: int = Field(default=1_000_003, ge=0)


class HealthConfig(Document):
    """How long a heartbeat may stand still, by phase, and how often a component may be restarted."""

    init: Duration = 60.0
    steady: Duration = 3.0
    checkpoint: Duration = 120.0
    restarts: int = Field(default=10, ge=0)  #: per component within `restart_window`
    restart_window: Duration = 300.0
    stop_grace: Duration = 20.0  #: from the request to stop until SIGTERM, and again until SIGKILL
    orphan_timeout: Duration = 30.0  #: an agent without a coordinator for so long has a checkpoint written and leaves
    node: Duration = 2.5  #: a node whose agent has not reported for so long counts as lost


class MlflowConfig(Document):
    """The run's numbers in MLflow as well; off without a `tracking_uri`."""

    tracking_uri: str | None = None  #: as the coordinator's host sees it: `https://…`, `file:///…`
    experiment: str = Field(default="tianjictl", min_length=1)

    @field_validator("tracking_uri")
    @classmethod
    def _means_the_same_everywhere(cls, value: str | None) -> str | None:
        if value is None or value in ("databricks", "uc"):
            return value
        scheme, found, rest = value.partition("://")
        if not found or not rest:
            raise ValueError("must be a whole URI, as https://mlflow.example.org or file:///data/mlruns")
        if "@" in rest.partition("/")[0] and not scheme.startswith("databricks"):
            raise ValueError(
                "must hold no password: MLflow reads MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD"
            )
        return value


class WandbConfig(Document):
    """The run's numbers in Weights & Biases as well; off without a `project`."""

    project: str | None = Field(default=None, min_length=1)
    mode: Literal["online", "offline"] = "online"  #: offline: kept in the run's folder, for `wandb sync`


class MetricsConfig(Document):
    """Other tools that are sent the run's numbers."""

    mlflow: MlflowConfig = MlflowConfig()
    wandb: WandbConfig = WandbConfig()


class Job(Document):
    """One training job, as in `playbooks/train/*.yaml`."""

    name: JobName
    env: EnvConfig
    algorithm: AlgorithmConfig
    distributed: DistributedConfig = DistributedConfig()
    training: TrainingConfig = TrainingConfig()
    checkpoint: CheckpointConfig = CheckpointConfig()
    elastic: ElasticConfig = ElasticConfig()
    evaluation: EvaluationConfig = EvaluationConfig()
    health: HealthConfig = HealthConfig()
    metrics: MetricsConfig = MetricsConfig()

    @model_validator(mode="after")
    def _shapes_agree(self) -> Job:
        actors, learners = self.distributed.actors, self.distributed.learners
        if isinstance(actors, int) and isinstance(learners, int) and actors < learners:
            raise ValueError(
                f"distributed.actors is {actors} but distributed.learners is {learners}: each learner needs an actor"
            )
        return self

    @property
    def on_policy(self) -> bool:
        """Whether each sample is trained on once and then dropped (a queue), instead of replayed."""
        return self.algorithm.name == "ppo"


def needed_modules(job: Job) -> tuple[str, ...]:
    """What the head of a run must have for the tools that `metrics` names: modules, each also an extra of tianjictl."""
    wanted = {"mlflow": job.metrics.mlflow.tracking_uri, "wandb": job.metrics.wandb.project}
    return tuple(module for module, target in wanted.items() if target is not None)


def default_name(env_id: str, algorithm: str) -> str:
    """A job name from environment and algorithm, for jobs that give none."""
    return re.sub(r"[^a-zA-Z0-9._-]+", "-", f"{env_id}-{algorithm}".lower()).lstrip("._-")[:63].rstrip("-")
