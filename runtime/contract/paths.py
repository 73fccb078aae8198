"""Where everything of a run lies. The only module that knows a file name of the run folder."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path


def state_home() -> Path:
    """The operator's folder: `$TIANJICTL_HOME`, else `$XDG_STATE_HOME/tianjictl`, else `~/.local/state/tianjictl`."""
    if own := os.environ.get("TIANJICTL_HOME"):
        return Path(own).expanduser().absolute()
    base = os.environ.get("XDG_STATE_HOME") or "~/.local/state"
    return Path(base).expanduser().absolute() / "tianjictl"


def runs_home() -> Path:
    """The folder that holds one folder per run."""
    return state_home() / "runs"


def node_folder(home: Path | str, node: str, run_id: str) -> str:
    """The folder of a run on one of its nodes, below that node's state folder; the head's holds the run's own files.

    By node, so that hosts with one home folder do not meet in it; the run id comes last, as `RunPaths` wants it.
    """
    return f"{home}/nodes/{node}/{run_id}"


@dataclass(frozen=True, slots=True)
class RunPaths:
    """Names inside one run folder; `root` is absolute and its last part is the run id."""

    root: Path

    @property
    def run_id(self) -> str:
        return self.root.name

    @property
    def job(self) -> Path:
        """The resolved job, JSON."""
        return self.root / "job.json"

    @property
    def plan(self) -> Path:
        return self.root / "plan.json"

    @property
    def record(self) -> Path:
        """Who launched what, when, from where (RunRecord, JSON)."""
        return self.root / "run.json"

    @property
    def completion(self) -> Path:
        """Written once, last, by the coordinator; a run without it has not completed (CompletionRecord, JSON)."""
        return self.root / "completed.json"

    @property
    def view(self) -> Path:
        """The newest RunView, rewritten whole about once a second."""
        return self.root / "view.json"

    @property
    def events(self) -> Path:
        """Append-only event log, JSON lines."""
        return self.root / "events.jsonl"

    @property
    def metrics(self) -> Path:
        """Append-only metrics, JSON lines."""
        return self.root / "metrics.jsonl"

    @property
    def tensorboard(self) -> Path:
        return self.root / "tensorboard"

    @property
    def checkpoints(self) -> Path:
        return self.root / "checkpoints"

    @property
    def logs(self) -> Path:
        return self.root / "logs"

    @property
    def bad_batches(self) -> Path:
        """Batches that gave a non-finite loss or gradient, kept for inspection."""
        return self.root / "bad-batches"

    @property
    def control_socket(self) -> Path:
        """The operator's Unix socket; mode 0600. Connect with `connect_unix`, which copes with long paths."""
        return self.root / "control.sock"

    @property
    def keys(self) -> Path:
        """CURVE keys of the run, mode 0600 in a folder of mode 0700."""
        return self.root / "keys"

    @property
    def coordinator_state(self) -> Path:
        """What a restarted coordinator needs to go on (JSON)."""
        return self.root / "coordinator.json"

    @property
    def order(self) -> Path:
        """What an agent on a node is told (AgentOrder, JSON), where it is not told on standard input."""
        return self.root / "order.json"

    @property
    def answer(self) -> Path:
        """What that agent answers (AgentAnswer, JSON)."""
        return self.root / "answer.json"

    @property
    def wire_port(self) -> Path:
        """The TCP port at which the coordinator listens for agents of other nodes, kept for its successor."""
        return self.root / "wire.port"

    def courier_socket(self, peer: str) -> Path:
        """Where an agent talks to the courier of its link to `peer`."""
        return self.root / f"courier-{peer}.sock"

    @property
    def agent_lock(self) -> Path:
        """Held (flock) by the run's head agent for as long as it lives; also holds its pid."""
        return self.root / "agent.lock"

    @property
    def second_lives(self) -> Path:
        """When this node's agent was replaced by its guardian (SecondLives, JSON); not on the head."""
        return self.root / "second-lives.json"

    @property
    def orphaned(self) -> Path:
        """Written by the forkserver when it has seen the components of a dead agent out (OrphanRecord, JSON)."""
        return self.root / "orphaned.json"

    def log(self, component: str, attempt: int) -> Path:
        return self.logs / f"{component}.{attempt}.log"

    def exit_report(self, component: str, attempt: int) -> Path:
        return self.logs / f"{component}.{attempt}.exit.json"
