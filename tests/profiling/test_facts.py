"""Facts from recorded machines: each fixture is one host's raw texts and what they mean."""

import json
from pathlib import Path

import pytest

from support.odd_machines import expected, fact, machines, read_machine
from tianjictl.hosts.local import LocalHost
from tianjictl.profiling.facts.cpulist import format_cpulist, parse_cpulist
from tianjictl.profiling.facts.host import HostFacts, understand
from tianjictl.profiling.facts.raw import gather


@pytest.mark.parametrize("path", machines(), ids=lambda path: path.stem)
def test_an_odd_machine_is_understood(path: Path) -> None:
    raw, expect = read_machine(path)
    facts = understand(raw)
    told = " ".join(f"{source.name} {source.says}" for source in (*facts.cpu.sources, *facts.memory.sources))
    for words in expect.pop("says", []):
        assert words in told
    assert expect
    for name, value in expect.items():
        found = fact(facts, name)
        wanted = expected(value, found)
        assert found == (pytest.approx(wanted, abs=1e-5) if isinstance(wanted, float) else wanted), name


@pytest.mark.parametrize("path", machines(), ids=lambda path: path.stem)
def test_the_facts_of_an_odd_machine_survive_being_stored(path: Path) -> None:
    facts = understand(read_machine(path)[0])
    assert HostFacts.model_validate_json(facts.model_dump_json()) == facts


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


def test_facts_that_were_stored_before_there_were_so_many_still_load() -> None:
    old = {
        "name": "cn01",
        "cpu": {"online": [0], "allowed": [{"cpu": 0}], "usable": [0], "capacity": 1.0},
        "memory": {"total_bytes": 1, "limit_bytes": 1},
        "nics": [{"name": "eth0", "up": True, "mbit_per_s": 1000, "mtu": 1500}],
        "gpus": [{"index": 0, "name": "GPU", "memory_mib": 1, "uuid": "GPU-a"}],
        "disk": {"path": "/", "total_bytes": 2, "free_bytes": 1},
        "open_files": 1024,
        "processes": 4096,
    }
    facts = HostFacts.model_validate_json(json.dumps(old))
    assert facts.disk is not None
    assert (facts.disk.free_bytes, facts.clock, facts.limits.open_files) == (1, None, None)


@pytest.mark.parametrize(
    ("text", "cpus"),
    [("0-3,8", (0, 1, 2, 3, 8)), ("5", (5,)), ("", ()), ("\n", ()), ("x", ()), ("3,5-7\n", (3, 5, 6, 7))],
)
def test_cpu_lists_read_as_the_kernel_writes_them(text: str, cpus: tuple[int, ...]) -> None:
    assert parse_cpulist(text) == cpus
    assert parse_cpulist(format_cpulist(cpus)) == cpus
