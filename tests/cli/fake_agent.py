"""Stands in for `python -m runtime agent`: same words on standard input and output, no training behind it.

usage: fake_agent.py MODE, one of `ok`, `refuse`, `die`, `fails` (the run fails while starting), `silent` (not all
components report), `deaf` (reads no order).
"""

import fcntl
import json
import os
import signal
import socket
import sys
import time
from datetime import UTC, datetime
from pathlib import Path


def main(mode: str) -> None:
    if mode == "deaf":
        time.sleep(60)
    line = sys.stdin.readline()
    if not line.strip():
        return
    root = Path(json.loads(line)["run"])
    if mode == "die":
        sys.stderr.write("a library is missing\n")
        sys.exit(3)
    if mode == "refuse":
        say({"error": "no memory for the rings", "hint": "a smaller buffer"})
        sys.exit(1)
    lock = os.open(root / "agent.lock", os.O_RDWR | os.O_CREAT, 0o600)
    fcntl.flock(lock, fcntl.LOCK_EX)
    os.write(lock, f"{os.getpid()}\n".encode())
    (root / "order.json").write_text(line)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    os.chdir(root)
    listener.bind("control.sock")
    listener.listen()
    say({"ready": True})
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    serve(listener, mode, root)


def say(answer: dict[str, object]) -> None:
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()


def serve(listener: socket.socket, mode: str, root: Path) -> None:
    looks = 0
    while True:
        connection, _ = listener.accept()
        with connection, connection.makefile("rb") as lines:
            op = json.loads(lines.readline())["op"]
            looks += 1
            connection.sendall(json.dumps({"ok": True, "data": view(mode, root, looks)}).encode() + b"\n")
        if op == "stop":
            return


def view(mode: str, root: Path, looks: int) -> dict[str, object]:
    up = looks > 2 and mode == "ok"
    (root / "logs" / "learner-0.1.log").write_text("RuntimeError: no such device\n")
    components = [
        {"name": "learner-0", "role": "learner", "host": "localhost", "state": "running" if up else "starting"},
    ]
    failed = mode == "fails" and looks > 2
    return {
        "run_id": root.name,
        "name": "cartpole",
        "state": "running" if up else "failed" if failed else "starting",
        "reason": "restart budget spent" if failed else "because",
        "shape": {"wanted": "L1A1", "present": "L1A1"},
        "updated_at": datetime.now(UTC).isoformat(),
        "components": components,
    }


main(sys.argv[1])
