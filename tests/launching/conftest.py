"""Hosts behind real SSH servers on loopback addresses, and agents that only stand in for the real ones."""

from __future__ import annotations

import shutil
import signal
from collections.abc import Callable, Iterator
from functools import lru_cache
from pathlib import Path

import pytest

from runtime.contract.algorithm import PpoConfig
from runtime.contract.envspec import EnvSpec
from runtime.contract.job import EnvConfig, Job
from runtime.contract.plan import Fingerprints, HostPlan, Placement, Plan, Sizes
from runtime.contract.states import Role
from support import stand_in_agent
from support.ssh_servers import SSHD, Server, Servers, make_key
from tianjictl.cli.main import main
from tianjictl.hosts.types import Inventory
from tianjictl.launching import host_check, nodes, staging
from tianjictl.launching.cluster_launch import launch_over
from tianjictl.runs import access
from tianjictl.runs.processes import send
from tianjictl.runs.registry import Run, list_runs


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A state folder of the test's own."""
    monkeypatch.setenv("TIANJICTL_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.delenv("TIANJICTL_INVENTORY", raising=False)
    yield tmp_path / "home" / "runs"
    access.close_all()


@pytest.fixture(scope="session")
def user_key(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if SSHD is None or shutil.which("ssh") is None:
        pytest.skip("sshd or ssh is not installed (Debian: openssh-server)")
    return make_key(tmp_path_factory.mktemp("user") / "id")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, user_key: Path) -> Iterator[Server]:
    servers = Servers(tmp_path_factory.mktemp("shared"), user_key)
    # A home without the files that a shell reads first: those of whoever runs the tests cost time at every command.
    yield servers(f"SetEnv HOME={tmp_path_factory.mktemp('home')}", last=4)
    servers.close()


@pytest.fixture(scope="session")
def used_state(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of hosts that has been in use: what is staged there is compiled once for all tests."""
    return tmp_path_factory.mktemp("state")


@pytest.fixture
def hosts(server: Server, used_state: Path, tmp_path: Path) -> Callable[..., Inventory]:
    """An inventory of hosts behind SSH: `hosts("cn01", "cn02")`. With `fresh` nothing is staged on them yet."""

    def make(*names: str, fresh: bool = False, **changes: dict[str, object]) -> Inventory:
        made = []
        for name in names:
            folder = tmp_path / name if fresh else used_state
            settings = {"workdir": str(folder), "network": "127.0.0.0/8", **changes.get(name, {})}
            made.append(server.host(name, **settings))
        return Inventory("hosts.yaml", tuple(made))

    return make


@pytest.fixture
def agents(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """What is staged is the runtime with agents that stand in: `agents(cn02="mute")`."""

    def behave(**modes: str) -> None:
        changed = _stand_in(tuple(sorted(modes.items())))
        monkeypatch.setattr(host_check, "MODULES", ("json",))  # what stands in needs no more
        for module in (staging, nodes):
            monkeypatch.setattr(module, "runtime_archive", lambda: changed)

    behave()
    return behave


@pytest.fixture
def plan_of() -> Callable[[Inventory], Plan]:
    """L1 with an actor on every host; the first host is the head."""

    def make(inventory: Inventory) -> Plan:
        names = [host.name for host in inventory.hosts]
        return Plan(
            shape=f"L1A{len(names)}",
            job=Job(name="cartpole", env=EnvConfig(id="CartPole-v1"), algorithm=PpoConfig(name="ppo")),
            env=EnvSpec(
                id="CartPole-v1", observation_shape=(4,), num_actions=2, native_vector=True, autoreset="same-step"
            ),
            sizes=Sizes(
                num_envs=4, rollout=8, batch_size=64, fragments_per_batch=2, buffer_size=256, ring_slots=4,
                batch_slots=2, publish_every=1, staleness_tolerance=0.25, pool_ratio=0.25,
            ),
            hosts=tuple(HostPlan(name=name, cores=(0,), network="127.0.0.0/8") for name in names),
            placements=(
                _placed(Role.LEARNER, 0, names[0]),
                _placed(Role.BUFFER, 0, names[0]),
                *(_placed(Role.ACTOR, index, name) for index, name in enumerate(names)),
            ),
            fingerprints=Fingerprints(job="j", inventory="i"),
            solver="optimal",
        )  # fmt: skip

    return make


@pytest.fixture
def launched(plan_of: Callable[[Inventory], Plan]) -> Iterator[Callable[..., Run]]:
    """Launches over an inventory; what is still there when the test ends is ended with it."""

    def launch(inventory: Inventory, progress: Callable[[str], None] = lambda _line: None) -> Run:
        run, _ = launch_over(
            inventory, "CartPole-v1", lambda _connections: plan_of(inventory),
            name="cartpole", argv=["launch"], version="1", progress=progress,
        )  # fmt: skip
        return run

    yield launch
    for run in list_runs():
        send(run, signal.SIGKILL)


@pytest.fixture
def tianjictl(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    """Runs one command line in this process: (exit code, standard output, standard error)."""

    def call(*words: str) -> tuple[int, str, str]:
        code = main(words)
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return call


@lru_cache
def _stand_in(modes: tuple[tuple[str, str], ...]) -> staging.Archive:
    """The parts of the runtime that answer questions, and an agent that only stands in."""
    kept = ("__init__.py", "__main__.py", "contract/", "checkpoint/", "control/__init__.py", "control/relay.py")
    whole = staging.unpacked(staging.runtime_archive())
    files = {name: data for name, data in whole.items() if name.removeprefix("runtime/").startswith(kept)}
    source = Path(stand_in_agent.__file__).read_text().replace("= {}  #: by node", f"= {dict(modes)!r}  #: by node")
    return staging.pack({**files, "runtime/control/agent_main.py": source.encode()})


def _placed(role: Role, index: int, host: str) -> Placement:
    name = f"{role}-{index}"
    return Placement(name=name, role=role, index=index, group=0, host=host, cores=(0,), core_share=0.3)
