"""Takes the place of `python -m runtime agent` on a node: the same words, nothing behind them.

How it behaves is written into MODE before it is packed: `ok`, `refuse`, `die`, `mute` (never answers), `down` (the
coordinator does not come up), `silent` (a component never reports).
"""

from __future__ import annotations

import fcntl
import json
import os
import signal
import socket
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

MODE: dict[str, str] = {}  #: by node; the rest is `ok`


def main(argv: list[str]) -> int:
    order = json.loads(Path(argv[argv.index("--order") + 1]).read_text())
    root, node = Path(order["run"]), order["node"]
    mode = MODE.get(node, "ok")
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    sys.stderr.write(f"agent of {node}, version {os.environ.get('TIANJI_VERSION')}\n")
    sys.stderr.flush()
    if mode == "die":
        sys.stderr.write("a library is missing\n")
        return 3
    if mode == "mute":
        time.sleep(120)
    if mode == "refuse":
        answer(root, {"error": "no memory for the rings", "hint": "a smaller buffer"})
        return 1
    if mode == "down":
        answer(root, {"error": "the coordinator did not come up: the port is taken"})
        return 1
    if not order["head"]:
        (root / "told.json").write_text(json.dumps(sorted(os.listdir(root / "keys"))))  # noqa: PTH208 - names
        answer(root, {"ready": True})
        time.sleep(120)
    lead(root, mode)
    return 0


def answer(root: Path, content: dict[str, object]) -> None:
    (root / "answer.new").write_text(json.dumps(content))
    (root / "answer.new").rename(root / "answer.json")


def lead(root: Path, mode: str) -> None:
    """The head: keys, lock, and a coordinator that shows every component running."""
    lock = os.open(root / "agent.lock", os.O_RDWR | os.O_CREAT, 0o600)
    fcntl.flock(lock, fcntl.LOCK_EX)
    os.write(lock, f"{os.getpid()}\n".encode())
    (root / "keys").mkdir(exist_ok=True, mode=0o700)
    for name in ("agent.public", "agent.secret", "coordinator.public", "coordinator.secret", "link.key"):
        (root / "keys" / name).write_text(f"{name} of {root.name}\n")
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    os.chdir(root)
    Path("control.sock").unlink(missing_ok=True)
    listener.bind("control.sock")
    listener.listen()
    answer(root, {"ready": True, "endpoint": "tcp://127.0.0.1:40001"})
    plan = json.loads((root / "plan.json").read_text())
    while True:
        connection, _ = listener.accept()
        with connection, connection.makefile("rb") as lines:
            line = lines.readline()
            if not line:
                continue
            op = json.loads(line)["op"]
            (root / "events.jsonl").open("a").write(event(op) + "\n")
            reply = checkpoint(root) if op == "checkpoint" else view(root, plan, mode)
            connection.sendall(json.dumps({"ok": True, "data": reply}).encode() + b"\n")
        if op == "stop":
            complete(root)
            os._exit(0)


def view(root: Path, plan: dict[str, object], mode: str) -> dict[str, object]:
    placements: list[dict[str, str]] = plan["placements"]  # type: ignore[assignment]
    quiet = "starting" if mode == "silent" else "running"
    shape = {"wanted": plan["shape"], "present": plan["shape"]}
    return {
        "run_id": root.name, "name": "cartpole", "state": quiet, "reason": "because", "shape": shape,
        "updated_at": datetime.now(UTC).isoformat(),
        "components": [{"name": p["name"], "role": p["role"], "host": p["host"], "state": quiet} for p in placements],
    }  # fmt: skip


def checkpoint(root: Path) -> dict[str, object]:
    made = root / "checkpoints" / "step-000000000128"
    made.mkdir(exist_ok=True)
    (made / "manifest.json").touch()
    return {"step": 128}


def event(op: str) -> str:
    now = datetime.now(UTC).isoformat()
    return json.dumps({"id": "e1", "time": now, "kind": "asked", "message": f"asked for {op}"})


def complete(root: Path) -> None:
    record = json.loads((root / "run.json").read_text())
    done = {
        "run_id": root.name, "attempt": record["attempt"], "state": "stopped", "reason": "asked by the operator",
        "ended_at": datetime.now(UTC).isoformat(), "env_steps": 1, "updates": 1,
    }  # fmt: skip
    (root / "completed.json").write_text(json.dumps(done))
