"""Builders with dull defaults for planning tests."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

from runtime.contract.envspec import EnvSpec
from runtime.contract.forecast import Charges
from runtime.contract.job import Job
from runtime.contract.plan import Fingerprints
from runtime.contract.rates import HostRates, LearnerSpeed
from runtime.contract.shape import Shape
from runtime.contract.sizings import Sizing, sizings
from runtime.contract.states import Role
from tianjictl.planning.node import Node
from tianjictl.planning.problem import Choice, MemoryNeeds, Problem
from tianjictl.profiling.facts.cpus import Core

MIB = 1 << 20
PRINTS = Fingerprints(job="job", inventory="inventory")
CARTPOLE = EnvSpec(id="CartPole-v1", observation_shape=(4,), num_actions=2, native_vector=True, autoreset="next-step")
FREE = Charges.none()


def cores(count: int, *, domains: int = 1, first: int = 0) -> tuple[Core, ...]:
    """`count` CPUs numbered from `first`, split evenly over NUMA domains."""
    return tuple(Core(cpu=first + i, core=first + i, numa=i * domains // count) for i in range(count))


def curve(**speeds: float) -> tuple[LearnerSpeed, ...]:
    """`c1=100, c2=170`: samples per second on so many cores, all of their time used."""
    known = ((int(name[1:]), speed) for name, speed in speeds.items())
    return tuple(LearnerSpeed(cores=c, samples_per_s=speed, cpu_s_per_sample=c / speed) for c, speed in known)


def rates(actor: float = 20_000.0, learner: float = 30_000.0, **more: Any) -> HostRates:
    """Actors that use their core whole; `learner` on one core, 1.7 times as much on two, 2.5 on four."""
    buffer_s = more.pop("buffer_s", 1e-6)
    given: dict[str, Any] = {
        "actor_steps_per_s": actor,
        "actor_cpu_s_per_step": 1.0 / actor,
        "learner": curve(c1=learner, c2=1.7 * learner, c4=2.5 * learner),
        "buffer_cpu_s_per_step": buffer_s,
        "receive_s_per_step": buffer_s,
    }
    return HostRates(**(given | more))


def node(name: str = "n1", num_cores: int = 4, roles: tuple[Role, ...] = (), **changes: Any) -> Node:
    placed = changes.pop("cores", None) or cores(num_cores, domains=changes.pop("domains", 1))
    given: dict[str, Any] = {"capacity": float(len(placed)), "memory_bytes": 64 << 30}
    return Node(name=name, cores=placed, roles=roles, **(given | changes))


def problem(*nodes: Node, **changes: Any) -> Problem:
    given: dict[str, Any] = {
        "learners": None,
        "actors": None,
        "learner_cores": None,
        "least": None,
        "most": None,
        "oversubscribe": False,
        "evaluator": False,
        "ratio": 1.0,
        "turns": False,
        "memory": MemoryNeeds(actor=64 * MIB, learner=224 * MIB, once=300 * MIB),
        "bytes_per_step": 72,
    }
    return Problem(nodes=nodes, **(given | changes))


def one(num_cores: int = 4, **changes: Any) -> Problem:
    """A problem with one node; what is no field of a problem is the node's."""
    mine = {"cores", "capacity", "memory_bytes", "rates", "domains", "roles", "mb_per_s"}
    here = {name: changes.pop(name) for name in list(changes) if name in mine}
    return problem(node("n1", num_cores, **here), **changes)


def job(algorithm: str = "ppo", **sections: Any) -> Job:
    return Job.model_validate(
        {"name": "test", "env": {"id": "CartPole-v1"}, "algorithm": {"name": algorithm}, **sections}
    )


def job_of(p: Problem) -> Job:
    """One that trains on as many samples per step as the problem says."""
    if p.ratio == 1.0:
        return job()
    return Job.model_validate({**job("dqn").model_dump(), "algorithm": {"name": "dqn", "samples_per_insert": p.ratio}})


def random_problem(seed: int) -> Problem:
    """1 to 4 nodes with 2 to 12 cores in all, and limits of every kind that often bind."""
    rng = random.Random(seed)
    count = rng.choice([1, 2, 2, 3, 3, 4])
    sizes = _sizes(rng, count)
    scale = 10 ** rng.uniform(1, 5)
    learner = scale * 10 ** rng.uniform(-0.5, 1.0)
    points = sorted({1, *rng.sample([2, 3, 4], rng.randint(0, 2))})
    alike = rng.random() < 0.4
    first = _random_rates(rng, scale, learner, points)
    each = [first if alike else _random_rates(rng, scale, learner, points) for _ in sizes]
    measured = rng.random() < 0.9
    nodes = tuple(
        _random_node(rng, f"n{index}", size, rates if measured else None, scale)
        for index, (size, rates) in enumerate(zip(sizes, each, strict=True))
    )
    learners = rng.choice([None, None, None, None, 1, 2])
    return problem(
        *nodes,
        learners=learners,
        actors=rng.choice([None, None, None, learners or 1, 3, 5]),
        learner_cores=rng.choice([None, None, None, None, rng.choice(points)]),
        least=rng.choice([None, None, None, None, Shape(1, 2), Shape(2, 2)]),
        most=rng.choice([None, None, Shape(2, 6), Shape(3, 3)]),
        evaluator=rng.random() < 0.3,
        ratio=rng.choice([1.0, 1.0, 8.0, 0.25]),
        memory=MemoryNeeds(actor=100, learner=300, once=200),
    )


def random_problem_with_choices(seed: int) -> Problem:
    """The same with 1 to 4 other sizes, each with rates and needs of its own; memory often holds the usual ones off."""
    rng, usual = random.Random(f"choices {seed}"), random_problem(seed)
    if not usual.measured:
        return usual
    others = sizings(job_of(usual), Shape(1, 1), CARTPOLE)[1:]
    some = sorted(rng.sample(range(len(others)), rng.randint(1, min(4, len(others)))))
    needs = MemoryNeeds(actor=rng.choice([100, 100, 900]), learner=rng.choice([300, 300, 1500, 10**6]), once=200)
    return replace(usual, memory=needs, choices=tuple(_random_choice(rng, usual, others[index]) for index in some))


def _random_choice(rng: random.Random, usual: Problem, sizing: Sizing) -> Choice:
    acting, training = rng.choice([1.0, rng.uniform(0.5, 2.0)]), rng.choice([1.0, rng.uniform(0.5, 2.5)])
    needs = MemoryNeeds(actor=rng.choice([100, usual.memory.actor]), learner=rng.choice([200, 600]), once=200)
    return Choice(sizing, needs, tuple(node.rates and scaled(node.rates, acting, training) for node in usual.nodes))


def scaled(rates: HostRates, acting: float, training: float) -> HostRates:
    """Actors and learners so many times as fast; buffers as well as learners."""
    return HostRates(
        actor_steps_per_s=rates.actor_steps_per_s * acting,
        actor_cpu_s_per_step=rates.actor_cpu_s_per_step / acting,
        learner=tuple(
            LearnerSpeed(
                cores=speed.cores,
                samples_per_s=speed.samples_per_s * training,
                cpu_s_per_sample=speed.cpu_s_per_sample / training,
            )
            for speed in rates.learner
        ),
        buffer_cpu_s_per_step=rates.buffer_cpu_s_per_step / training,
        receive_s_per_step=rates.receive_s_per_step / training,
        courier_cpu_s_per_step=rates.courier_cpu_s_per_step,
    )


def _sizes(rng: random.Random, count: int) -> list[int]:
    """Cores of each node, 12 or fewer in all."""
    total = rng.randint(max(2, count), 12 if count < 4 else 10)
    cuts = sorted(rng.sample(range(1, total), count - 1))
    return [after - before for before, after in zip([0, *cuts], [*cuts, total], strict=True)]


def _random_rates(rng: random.Random, scale: float, learner: float, points: list[int]) -> HostRates:
    actor = scale * rng.uniform(0.5, 1.5)
    speeds = [learner * rng.uniform(0.7, 1.4) * c ** rng.uniform(0.3, 1.0) for c in points]
    return HostRates(
        actor_steps_per_s=actor,
        actor_cpu_s_per_step=rng.choice([1.0, 1.0, 0.3]) / actor,
        learner=tuple(
            LearnerSpeed(cores=c, samples_per_s=speed, cpu_s_per_sample=rng.choice([1.0, 0.6]) * c / speed)
            for c, speed in zip(points, speeds, strict=True)
        ),
        buffer_cpu_s_per_step=rng.choice([0.0, 0.01, 0.2]) / actor,
        receive_s_per_step=rng.choice([0.0, 0.02, 0.4]) / actor,
        courier_cpu_s_per_step=rng.choice([0.0, 0.02, 0.1]) / actor,
    )


def _random_node(rng: random.Random, name: str, size: int, rates: HostRates | None, scale: float) -> Node:
    roles = rng.choice([(), (), (), (), (), (Role.LEARNER, Role.BUFFER), (Role.ACTOR,), (Role.LEARNER, Role.ACTOR)])
    return Node(
        name=name,
        cores=cores(size, domains=rng.choice([1, 2]) if size > 1 else 1),
        capacity=size if rng.random() < 0.8 else size * rng.uniform(0.6, 1.0),
        memory_bytes=rng.choice([10**6, 10**6, 10**6, 2500, 1500, 900]),
        roles=roles,
        mb_per_s=rng.choice([None, None, scale * 72 / 1e6 * rng.uniform(0.3, 3.0)]),
        rates=rates,
    )
