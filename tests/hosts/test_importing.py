"""Inventories made of a Slurm list, an MPI hostfile or an SSH configuration."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tianjictl.cli.main import main
from tianjictl.errors import UsageProblem
from tianjictl.hosts.importing.hostfile import hostfile_hosts
from tianjictl.hosts.importing.slurm import ListError, cpu_counts, hostnames
from tianjictl.hosts.reader import load

#: What `scontrol show hostnames` of Slurm 22.05 prints.
SCONTROL = {
    "cn1": "cn1",
    "a,b,c": "a b c",
    "cn1 cn2": "cn1 cn2",
    "cn[1-3]": "cn1 cn2 cn3",
    "cn[01-04,07]": "cn01 cn02 cn03 cn04 cn07",
    "cn[08-11]": "cn08 cn09 cn10 cn11",
    "cn[001-3]": "cn001 cn002 cn003",
    "cn[9-010]": "cn9 cn10",
    "cn[9-11,1]": "cn9 cn10 cn11 cn1",
    "tux[7,5,9-10,2]": "tux7 tux5 tux9 tux10 tux2",
    "a[1-2],b[3-4]": "a1 a2 b3 b4",
    "a[1-2] b": "a1 a2 b",
    "gpu[1-2]n[01-02]": "gpu1n01 gpu1n02 gpu2n01 gpu2n02",
    "[1-3]": "1 2 3",
}
BAD = [
    "", " ", "cn[]", "cn[3-1]", "cn[a-c]", "cn[1,,2]", "cn[-3]", "cn[1-2-3]", "cn[[1-2]]", "cn[1-4:2]", "cn[0x1-3]",
    "cn[1", "cn1]", "cn[1-]", "cn[1-2],", ",cn1", "a,,b", "cn[1 - 2]", "cn[99999999999999999999]", "cn[1-30000]",
    "a[1-200]b[1-200]",
]  # fmt: skip


@pytest.fixture(autouse=True)
def _outside_of_any_job(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("SLURM_JOB_NODELIST", "SLURM_NODELIST", "SLURM_JOB_CPUS_PER_NODE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("text", SCONTROL)
def test_a_slurm_list_is_what_slurm_makes_of_it(text: str) -> None:
    assert hostnames(text) == SCONTROL[text].split()


def test_text_behind_a_bracket_is_kept_though_slurm_has_none() -> None:
    assert hostnames("cn[01-02].lab,x[1-2]y[1-2]z") == ["cn01.lab", "cn02.lab", "x1y1z", "x1y2z", "x2y1z", "x2y2z"]


@pytest.mark.parametrize("text", BAD)
def test_a_slurm_list_with_a_slip_is_refused(text: str) -> None:
    with pytest.raises(ListError):
        hostnames(text)


def test_cpus_of_a_job_limit_the_cores_of_each_host(monkeypatch, capsys) -> None:
    monkeypatch.setenv("SLURM_JOB_NODELIST", "cn[1-3]")
    monkeypatch.setenv("SLURM_JOB_CPUS_PER_NODE", "36(x2),20")
    for words in (["--slurm"], ["--slurm", "cn[1-3]"]):  # the same list, written out
        assert main(["inventory", "import", *words, "-o", "job.yaml"]) == 0
        assert [(h.name, h.max_cores) for h in load(Path("job.yaml")).hosts] == [("cn1", 36), ("cn2", 36), ("cn3", 20)]
        Path("job.yaml").unlink()
    assert main(["inventory", "import", "--slurm", "other[1-3]", "-o", "other.yaml"]) == 0
    assert [h.max_cores for h in load(Path("other.yaml")).hosts] == [None] * 3
    capsys.readouterr()
    monkeypatch.setenv("SLURM_JOB_CPUS_PER_NODE", "36(x2)")
    assert main(["inventory", "import", "--slurm"]) == 2
    assert "names 3 hosts, but SLURM_JOB_CPUS_PER_NODE=36(x2) counts the CPUs of 2" in capsys.readouterr().err
    for bad in ("x", "36(x0)", "36(2)", "0", "36,", "36(x2"):
        with pytest.raises(ListError):
            cpu_counts(bad)


HOSTFILE = """\
# made by hand
cn01 slots=4 max_slots=8   # of Open MPI
cn02 slots = 2
ann@cn03
cn04:6                     # of MPICH
cn04:2
cn05
cn05
cn06:3 binding=user:0,1,2 user=bob
[fd00::7]:5
fd00::8 slots=1 port=2222
10.0.0.9 max-slots=3
"""


def test_a_hostfile_of_either_mpi_gives_hosts_and_their_cores() -> None:
    Path("hosts").write_text(HOSTFILE.replace("\n", "\r\n"), newline="")
    assert main(["inventory", "import", "--hostfile", "hosts", "-o", "made.yaml"]) == 0
    told = {h.name: (h.address, h.user, h.port, h.max_cores) for h in load(Path("made.yaml")).hosts}
    assert told == {
        "cn01": ("cn01", None, None, 4),
        "cn02": ("cn02", None, None, 2),
        "cn03": ("cn03", "ann", None, None),
        "cn04": ("cn04", None, None, 8),
        "cn05": ("cn05", None, None, 2),
        "cn06": ("cn06", "bob", None, 3),
        "ip-fd00--7": ("fd00::7", None, None, 5),
        "ip-fd00--8": ("fd00::8", None, 2222, 1),
        "10.0.0.9": ("10.0.0.9", None, None, 3),
    }


def test_every_bad_line_of_a_hostfile_is_named() -> None:
    lines = [
        "cn1 slots=x", "^cn2", "+n0", "fd00::1:3", "@x", "cn3 slot=2", "cn4:", "cn5 slots=4", "cn5", "cn5 slots=1",
        "cn6 slots=9 max_slots=3", "-x", "n\u0153ud", "cn7 slots", "12", "[::1", "cn8", "ann@cn8", "cn9 slots=0",
    ]  # fmt: skip
    good = {"cn5 slots=4", "cn8"}
    with pytest.raises(UsageProblem) as caught:
        hostfile_hosts("\n".join(lines), "h")
    said = [finding.message for finding in caught.value.findings()]
    numbers = [number for number, line in enumerate(lines, start=1) if line not in good]
    assert [int(message.split(":")[1]) for message in said] == numbers
    with pytest.raises(UsageProblem, match="h: names no hosts"):
        hostfile_hosts("# nothing\n\n", "h")


SSH_CONFIG = """\
Include {folder}/more/*.conf
Include {folder}/missing
Host cn1 cn2 !no
  HostName %h.lab
  ProxyJump bastion
Host bastion
  HostName gate.example
  User ann_of_the_test
  Port 2222
  IdentityFile {folder}/keys/first
  IdentityFile {folder}/keys/second
  IdentitiesOnly yes
Host plain
Host *
  ServerAliveInterval 5
"""
MORE = 'Host = "far1"\n  HostName 10.0.0.9\n  ProxyCommand ssh -W %h:%p "gate x"\nMatch host far1\n  User zoe\n'


@pytest.fixture
def ssh_config(tmp_path: Path) -> Path:
    if shutil.which("ssh") is None:
        pytest.skip("ssh is not installed (Debian: openssh-client)")
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / "a.conf").write_text(MORE)
    (tmp_path / "config").write_text(SSH_CONFIG.format(folder=tmp_path))
    return tmp_path / "config"


def test_an_ssh_configuration_gives_hosts_as_ssh_itself_reaches_them(ssh_config: Path) -> None:
    assert main(["inventory", "import", "--ssh-config", str(ssh_config), "-o", "made.yaml"]) == 0
    hosts = {host.name: host for host in load(Path("made.yaml")).hosts}
    keys = ssh_config.parent / "keys"
    own = ("-F", str(ssh_config))
    assert list(hosts) == ["far1", "cn1", "cn2", "bastion", "plain"]
    assert hosts["far1"].address == "10.0.0.9"
    assert hosts["far1"].ssh_words == (*own, "-o", 'ProxyCommand=ssh -W %h:%p "gate x"')
    assert (hosts["cn2"].address, hosts["cn2"].ssh_words) == ("cn2.lab", (*own, "-o", "ProxyJump=bastion"))
    gate = hosts["bastion"]
    assert (gate.address, gate.user, gate.port) == ("gate.example", "ann_of_the_test", 2222)
    assert gate.key_file == str(keys / "first")
    assert gate.ssh_words == (*own, "-i", str(keys / "second"), "-o", "IdentitiesOnly=yes")
    plain = hosts["plain"]
    assert (plain.address, plain.user, plain.port, plain.key_file) == ("plain", None, None, None)


def test_names_like_a_pattern_are_taken_alone(ssh_config: Path, capsys) -> None:
    words = ["inventory", "import", "--ssh-config", str(ssh_config), "--match"]
    assert main([*words, "cn*", "--json"]) == 0
    data = json.loads(capsys.readouterr().out)["data"]
    assert [host["name"] for host in data["hosts"]] == ["cn1", "cn2"]
    assert data["inventory"].count("ProxyJump=bastion") == 1  # what all say alike is written once
    assert main([*words, "x*"]) == 2
    assert "names no host like x*" in capsys.readouterr().err


def test_what_ssh_refuses_is_said_with_file_and_line(tmp_path: Path, ssh_config: Path, capsys) -> None:
    ssh_config.write_text("Host a\n  Port many\nHost b\n")
    assert main(["inventory", "import", "--ssh-config", str(ssh_config)]) == 2
    assert f"{ssh_config}:1:1: a: configuration: ssh -G refuses" in capsys.readouterr().err
    ssh_config.write_text(f"Include {ssh_config}\n")
    assert main(["inventory", "import", "--ssh-config", str(ssh_config)]) == 2
    assert "does a file include itself" in capsys.readouterr().err
    assert main(["inventory", "import", "--ssh-config", str(tmp_path / "none")]) == 2
    assert "none: cannot be read" in capsys.readouterr().err


def test_a_file_that_is_there_is_left_as_it_is(capsys) -> None:
    Path("mine.yaml").write_text("mine")
    assert main(["inventory", "import", "--slurm", "cn1", "-o", "mine.yaml"]) == 2
    assert "mine.yaml is there already" in capsys.readouterr().err
    assert Path("mine.yaml").read_text() == "mine"
    assert main(["inventory", "import", "--slurm", "cn1", "-o", "made.ini"]) == 2
    assert "-o made.yaml" in capsys.readouterr().err
    assert main(["inventory", "import", "--slurm", "cn1", "-o", "no/such/made.yaml"]) == 2
    assert not Path("no").exists()


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["import"], "takes one of --slurm, --hostfile and --ssh-config"),
        (["import", "--slurm", "cn1", "--hostfile", "h"], "takes one of"),
        (["import", "--slurm"], "SLURM_JOB_NODELIST is not set"),
        (["import", "--slurm", "cn[1-2],cn1"], "--slurm: host cn1 is named twice"),
        (["import", "--slurm", "[7-9]"], "'7' is no name for a host"),
        (["import", "--slurm", "cn1", "--match", "c*"], "--match goes with --ssh-config"),
        (["import", "--hostfile", "none"], "none: cannot be read"),
        (["import", "cn1", "--slurm", "cn1"], "import takes no host"),
        (["list", "--slurm", "cn1"], "list makes no inventory"),
    ],
)
def test_what_cannot_be_meant_is_refused_with_a_hint(capsys, words: list[str], text: str) -> None:
    assert main(["inventory", *words]) == 2
    err = capsys.readouterr().err
    assert text in err
    assert "hint:" in err


def test_ansible_reads_the_same_from_what_was_made(capsys) -> None:
    ansible = Path(sys.executable).with_name("ansible-inventory")
    if not ansible.exists():
        pytest.skip("ansible-core is not installed")
    Path("hosts").write_text(HOSTFILE)
    assert main(["inventory", "import", "--hostfile", "hosts", "-o", "made.yaml"]) == 0
    done = subprocess.run([ansible, "-i", "made.yaml", "--list"], capture_output=True, text=True, check=True)
    theirs = json.loads(done.stdout)["_meta"]["hostvars"]
    assert {name: dict(values) for name, values in theirs.items()} == {
        host.name: dict(host.variables) for host in load(Path("made.yaml")).hosts if host.variables
    }
    capsys.readouterr()
