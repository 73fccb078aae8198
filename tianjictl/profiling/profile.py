"""What is known of the machines: facts always, measured rates where a job was profiled."""

from __future__ import annotations

import hashlib
import json
from datetime import datetime

from runtime.contract.job import Job
from runtime.contract.measurement import LinkRate, MeasureReport
from runtime.contract.model import Document
from runtime.contract.plan import Sizes
from tianjictl.profiling.facts.host import HostFacts

#: Settings that change what is learnt but not how long it takes. Whatever is not named here is part of the key.
_COST_FREE = {
    "learning_rate",
    "learning_rate_end",
    "learning_rate_decay_steps",
    "gamma",
    "gae_lambda",
    "clip",
    "value_clip",
    "value_coefficient",
    "entropy_coefficient",
    "max_grad_norm",
    "max_lag",
    "target_update",
    "target_tau",
    "learning_starts",
    "epsilon_start",
    "epsilon_end",
    "epsilon_steps",
    "huber_delta",
}


_METHOD = 2  #: of measuring: what an older one gave means something else


class HostProfile(Document):
    """One host: its facts, and its rates for the profiled job."""

    facts: HostFacts
    measured: MeasureReport | None = None


class ClusterProfile(Document):
    """All hosts, as measured for one kind of job."""

    schema_version: int = 1
    key: str  #: fingerprint of the machine and of what was measured
    created_at: datetime
    hosts: tuple[HostProfile, ...]
    links: tuple[LinkRate, ...] = ()  #: both directions of every pair of hosts that will talk

    @property
    def digest(self) -> str:
        """Names the measurements themselves: another one after each measuring."""
        return digest_of({"hosts": [host.model_dump(mode="json") for host in self.hosts]})


def profile_key(facts: HostFacts, job: Job, sizes: Sizes) -> str:
    """Fingerprint of everything that would make old rates wrong: machine, limits, packages, job's env and network."""
    algorithm = job.algorithm.model_dump(mode="json", exclude=_COST_FREE)
    return digest_of(
        {
            "boot": facts.boot_id or facts.machine_id,
            "cpu": facts.cpu.model,
            "usable": list(facts.cpu.usable),
            "capacity": facts.cpu.capacity,
            "memory": facts.memory.limit_bytes,
            "python": facts.python,
            "packages": facts.packages,
            "env": job.env.model_dump(mode="json"),
            "algorithm": algorithm,
            "batch": job.training.batch_size,
            "bounds": [job.distributed.buffer_size, job.training.staleness_tolerance],  # they bound an automatic batch
            "fragment": [sizes.rollout, sizes.num_envs],
            "method": _METHOD,
        }
    )


def inventory_digest(facts: HostFacts) -> str:
    """Fingerprint of what a placement on this host rests on: another host, CPU set or quota gives another one."""
    return digest_of(
        {
            "host": facts.name,
            "machine": facts.machine_id,
            "usable": list(facts.cpu.usable),
            "capacity": facts.cpu.capacity,
            "memory": facts.memory.limit_bytes,
        }
    )


def job_digest(job: Job) -> str:
    """Fingerprint of the resolved job."""
    return digest_of(job.model_dump(mode="json"))


def digest_of(value: object) -> str:
    """Twelve bytes of SHA-256 over canonical JSON, in hexadecimal."""
    return hashlib.sha256(json.dumps(value, sort_keys=True, separators=(",", ":")).encode()).hexdigest()[:24]
