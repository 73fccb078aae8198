"""`tianjictl profile`: facts of this machine, or of the hosts of an inventory, and measured rates with a job."""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tianjictl.cli.options import Algo, Env, Inventory, Json, Set

if TYPE_CHECKING:
    from collections.abc import Iterator

    from runtime.contract.job import Job
    from runtime.contract.measurement import LinkRate, MeasureReport, Spread
    from tianjictl.errors import TianjiError
    from tianjictl.hosts.types import Inventory as Hosts
    from tianjictl.profiling.facts.host import HostFacts
    from tianjictl.profiling.profile import ClusterProfile

JobFile = Annotated[
    Path | None, typer.Argument(metavar="JOB", help="Job to measure for; without one only facts are gathered.")
]
Output = Annotated[Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write the profile to a file.")]
Refresh = Annotated[bool, typer.Option("--refresh", help="Measure again, even if nothing has changed.")]

_WORTH_SAYING = 0.05  #: share of the time that strangers took


def profile(
    job: JobFile = None,
    inventory: Inventory = None,
    output: Output = None,
    json: Json = False,
    refresh: Refresh = False,
    env: Env = None,
    algo: Algo = None,
    overrides: Set = None,
) -> int:
    """Measure hosts: cores, memory, environment and learner speed."""
    from tianjictl.cli.output import emit_json, note, say
    from tianjictl.hosts.reader import load
    from tianjictl.launching.cluster_plan import is_this_machine
    from tianjictl.profiling import store

    hosts = load(inventory)
    failures: list[TianjiError] = []
    if is_this_machine(hosts):
        found = _profile(job, env, algo, overrides or [], refresh=refresh)
    else:
        found, failures = _profile_of_all(hosts, job, env, algo, overrides or [], refresh=refresh)
    if output is not None:
        store.save(found, output)
    if json:
        told = [
            {"code": error.exit_code, "message": finding.message, "hint": finding.hint}
            for error in failures
            for finding in error.findings()
        ]
        emit_json("profile", found, warnings=[str(problem) for problem in hosts.notes], errors=told)
        return failures[0].exit_code if failures else 0
    for position, host in enumerate(found.hosts):
        if position:
            say()
        _print_facts(host.facts)
        if host.measured is not None:
            _print_rates(host.measured)
    _print_links(found.links)
    if output is not None:
        note(f"written to {output}")
    for error in failures:
        for line in error.lines():
            note(line, style="red" if line.startswith("error") else "")
    return failures[0].exit_code if failures else 0


def _profile(
    job: Path | None, env: str | None, algo: str | None, overrides: list[str], *, refresh: bool
) -> ClusterProfile:
    from datetime import UTC, datetime

    from tianjictl.profiling.local import local_facts
    from tianjictl.profiling.profile import ClusterProfile, HostProfile, inventory_digest

    facts = local_facts(devices=True)
    if job is None and env is None and algo is None:
        return ClusterProfile(
            key=inventory_digest(facts), created_at=datetime.now(UTC), hosts=(HostProfile(facts=facts),)
        )
    from tianjictl.cli.job_input import read_job

    return _measured(read_job(job, overrides=overrides, env=env, algo=algo), facts, refresh=refresh)


def _profile_of_all(
    hosts: Hosts, job: Path | None, env: str | None, algo: str | None, overrides: list[str], *, refresh: bool
) -> tuple[ClusterProfile, list[TianjiError]]:
    """The profile of every host that can be looked at, and what stood in the way of the others."""
    from tianjictl.cli.job_input import read_job
    from tianjictl.cli.output import note
    from tianjictl.launching.cluster_profile import facts_only, measure_all
    from tianjictl.launching.fleet import Fleet, of_all
    from tianjictl.profiling.nodes import look_at
    from tianjictl.profiling.probing import EnvProbe

    wanted = (
        None if job is None and env is None and algo is None else read_job(job, overrides=overrides, env=env, algo=algo)
    )
    with Fleet({host.name: host for host in hosts.hosts}) as fleet:
        failures = fleet.reach(progress=note)
        if not fleet.connections:
            raise of_all(failures)
        there = [host for host in hosts.hosts if host.name in fleet.connections]
        nodes = look_at(there, fleet.connections, devices=True)
        if wanted is None:
            return facts_only(nodes), list(failures.values())
        with EnvProbe(wanted.env) as probe:
            spec = probe.spec(note)
        with _sizes_in_words():
            measured = measure_all(nodes, fleet.connections, wanted, spec, refresh=refresh, progress=note)
    if measured.known:
        note(f"nothing has changed since {', '.join(measured.known)} was measured; --refresh measures again")
    return measured.profile, [*failures.values(), *measured.failed.values()]


def _measured(job: Job, facts: HostFacts, *, refresh: bool) -> ClusterProfile:
    from tianjictl.cli.output import note
    from tianjictl.launching.local_plan import progress_line
    from tianjictl.profiling import store
    from tianjictl.profiling.local import measured_profile, measured_sizes
    from tianjictl.profiling.probing import EnvProbe
    from tianjictl.profiling.profile import profile_key

    with EnvProbe(job.env) as probe:
        spec = probe.spec()
    with _sizes_in_words():
        known = None if refresh else store.cached(profile_key(facts, job, measured_sizes(job, spec)))
        if known is not None:
            note("nothing has changed since this was measured; --refresh measures again")
            return known
        return measured_profile(job, spec, facts, progress=lambda step: note(progress_line(step)))


@contextmanager
def _sizes_in_words() -> Iterator[None]:
    """Sizes of a job that contradict each other are the job's problem."""
    from runtime.contract.sizes import SizesError
    from tianjictl.errors import UsageProblem

    try:
        yield
    except SizesError as error:
        raise UsageProblem(error.message, hint=error.hint) from error


def _print_facts(facts: HostFacts) -> None:
    from tianjictl.cli.output import print_table, say
    from tianjictl.profiling.facts import words

    say(f"{facts.name}: {facts.cpu.model}", style="bold")
    print_table(("fact", "found"), words.rows(facts))
    say()
    limits = [(source.name, source.says) for source in (*facts.cpu.sources, *facts.memory.sources)]
    print_table(("limit", "says"), limits)


def _print_rates(measured: MeasureReport) -> None:
    from tianjictl.cli.output import note, print_table, say

    rows: list[tuple[str, str, str]] = []
    for actor in measured.actors:
        beside = "alone" if actor.busy_neighbours == 0 else f"beside {actor.busy_neighbours} busy"
        rows.append((f"actor, {actor.num_envs} envs, {beside}", *_shown(actor.steps_per_s, "steps/s")))
        if actor.cpu_s_per_step is not None:
            rows.append(("  core time of a step", *_shown(actor.cpu_s_per_step, "ns", scale=1e9)))
    for learner in measured.learners:
        rows.append((f"learner, {learner.cores} core(s)", *_shown(learner.samples_per_s, "samples/s")))
        if learner.cpu_s_per_sample is not None:
            rows.append(("  core time of a sample", *_shown(learner.cpu_s_per_sample, "ns", scale=1e9)))
    rows.append(("buffer, per fragment (T_rv)", *_shown(measured.buffer_s_per_fragment, "µs", scale=1e6)))
    if measured.buffer_cpu_s_per_fragment is not None:
        rows.append(("  core time of a fragment", *_shown(measured.buffer_cpu_s_per_fragment, "µs", scale=1e6)))
    if measured.courier_cpu_s_per_fragment is not None:
        shown = _shown(measured.courier_cpu_s_per_fragment, "µs", scale=1e6)
        rows.append(("courier, core time of a fragment", *shown))
    rows.append(("copying memory", *_shown(measured.memcpy_mb_per_s, "MB/s")))
    rows.append(("writing a checkpoint", *_shown(measured.checkpoint_mb_per_s, "MB/s")))
    say()
    print_table(("measured", "median", "range"), rows, right=(1,))
    if measured.strangers >= _WORTH_SAYING:
        note(f"for {measured.strangers:.0%} of the time others had the learner's core; --refresh when it is quiet")


def _print_links(links: tuple[LinkRate, ...]) -> None:
    """Every direction; of the round trips, what 99 of 100 stay below."""
    from tianjictl.cli.output import print_table, say

    if not links:
        return
    rows = [
        (
            f"{link.source} → {link.target}",
            *_shown(link.mb_per_s, "MB/s"),
            f"{link.rtt_s.median * 1e6:,.0f} µs",
            f"{link.rtt_s.high * 1e6:,.0f} µs",
        )
        for link in links
    ]
    say()
    print_table(("link", "median", "range", "round trip", "99 %"), rows, right=(1, 3, 4))


def _shown(spread: Spread, unit: str, *, scale: float = 1.0) -> tuple[str, str]:
    median, low, high = (f"{value * scale:,.0f}" for value in (spread.median, spread.low, spread.high))
    return f"{median} {unit}", f"{low} … {high} ({spread.repeats})"
