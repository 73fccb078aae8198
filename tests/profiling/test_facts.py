"""Facts from recorded machines: each fixture is one host's raw texts and what they mean."""

import json
from pathlib import Path

import pytest

from tianjictl.hosts.local import LocalHost
from tianjictl.profiling.facts.cpulist import format_cpulist, parse_cpulist
from tianjictl.profiling.facts.host import understand
from tianjictl.profiling.facts.raw import RawFacts, gather

FIXTURES = sorted((Path(__file__).parents[1] / "fixtures" / "facts").glob("*.json"))


@pytest.mark.parametrize("path", FIXTURES, ids=lambda path: path.stem)
def test_an_odd_machine_is_understood(path: Path) -> None:
    fixture = json.loads(path.read_text())
    facts = understand(RawFacts.model_validate(fixture["raw"]))
    expect = fixture["expect"]
    assert list(facts.cpu.usable) == expect["usable"]
    assert facts.cpu.capacity == expect["capacity"]
    assert facts.cpu.quota == expect["quota"]
    assert facts.memory.limit_bytes == expect["memory"]
    told = " ".join(f"{source.name} {source.says}" for source in (*facts.cpu.sources, *facts.memory.sources))
    for words in expect.get("says", []):
        assert words in told
    by_cpu = {core.cpu: core for core in facts.cpu.allowed}
    for cpu, thread in expect.get("threads", {}).items():
        assert by_cpu[int(cpu)].thread == thread
    if "packages" in expect:
        assert len({core.package for core in facts.cpu.allowed}) == expect["packages"]
    if "numa" in expect:
        assert [core.numa for core in facts.cpu.allowed] == expect["numa"]
    if "model" in expect:
        assert facts.cpu.model == expect["model"]
    if "nics" in expect:
        assert [[nic.name, nic.mbit_per_s] for nic in facts.nics] == expect["nics"]
        assert [gpu.name for gpu in facts.gpus] == expect["gpus"]


def test_this_machine_is_understood(tmp_path: Path) -> None:
    facts = understand(gather(LocalHost(), run_folder=tmp_path / "not" / "made" / "yet"))
    allowed = LocalHost().affinity()
    assert allowed is not None
    assert set(facts.cpu.usable) <= set(allowed)
    assert 0 < facts.cpu.capacity <= len(allowed)
    assert facts.memory.limit_bytes > 0
    assert facts.disk is not None
    assert facts.disk.free_bytes > 0
    assert "numpy" in facts.packages


@pytest.mark.parametrize(
    ("text", "cpus"),
    [("0-3,8", (0, 1, 2, 3, 8)), ("5", (5,)), ("", ()), ("\n", ()), ("x", ()), ("3,5-7\n", (3, 5, 6, 7))],
)
def test_cpu_lists_read_as_the_kernel_writes_them(text: str, cpus: tuple[int, ...]) -> None:
    assert parse_cpulist(text) == cpus
    assert parse_cpulist(format_cpulist(cpus)) == cpus
