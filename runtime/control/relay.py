"""`python -m runtime ask FOLDER QUESTION`: a run's folder and its coordinator, asked from another machine in one go.

Answers with one JSON line (`runtime.contract.relay.RelayAnswer`). It is started anew for each question, so it imports
next to nothing.
"""

from __future__ import annotations

import base64
import fcntl
import json
import os
import socket
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

from runtime.contract.log_files import read_on
from runtime.contract.paths import RunPaths


def main(argv: list[str]) -> int:
    """Prints the answer; 2 for words that make no sense."""
    if len(argv) != 2:
        sys.stderr.write("usage: python -m runtime ask FOLDER QUESTION\n")
        return 2
    answer = answer_to(RunPaths(Path(argv[0])), json.loads(argv[1]))
    sys.stdout.write(json.dumps(answer) + "\n")
    return 0


def answer_to(paths: RunPaths, question: dict[str, Any]) -> dict[str, Any]:
    """All that the question asks for."""
    answer: dict[str, Any] = {"now": time.time()}
    if question.get("request") is not None:
        answer |= _ask(paths, question["request"], float(question.get("timeout_s", 5.0)))
    if question.get("status"):
        # Whether anybody lives is asked first, so that a run that ends meanwhile is not taken for lost.
        answer["agent_pid"] = _agent_pid(paths)
        answer["completion"] = _document(paths.completion)
        if answer.get("reply") is None:
            answer["view"] = _document(paths.view)
    if question.get("logs") is not None:
        asked = question["logs"]
        pieces = read_on(
            paths.logs,
            asked.get("ends", {}),
            lines=asked.get("lines"),
            chosen=asked.get("chosen", ()),
            whole=asked.get("whole", True),
        )
        answer["logs"] = [asdict(piece) for piece in pieces]
    if question.get("read") is not None:
        answer |= _read(paths.root / question["read"], int(question.get("offset", 0)))
    answer["changed"] = {name: when for name in question.get("changed", ()) if (when := _changed(paths.root / name))}
    return answer


def _ask(paths: RunPaths, request: dict[str, Any], timeout_s: float) -> dict[str, Any]:
    try:
        os.chdir(paths.root)  # so that the socket's name is short, however deep the folder lies
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.settimeout(timeout_s)
            connection.connect(paths.control_socket.name)
            connection.sendall(json.dumps(request).encode() + b"\n")
            with connection.makefile("rb") as lines:
                return {"reply": json.loads(lines.readline())}
    except TimeoutError:
        return {"problem": f"did not answer within {timeout_s:g} s"}
    except FileNotFoundError:
        return {"problem": "does not answer: it has no control socket"}
    except ConnectionRefusedError:
        return {"problem": "does not answer: nobody listens on its control socket"}
    except (OSError, ValueError) as error:
        return {"problem": f"does not answer: {error or type(error).__name__}"}


def _agent_pid(paths: RunPaths) -> int | None:
    """The pid of the run's agent while it holds the lock."""
    try:
        descriptor = os.open(paths.agent_lock, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        words = paths.agent_lock.read_text().split()
        return int(words[0]) if words and words[0].isdigit() else None
    finally:
        os.close(descriptor)
    return None


def _document(path: Path) -> Any:
    try:
        return json.loads(path.read_bytes())
    except (OSError, ValueError):
        return None


def _read(path: Path, offset: int) -> dict[str, Any]:
    try:
        with path.open("rb") as file:
            file.seek(offset)
            data = file.read()
    except OSError:
        return {"content": None, "end": offset}
    return {"content": base64.b64encode(data).decode(), "end": offset + len(data)}


def _changed(path: Path) -> float | None:
    try:
        return path.stat().st_mtime
    except OSError:
        return None
