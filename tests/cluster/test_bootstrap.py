"""`tianjictl playbook bootstrap` on a host that has a Python and nothing else, and no way to the internet."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from support.cluster_runs import ROOT, Operator
from support.pretend_hosts import PretendHosts
from tianjictl.hosts.reader import load
from tianjictl.launching.host_check import check_host
from tianjictl.remote.reach import reach

HOST = 2
LIMITS = Path("/etc/security/limits.d")
OTHERS_PACKAGES = Path("/usr/lib/python3/dist-packages")  # of Debian; a host that is new has none
PACKAGES = ROOT / "playbooks" / "ops" / "vars" / "packages.yml"
_ANSIBLE = Path(sys.executable).with_name("ansible-playbook")

pytestmark = [
    pytest.mark.timeout(300),
    pytest.mark.skipif(
        not _ANSIBLE.exists() and shutil.which("ansible-playbook") is None,
        reason="ansible-playbook is not installed (extra `ansible`)",
    ),
]


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the playbook's comment says to make: all packages but torch, for this Python."""
    folder = tmp_path_factory.mktemp("wheels")
    wanted = yaml.safe_load(PACKAGES.read_text())["tianji_packages"]
    words = ["-q", "--disable-pip-version-check", "--only-binary=:all:", "--retries=1", "--timeout=15"]
    command = [sys.executable, "-m", "pip", "download", *words, "-d", str(folder), *wanted]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    if done.returncode != 0:
        pytest.skip(f"the packages cannot be downloaded: {done.stderr.strip().splitlines()[-1:]}")
    return folder


@pytest.fixture
def empty_host(pretend_hosts: PretendHosts) -> Iterator[Path]:
    """The inventory of a host whose /etc is its own where the playbook writes, and whose Python has no packages."""
    hidden = [str(folder) for folder in (LIMITS, OTHERS_PACKAGES) if folder.is_dir()]
    inside = pretend_hosts.enter(HOST)
    for folder in hidden:
        subprocess.run([*inside, "mount", "-t", "tmpfs", "tmpfs", folder], check=True)
    inventory = pretend_hosts.inventory(pretend_hosts.folder / "empty.yaml", [HOST])
    settings = pretend_hosts.workdir(HOST) / ".config" / "pip" / "pip.conf"
    settings.parent.mkdir(parents=True)
    settings.write_text("[install]\ncompile = false\n")  # half of the time, for what is imported twice
    content = yaml.safe_load(inventory.read_text())
    del content["all"]["vars"]["ansible_python_interpreter"]
    inventory.write_text(yaml.safe_dump(content))
    try:
        yield inventory
    finally:
        for folder in hidden:
            subprocess.run([*inside, "umount", folder], check=True)


def bootstrap(operator: Operator, wheels: Path, *words: str) -> dict[str, int]:
    """Run it; what the recap counts for the host."""
    settings = {"tianji_wheels": wheels, "tianji_torch": "false", "tianji_python": sys.executable}
    extra = [word for name, value in settings.items() for word in ("-e", f"{name}={value}")]
    done = operator.type(
        "playbook", "bootstrap", "-i", str(operator.inventory), *extra, *words, within_s=150
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    recap = done.stdout.partition("PLAY RECAP")[2]
    return {name: int(count) for name, count in re.findall(r"(\w+)=(\d+)", recap)}


def test_an_empty_host_is_made_ready_once_and_a_launch_finds_its_environment(
    pretend_hosts: PretendHosts, empty_host: Path, wheels: Path, tmp_path: Path
) -> None:
    of_this_machine = sorted(LIMITS.iterdir()) if LIMITS.is_dir() else []
    operator = Operator(tmp_path / "home", empty_host)
    (host,) = load(empty_host).hosts
    venv = pretend_hosts.workdir(HOST) / "venv"
    looked = bootstrap(operator, wheels, "--check")
    assert looked["changed"] > 0
    assert not venv.exists(), "a look makes nothing"

    first = bootstrap(operator, wheels)
    assert first["changed"] > 0
    read = [*pretend_hosts.enter(HOST), "cat", str(LIMITS / "90-tianji.conf")]
    limits = subprocess.run(read, capture_output=True, text=True, check=True).stdout.splitlines()
    assert limits == ["root soft memlock unlimited", "root hard memlock unlimited"]

    again = bootstrap(operator, wheels)
    assert (again["changed"], again["failed"], again["unreachable"]) == (0, 0, 0)
    with reach(host) as connection:
        found = check_host(connection, host, digest="none")
    assert Path(found.python) == venv / "bin" / "python"
    assert found.missing == {}
    assert (sorted(LIMITS.iterdir()) if LIMITS.is_dir() else []) == of_this_machine
