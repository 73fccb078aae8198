"""`tianjictl inventory` shows hosts and origins, as text and as one JSON document."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tianjictl.cli.main import main

CLUSTER = str(Path(__file__).resolve().parents[2] / "inventory" / "cluster.yaml")


def test_list_shows_every_host_of_the_file(capsys):
    assert main(["inventory", "list", "-i", CLUSTER]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 14
    assert lines[1].split()[:3] == ["gpu01.lab", "gpu01.lab", "ssh"]


def test_show_says_where_each_value_was_written(capsys):
    assert main(["inventory", "show", "cn90.lab", "-i", CLUSTER, "--origin"]) == 0
    out = capsys.readouterr().out
    assert "host cn90.lab, " in next(line for line in out.splitlines() if "tianji_max_cores" in line)
    assert "group actors, " in next(line for line in out.splitlines() if "tianji_roles" in line)


def test_json_is_one_document_with_values_and_origins(capsys):
    assert main(["inventory", "show", "far1.lab", "-i", CLUSTER, "--json"]) == 0
    (host,) = json.loads(capsys.readouterr().out)["data"]["hosts"]
    assert (host["link"], host["ssh_words"]) == ("wan", ["-o", "ProxyJump=bastion.lab"])
    assert host["variables"]["tianji_link"]["origin"].startswith("group behind_bastion, ")


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["show", "cn91.lab", "-i", CLUSTER], "did you mean cn90.lab?"),
        (["lst"], "no such action"),
        (["list", "--origin"], "show HOST --origin"),
        (["list", "-i", "nowhere.yaml"], "no such inventory"),
    ],
)
def test_what_is_wrong_is_exit_code_2_with_a_hint(capsys, words, text):
    assert main(["inventory", *words]) == 2
    assert text in capsys.readouterr().err


def test_an_inventory_that_cannot_be_read_says_where_to_look(capsys, tmp_path):
    (tmp_path / "hosts.yaml").write_text("all:\n  hosts:\n\tnode1:\n")
    assert main(["inventory", "-i", str(tmp_path / "hosts.yaml")]) == 2
    err = capsys.readouterr().err
    assert "hosts.yaml:3:1: tab at line 3, use spaces" in err
    assert "hint: inventory/cluster.yaml of tianjictl shows every setting" in err


def test_a_bad_inventory_lists_every_finding(capsys, tmp_path):
    bad = tmp_path / "hosts.yaml"
    bad.write_text("all:\n  hosts:\n    a: {ansible_port: x}\n  vrs:\n")
    assert main(["inventory", "-i", str(bad)]) == 2
    err = capsys.readouterr().err
    assert f"error: {bad}:3:23: ansible_port must be a whole number" in err
    assert f"error: {bad}:4:3: unknown key 'vrs'" in err


def test_list_shows_how_many_cores_a_host_may_give(capsys, tmp_path):
    made = str(tmp_path / "made.yaml")
    (tmp_path / "hostfile").write_text("n1 slots=6\nn2\n")
    assert main(["inventory", "import", "--hostfile", str(tmp_path / "hostfile"), "-o", made]) == 0
    capsys.readouterr()
    assert main(["inventory", "list", "-i", made]) == 0
    head, first, second = capsys.readouterr().out.splitlines()
    column = slice(head.index("max cores"), head.index("link"))
    assert (first[column].strip(), second[column].strip()) == ("6", "-")


def test_the_inventory_of_the_environment_is_shown_and_hinders_no_import(capsys, tmp_path, monkeypatch):
    monkeypatch.setenv("TIANJICTL_INVENTORY", CLUSTER)
    assert main(["inventory", "list"]) == 0
    assert "gpu01.lab" in capsys.readouterr().out
    (tmp_path / "hostfile").write_text("n1 slots=6\n")
    assert main(["inventory", "import", "--hostfile", str(tmp_path / "hostfile")]) == 0
    assert main(["inventory", "import", "--hostfile", str(tmp_path / "hostfile"), "-i", "other.yaml"]) == 2


def test_of_a_host_without_variables_no_empty_table_is_shown(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TIANJICTL_INVENTORY", raising=False)
    assert main(["inventory", "show", "--origin"]) == 0
    out, err = capsys.readouterr()
    assert out == ""
    assert "no variable was written for localhost" in err
