"""A checkpoint in the making: a hidden folder that becomes a checkpoint by one rename, or vanishes."""

from __future__ import annotations

import fcntl
import os
import shutil
from contextlib import suppress
from typing import TYPE_CHECKING

from runtime.checkpoint.errors import CheckpointError, hint_of, writing
from runtime.checkpoint.manifest import MANIFEST, FileEntry, Manifest, file_digest, write_manifest
from runtime.checkpoint.names import (
    FAILURE_SUFFIX,
    WRITER_LOCK,
    partial_folder,
    reason_of_note,
    replaced_folder,
    step_folder,
)
from runtime.contract.files import sync_folder

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path


class PartialCheckpoint:
    """Where components put their shards until the checkpoint is complete.

    Made before the components are asked, completed or abandoned by the same process. It holds a lock for as long as
    that process lives, by which `prune` in another process tells a checkpoint in the making from a left-over.
    """

    def __init__(self, checkpoints: Path, step: int, *, adopt: bool = False) -> None:
        """Make the folder, empty; with `adopt`, take over what another process has let gather there.

        CheckpointError where it cannot be made.
        """
        self.checkpoints = checkpoints
        self.step = step
        self.folder = partial_folder(checkpoints, step)
        self._lock: int | None = None
        try:
            with writing(f"checkpoint {step}", checkpoints):
                if not adopt:
                    shutil.rmtree(self.folder, ignore_errors=True)
                self.folder.mkdir(parents=True, exist_ok=adopt)
                self._take_lock()
        except CheckpointError:
            self.abandon()
            raise

    def _take_lock(self) -> None:
        """Locked before it gets its name: whoever finds the name without the lock knows that its owner is dead."""
        unnamed = self.folder / f"{WRITER_LOCK}-new"
        self._lock = os.open(unnamed, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        unnamed.rename(self.folder / WRITER_LOCK)

    def complete(self, manifest: Manifest, shards: Iterable[str]) -> Path:
        """Seal and rename: the finished folder, durable. `shards` are the components that must be in it.

        CheckpointError where a shard is missing or the disk fails; the folder is then gone, as if it had never been
        begun. Hashes every byte, so it takes about a second per GB.
        """
        try:
            with writing(f"checkpoint {self.step}", self.checkpoints):
                self._refuse_gaps(shards)
                self._drop_leftovers()
                files = {path.name: self._sealed(path) for path in sorted(self.folder.iterdir())}
                write_manifest(self.folder, manifest.model_copy(update={"step": self.step, "files": files}))
                target = self._move_into_place()
        except BaseException:
            self.abandon()
            raise
        self._unlock()
        return target

    def abandon(self) -> None:
        """Remove what was gathered; safe to call twice."""
        shutil.rmtree(self.folder, ignore_errors=True)
        self._unlock()

    def let_go(self) -> None:
        """Leave what was gathered to whoever comes next."""
        self._unlock()

    def _unlock(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def _refuse_gaps(self, shards: Iterable[str]) -> None:
        for note in sorted(self.folder.glob(f"*{FAILURE_SUFFIX}")):
            # On a full disk the note itself may be empty: its name still says whose part it is, and why.
            message, _, hint = note.read_text().partition("\n")
            component, reason = reason_of_note(note.name)
            told = f"{component} could not write its part in {self.folder}: {reason}; earlier checkpoints are untouched"
            raise CheckpointError(message or told, hint=hint or hint_of(reason))
        missing = [name for name in shards if not (self.folder / f"{name}.json").exists()]
        if missing:
            raise CheckpointError(
                f"checkpoint {self.step} is without the part of {', '.join(missing)}; earlier checkpoints are untouched"
            )

    def _drop_leftovers(self) -> None:
        """The lock, half-written files of components that were killed while they saved, a dead writer's manifest."""
        for path in (*self.folder.glob(".*"), self.folder / MANIFEST):
            path.unlink(missing_ok=True)

    def _sealed(self, path: Path) -> FileEntry:
        """Size and digest of one file, which is flushed to disk whoever wrote it."""
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
            size = os.fstat(descriptor).st_size
        finally:
            os.close(descriptor)
        return FileEntry(bytes=size, sha256=file_digest(path))

    def _move_into_place(self) -> Path:
        """Rename; a folder of the same step (a resumed run passes it again) steps aside until the new one is there."""
        target, aside = step_folder(self.checkpoints, self.step), replaced_folder(self.checkpoints, self.step)
        with suppress(FileNotFoundError):
            shutil.rmtree(aside)
        with suppress(FileNotFoundError):
            target.rename(aside)
        try:
            self.folder.rename(target)
        except OSError:
            with suppress(FileNotFoundError):
                aside.rename(target)
            raise
        sync_folder(self.checkpoints)
        shutil.rmtree(aside, ignore_errors=True)
        return target
