"""`python -m runtime checkpoints {list,verify,find,prune} FOLDER …`: the store, answered in one line of JSON."""

from __future__ import annotations

import argparse
import json
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from runtime.checkpoint import store
from runtime.checkpoint.errors import CheckpointError

if TYPE_CHECKING:
    from collections.abc import Sequence

CHECKPOINT_PROBLEM = 11  #: exit code of a missing or damaged checkpoint


def main(argv: Sequence[str]) -> int:
    """Print the answer, or `{"error": …, "hint": …}` with exit code 11."""
    words = _parser().parse_args(argv)
    try:
        answer = _answer(words, datetime.now(UTC))
    except CheckpointError as error:
        _print({"error": error.message, "hint": error.hint})
        return CHECKPOINT_PROBLEM
    except OSError as error:
        _print({"error": f"{error.filename or words.folder}: {error.strerror or error}", "hint": None})
        return CHECKPOINT_PROBLEM
    _print(answer)
    return 0


def _answer(words: argparse.Namespace, now: datetime) -> dict[str, Any]:
    folder: Path = words.folder
    if words.action == "prune":
        return {"removed": [str(path) for path in store.prune(folder, words.keep, now=now.timestamp())]}
    if words.action == "find":
        found = store.find(folder, words.selector)
        known = {info.path: info for info in store.listing(found.folder.parent, now=now)}
        info = known.get(str(found.folder))
        if info is None:
            raise CheckpointError(
                f"{found.folder} is not named like a checkpoint", hint="give a folder such as step-000000012000"
            )
        return {"checkpoint": info.model_dump(mode="json"), "skipped": list(found.skipped)}
    listed = store.listing(folder, now=now, content=words.action == "verify")
    return {"checkpoints": [info.model_dump(mode="json") for info in listed]}


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m runtime checkpoints")
    actions = parser.add_subparsers(dest="action", required=True)
    for name, what in (
        ("list", "all checkpoints, by manifest and sizes"),
        ("verify", "all checkpoints, every byte"),
        ("find", "the one that `latest`, a step or a path names"),
        ("prune", "remove all but the newest"),
    ):
        action = actions.add_parser(name, help=what)
        action.add_argument("folder", type=Path, help="the checkpoints folder of a run")
        if name == "find":
            action.add_argument("selector", help="latest, a step number or a path")
        if name == "prune":
            action.add_argument("--keep", type=int, required=True, help="how many complete ones stay")
    return parser


def _print(answer: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(answer) + "\n")
