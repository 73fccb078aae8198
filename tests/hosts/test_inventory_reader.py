"""An inventory means what Ansible makes of it, and whatever is doubtful in it is an error with its place."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tianjictl.errors import UsageProblem
from tianjictl.hosts.ranges import RangeError, expand, split_port
from tianjictl.hosts.reader import InventoryProblem, load, read

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = sorted((ROOT / "inventory").glob("*.yaml"))

LAYERED = """
all:
  vars: {ansible_user: trainer, depth: all}
  children:
    site:
      vars: {depth: site, colour: red}
      children:
        rack_b: {hosts: {'cn[01:03].lab': }, vars: {depth: rack_b, colour: blue}}
        rack_a: {hosts: {cn03.lab: {depth: host}, 'gpu[a:c:2]:2222': }, vars: {depth: rack_a, size: 3}}
    loose: {hosts: {alone: {ansible_host: 10.0.0.9}}}
plain:
  hosts: other
"""


def problems_of(text: str | bytes) -> list[str]:
    raw = text if isinstance(text, bytes) else text.encode()
    with pytest.raises(InventoryProblem) as caught:
        read(raw, "hosts.yaml")
    return [str(problem) for problem in caught.value.problems]


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("cn1", ["cn1"]),
        ("cn[1:3]", ["cn1", "cn2", "cn3"]),
        ("cn[01:10:3].lab", ["cn01.lab", "cn04.lab", "cn07.lab", "cn10.lab"]),
        ("cn[08:11]", ["cn08", "cn09", "cn10", "cn11"]),
        ("r[a:c]", ["ra", "rb", "rc"]),
        ("r[:1]n[1:2]", ["r0n1", "r0n2", "r1n1", "r1n2"]),
    ],
)
def test_ranges_hold_both_ends_zeros_letters_and_steps(pattern, names):
    assert expand(pattern) == names


@pytest.mark.parametrize(
    ("pattern", "why"),
    [
        ("cn[1:]", "has no end"),
        ("cn[01:100]", "equally long"),
        ("cn[3:1]", "backwards"),
        ("cn[a:C]", "one case"),
        ("cn[1-3]", "not begin:end"),
        ("cn[1:3:0]", "step"),
        ("cn[1:3", "without its partner"),
        ("cn[0:999999]", "more than"),
        ("cn[1:999]x[1:999]", "more than"),
    ],
)
def test_a_range_that_makes_no_sense_says_why(pattern, why):
    with pytest.raises(RangeError, match=why):
        expand(pattern)


def test_a_port_after_a_name_is_not_taken_for_a_range():
    assert split_port("cn[1:3]:2222") == ("cn[1:3]", 2222)
    assert split_port("cn[1:3]") == ("cn[1:3]", None)
    assert split_port("fd00::1") == ("fd00::1", None)


def test_the_deeper_group_wins_and_every_value_knows_where_it_was_written():
    inventory = read(LAYERED.encode(), "hosts.yaml")
    host = inventory.find("cn01.lab")
    assert host is not None
    assert host.variables == {"ansible_user": "trainer", "depth": "rack_b", "colour": "blue"}
    assert host.settings["ansible_user"].origin == "group all, hosts.yaml:3"
    assert host.settings["colour"].origin == "group rack_b, hosts.yaml:8"
    third = inventory.find("cn03.lab")
    assert third is not None
    assert (third.variables["depth"], third.settings["depth"].owner) == ("host", "host cn03.lab")
    assert third.groups == ("all", "site", "rack_a", "rack_b")
    assert [host.port for host in inventory.hosts if host.name.startswith("gpu")] == [2222, 2222]
    assert inventory.groups["plain"] == ("other",)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("all: {host: {a: }}", "hosts.yaml:1:7: unknown key 'host' in group all (did you mean hosts?)"),
        ("all: {childs: {a: }}", "did you mean children?"),
        ("hosts: {a: }", "'hosts' stands outside any group"),
        ("all:\n  hosts: [a, b]", "hosts.yaml:2:10: hosts of all must be keys, found a list"),
        ("all: {hosts: {a: {tianji_max_core: 3}}}", "did you mean tianji_max_cores?"),
        ("all: {hosts: {a: {ansible_prot: 3}}}", "did you mean ansible_port?"),
        ("all: {hosts: {a: {ansible_password: x}}}", "passwords are not kept in inventories"),
        ("all: {hosts: {a: {ansible_user: no}}}", "'no' means false to some YAML readers"),
        ("all: {hosts: {a: {ansible_user: 12}}}", 'ansible_user must be a text, found \'12\' (quote it: "12")'),
        ("all: {hosts: {a: {ansible_port: 70000}}}", "ansible_port must be from 1 to 65535"),
        ("all: {hosts: {a: {ansible_connection: docker}}}", "ansible_connection must be ssh or local"),
        ("all: {hosts: {a: {ansible_host_key_checking: false}}}", "accept-new"),
        ("all: {hosts: {a: {ansible_ssh_common_args: -A}}}", "'-A' is not supported"),
        ("all: {hosts: {a: {tianji_network: 10.0.0.1/24}}}", "has host bits set"),
        ("all: {hosts: {a: {tianji_ports: 5000}}}", 'tianji_ports must be a text, found \'5000\' (quote it: "5000")'),
        ("all: {hosts: {a: {tianji_ports: 80-90}}}", "a range of ports above 1023 such as 5000-5100, found '80-90'"),
        ("all: {hosts: {a: {tianji_ports: 6000-5000}}}", "such as 5000-5100"),
        ("all: {hosts: {a: {tianji_labels: [rack1, 2]}}}", "tianji_labels must be a text"),
        ("all: {hosts: {a: {tianji_mpi: x}}}", "unknown variable 'tianji_mpi'"),
        ("all: {hosts: {a: {tianji_roles: [actor, lerner]}}}", "did you mean learner?"),
        ("all: {hosts: {a: {x: '{{ y }}'}}}", "templates are not supported"),
        ("all: {hosts: {a: {x: !vault y}}}", "tags"),
        ("all: {hosts: {007: }}", "'007'"),
        ("all: {hosts: {'[fd00::1]': }}", "use an alias with ansible_host"),
        ("all: {hosts: {'cn[1:2]': {ansible_host: 1.2.3.4}}}", "the same address"),
        ("all:\n  hosts:\n    a:\n    a:", "hosts.yaml:4:5: key 'a' is given twice, at lines 3 and 4"),
        ("all:\n  hosts:\n    cn[1:3]:\n    cn2:", "hosts.yaml:4:5: host cn2 is given twice in group all"),
        ("all:\n\thosts:", "tab at line 2, use spaces"),
        ("a: {children: {b: {children: {a: }}}}", "group a is below itself: a > b > a"),
        ("a: {hosts: {a: }}", "'a' is a group and a host"),
        ("all: {vars: {x: 1}}", "holds no hosts"),
        ("", "holds no hosts"),
        ("- a", "an inventory is a section of groups, found a list"),
    ],
)  # fmt: skip
def test_what_ansible_would_let_pass_is_an_error_with_its_place(text, found):
    assert any(found in problem for problem in problems_of(text)), problems_of(text)


def test_everything_that_is_wrong_is_reported_at_once_in_the_order_of_the_file():
    found = problems_of("all:\n  hosts:\n    a: {ansible_port: x}\n  vrs:\nb: {children: {c: {host: }}}\n")
    assert [problem.partition(": ")[0] for problem in found] == ["hosts.yaml:3:23", "hosts.yaml:4:3", "hosts.yaml:5:20"]


def test_two_groups_that_reach_a_host_differently_are_both_named():
    text = "a: {hosts: {h: }, vars: {ansible_user: ann}}\nb: {hosts: {h: }, vars: {ansible_user: bob}}\n"
    assert problems_of(text) == [
        "hosts.yaml:2:26: ansible_user of host h is 'ann' (group a, hosts.yaml:1)"
        " and 'bob' (group b, hosts.yaml:2) (say it on host h itself)"
    ]
    settled = read(f"{text}c: {{hosts: {{h: {{ansible_user: eve}}}}}}\n".encode(), "hosts.yaml").find("h")
    assert settled is not None
    assert settled.user == "eve"


def test_a_host_said_twice_may_not_contradict_itself():
    found = problems_of("a: {hosts: {h: {x: 1}}}\nb: {hosts: {h: {x: 2}}}\n")
    assert found[0].startswith("hosts.yaml:2:17: x of host h is 1 (host h, hosts.yaml:1) and 2")


def test_windows_line_ends_and_a_byte_order_mark_change_nothing():
    there = read(b"\xef\xbb\xbf" + LAYERED.replace("\n", "\r\n").encode(), "hosts.yaml")
    assert [host.variables for host in there.hosts] == [h.variables for h in read(LAYERED.encode(), "hosts.yaml").hosts]


def test_two_names_for_one_address_are_noted_and_both_kept():
    inventory = read(
        b"all:\n  hosts:\n    a: {ansible_host: 10.0.0.1}\n    b: {ansible_host: 10.0.0.1}\n", "hosts.yaml"
    )
    assert [host.name for host in inventory.hosts] == ["a", "b"]
    assert [str(note) for note in inventory.notes] == ["hosts.yaml:4:9: hosts a and b have one address, 10.0.0.1"]


def test_old_names_are_taken_with_a_note():
    inventory = read(b"all: {hosts: {a: {ansible_ssh_user: ann}}}", "hosts.yaml")
    assert inventory.hosts[0].user == "ann"
    assert "write ansible_user" in str(inventory.notes[0])


def test_what_a_run_needs_to_know_of_a_host_is_read_into_its_fields():
    text = b"""all: {hosts: {a: {tianji_ports: 5000-5100, tianji_mpiexec: ~/mpi/bin/mpiexec, tianji_mpi_abi: mpi.so,
        tianji_labels: [rack1, fast], tianji_link: wan, tianji_roles: actor}}}"""
    host = read(text, "hosts.yaml").hosts[0]
    assert (host.ports, host.mpiexec, host.mpi_abi) == ((5000, 5100), "~/mpi/bin/mpiexec", "mpi.so")
    assert (host.labels, host.link, host.roles) == (("rack1", "fast"), "wan", ("actor",))


def test_ssh_arguments_of_both_kinds_are_joined():
    text = b"all: {hosts: {a: {ansible_ssh_common_args: -J b1, ansible_ssh_extra_args: '-oPort=3 -i k'}}}"
    assert read(text, "hosts.yaml").hosts[0].ssh_words == ("-J", "b1", "-o", "Port=3", "-i", "k")


def test_files_beside_the_inventory_come_after_it_and_before_the_host(tmp_path):
    (tmp_path / "hosts.yaml").write_text("g: {hosts: {h: {own: 1}}, vars: {a: file, b: file}}\n")
    (tmp_path / "group_vars" / "all").mkdir(parents=True)
    (tmp_path / "group_vars" / "all" / "1.yml").write_text("a: all\nc: all\nown: 0\n")
    (tmp_path / "group_vars" / "g.yml").write_text("b: beside\n")
    (tmp_path / "host_vars").mkdir()
    (tmp_path / "host_vars" / "h").write_text("ansible_port: 22\n")
    host = load(tmp_path / "hosts.yaml").hosts[0]
    assert host.variables == {"a": "all", "b": "beside", "c": "all", "own": 1, "ansible_port": 22}
    beside = tmp_path / "group_vars" / "all" / "1.yml"
    assert host.settings["c"].origin == f"group all, {beside}:2"


def test_a_named_file_that_is_missing_is_never_this_machine(tmp_path, monkeypatch):
    with pytest.raises(UsageProblem, match="no such inventory") as missing:
        load(tmp_path / "none.yaml")
    assert "-i FILE" in (missing.value.hint or "")
    (tmp_path / "some.yaml").write_text("")
    with pytest.raises(UsageProblem) as misnamed:
        load(tmp_path / "some.yml")
    assert "some.yaml" in (misnamed.value.hint or "")
    with pytest.raises(UsageProblem, match="ends in"):
        load(tmp_path / "hosts.ini")
    monkeypatch.chdir(tmp_path)
    assert [host.name for host in load(None).hosts] == ["localhost"]


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_the_examples_are_valid_and_without_doubts(path):
    inventory = load(path)
    assert inventory.hosts
    assert inventory.notes == ()


def ansible_inventory() -> str:
    beside = Path(sys.executable).with_name("ansible-inventory")
    program = os.environ.get("ANSIBLE_INVENTORY_PROGRAM") or shutil.which("ansible-inventory")
    if program is None and beside.exists():
        program = str(beside)
    if program is None:
        pytest.skip("ansible-inventory is not installed (pip install tianjictl[ansible])")
    return program


@pytest.mark.parametrize("path", [*EXAMPLES, None], ids=lambda path: path.name if path else "layered")
def test_ansible_itself_reads_the_same(path, tmp_path):
    program = ansible_inventory()
    if path is None:
        path = tmp_path / "hosts.yaml"
        path.write_text(LAYERED)
        (tmp_path / "group_vars").mkdir()
        (tmp_path / "group_vars" / "rack_a.yml").write_text("size: 4\ncolour: green\n")
        (tmp_path / "group_vars" / "all.yml").write_text("depth: beside\nonly: here\n")
    done = subprocess.run(
        [program, "-i", path, "--list"], capture_output=True, text=True, timeout=60, check=True,
        env={**os.environ, "ANSIBLE_HOME": str(tmp_path / "home"), "ANSIBLE_INVENTORY_UNPARSED_FAILED": "1"},
    )  # fmt: skip
    said = json.loads(done.stdout)
    ours = load(path)
    assert {host.name: dict(host.variables) for host in ours.hosts if host.variables} == said["_meta"]["hostvars"]
    theirs = {name: set(group.get("hosts", [])) for name, group in said.items() if name != "_meta"}

    def below(name: str) -> set[str]:
        return theirs.get(name, set()).union(*(below(child) for child in said.get(name, {}).get("children", [])))

    assert {name: set(hosts) for name, hosts in ours.groups.items()} == {name: below(name) for name in ours.groups}


@given(st.lists(st.tuples(st.integers(0, len(LAYERED)), st.integers(0, 12), st.text(max_size=6)), max_size=4))
@settings(deadline=None, max_examples=300)
def test_a_file_in_whatever_state_is_an_inventory_or_a_list_of_problems(changes):
    text = LAYERED
    for start, length, new in changes:
        text = text[:start] + new + text[start + length :]
    try:
        assert read(text.encode("utf-8", "surrogatepass"), "hosts.yaml").hosts
    except InventoryProblem as problem:
        assert problem.problems
