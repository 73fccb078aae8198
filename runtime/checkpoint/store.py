"""The checkpoints of a run: list, verify, find, prune. A damaged one is reported and passed over, never used."""

from __future__ import annotations

import fcntl
import os
import shutil
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from runtime.checkpoint.errors import CheckpointError
from runtime.checkpoint.manifest import MANIFEST, Manifest, file_digest, read_manifest
from runtime.checkpoint.names import WRITER_LOCK, step_folder, step_of
from runtime.checkpoint.verified import Verified, keep, recall, stamp_of
from runtime.contract.model import View

if TYPE_CHECKING:
    from collections.abc import Iterator

_ABANDONED_AFTER_S = 3600.0  #: a partial folder that nobody ever locked is a left-over when it is this old


class CheckpointInfo(View):
    """One line of `tianjictl checkpoints`."""

    step: int
    path: str
    created_at: datetime | None = None
    age_s: float | None = None
    bytes: int = 0
    shape: str | None = None
    complete: bool
    problems: tuple[str, ...] = ()
    verified: bool = False  #: every byte was compared, and no file has changed since


@dataclass(frozen=True, slots=True)
class Found:
    """A verified checkpoint, and what was passed over on the way to it."""

    folder: Path
    manifest: Manifest
    skipped: tuple[str, ...] = ()


def verify(folder: Path, *, content: bool = True) -> list[str]:
    """What is wrong with a checkpoint, one line each; empty means complete. `content=False` skips the hashing."""
    try:
        manifest = read_manifest(folder)
    except CheckpointError as error:
        return [error.message]
    problems = []
    try:
        present = {path.name for path in folder.iterdir()} - {MANIFEST}
    except OSError as error:
        return [f"{folder} cannot be read: {error.strerror}"]
    for name, entry in manifest.files.items():
        path = folder / name
        try:
            size = path.stat().st_size
            if size != entry.bytes:
                problems.append(f"{path} has {size} bytes, {entry.bytes} were written")
            elif content and file_digest(path) != entry.sha256:
                problems.append(f"{path} is damaged: its content does not match its checksum")
        except FileNotFoundError:
            problems.append(f"{path} is missing")
        except OSError as error:
            problems.append(f"{path} cannot be read: {error.strerror}")
    problems += [f"{folder / name} does not belong to the checkpoint" for name in sorted(present - set(manifest.files))]
    return problems


def newest_complete(checkpoints: Path) -> tuple[Path | None, list[str]]:
    """The newest checkpoint without any damage, and why newer ones were passed over. Hashes what it looks at."""
    skipped: list[str] = []
    for folder in _newest_first(checkpoints):
        problems = verify(folder)
        if not problems:
            return folder, skipped
        skipped += [f"skipped {folder.name}: {problem}" for problem in problems]
    return None, skipped


def find(checkpoints: Path, selector: str = "latest") -> Found:
    """The checkpoint that `latest`, a step number or a path names, verified; CheckpointError where there is none."""
    if selector == "latest":
        folder, skipped = newest_complete(checkpoints)
        if folder is None:
            raise CheckpointError(
                "; ".join([f"no complete checkpoint in {checkpoints}", *skipped]),
                hint="launch the job again to start from scratch; a run never does that by itself",
            )
        return Found(folder, read_manifest(folder), tuple(skipped))
    folder = step_folder(checkpoints, int(selector)) if selector.isdecimal() else Path(selector).expanduser()
    if selector.isdecimal() and not folder.is_dir():
        steps = [str(step_of(known)) for known in _newest_first(checkpoints)]
        raise CheckpointError(
            f"no checkpoint of step {selector} in {checkpoints}", hint=f"there are: {', '.join(steps) or 'none'}"
        )
    manifest = read_manifest(folder)
    problems = verify(folder)
    if problems:
        raise CheckpointError("; ".join(problems), hint="use latest: it passes over damaged ones")
    return Found(folder, manifest)


def listing(checkpoints: Path, *, now: datetime, content: bool = False) -> list[CheckpointInfo]:
    """All checkpoints, newest first; with `content` every byte is verified, else manifest and sizes, and what was found
    when somebody last verified them.
    """
    folders = list(_newest_first(checkpoints))
    if content:
        # The stamp comes first: what changes while it is read is not vouched for.
        found = {folder: Verified(stamp=stamp_of(folder), problems=tuple(verify(folder))) for folder in folders}
        keep(checkpoints, found)
    else:
        found = {folder: known for folder in folders if (known := recall(folder)) is not None}
    return [_info(folder, now, found.get(folder)) for folder in folders]


def _info(folder: Path, now: datetime, known: Verified | None) -> CheckpointInfo:
    step = step_of(folder) or 0
    problems = known.problems if known is not None else tuple(verify(folder, content=False))
    try:
        manifest = read_manifest(folder)
    except CheckpointError:  # already among the problems
        return CheckpointInfo(step=step, path=str(folder), complete=False, problems=problems)
    return CheckpointInfo(
        step=step,
        path=str(folder),
        created_at=manifest.created_at,
        age_s=max(0.0, (now - manifest.created_at).total_seconds()),
        bytes=sum(entry.bytes for entry in manifest.files.values()),
        shape=manifest.shape,
        complete=not problems,
        problems=problems,
        verified=known is not None and not problems,
    )


def prune(checkpoints: Path, keep: int, *, now: float, intact: Path | None = None) -> list[Path]:
    """Remove all but the newest `keep` complete checkpoints, and left-overs of dead writers; returns what went.

    The newest one without damage is never removed; nor are damaged ones newer than it, for inspection. `intact` is a
    checkpoint known to be good (just completed), which saves hashing. `now` is in seconds since the epoch.
    """
    if keep < 1:
        raise ValueError(f"keep is {keep}: at least one checkpoint is always kept")
    _restore_replaced(checkpoints)
    removed = [folder for folder in _hidden(checkpoints, ".tmp-*") if _is_left_over(folder, now)]
    folders = list(_newest_first(checkpoints))
    newest = intact if intact is not None else newest_complete(checkpoints)[0]
    if newest is not None:
        kept = [folder for folder in folders if not verify(folder, content=False)][:keep]
        limit = step_of(newest) or 0
        removed += [f for f in folders if f not in kept and f != newest and (step_of(f) or 0) < limit]
    for folder in removed:
        _remove(folder)
    return removed


def _remove(folder: Path) -> None:
    """Manifest first: a removal that is cut short leaves something that nobody takes for a checkpoint."""
    (folder / MANIFEST).unlink(missing_ok=True)
    shutil.rmtree(folder, ignore_errors=True)


def _restore_replaced(checkpoints: Path) -> None:
    """A writer that died between its two renames left the old checkpoint under a hidden name: bring it back."""
    for aside in _hidden(checkpoints, ".replaced-*"):
        target = step_folder(checkpoints, step_of(aside) or 0)
        if target.exists():
            shutil.rmtree(aside, ignore_errors=True)
        else:
            aside.rename(target)


def _is_left_over(folder: Path, now: float) -> bool:
    """Whether the process that would complete this partial checkpoint is gone."""
    try:
        descriptor = os.open(folder / WRITER_LOCK, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return folder.exists() and now - folder.stat().st_mtime > _ABANDONED_AFTER_S
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(descriptor)
    return True


def _hidden(checkpoints: Path, pattern: str) -> list[Path]:
    return sorted(folder for folder in checkpoints.glob(pattern) if step_of(folder) is not None)


def _newest_first(checkpoints: Path) -> Iterator[Path]:
    folders = [folder for folder in checkpoints.glob("step-*") if step_of(folder) is not None and folder.is_dir()]
    yield from sorted(folders, key=lambda folder: step_of(folder) or 0, reverse=True)


def set_aside_newer(checkpoints: Path, resumed: Path) -> list[Path]:
    """A run that goes back to an older checkpoint leaves the newer ones behind: keep them, but under another name.

    They would otherwise count as the newest of a history that they no longer belong to. Returns where they are now.
    """
    step, moved = step_of(resumed), []
    if step is None or resumed.parent.resolve() != checkpoints.resolve():
        return []
    for folder in _newest_first(checkpoints):
        newer = step_of(folder)
        if newer is not None and newer > step:
            number = 1
            while (target := checkpoints / f"superseded-{number}-{folder.name}").exists():
                number += 1
            moved.append(folder.rename(target))
    return moved
