"""The manifest: what a checkpoint is of, and the size and SHA-256 of every file in it.

Its own last line is the SHA-256 of all bytes before that line, so that no byte of a checkpoint can change unseen.
"""

from __future__ import annotations

import hashlib
import json
from datetime import datetime
from typing import TYPE_CHECKING

from pydantic import ConfigDict, Field, ValidationError

from runtime.checkpoint.errors import CheckpointError
from runtime.contract.files import write_whole
from runtime.contract.model import View
from runtime.contract.view import Progress, Samples

if TYPE_CHECKING:
    from pathlib import Path

FORMAT_VERSION = 1
MANIFEST = "manifest.json"

_SEAL = ',\n"sha256": "{digest}"}}\n'
_SEAL_BYTES = len(_SEAL.format(digest="0" * 64))


class FileEntry(View):
    """One file of a checkpoint."""

    bytes: int = Field(ge=0)
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")


class RewardHistory(View):
    """What the 100-episode mean needs to go on after a resume."""

    # An environment may have returned NaN: that must not make the checkpoint unreadable.
    model_config = ConfigDict(ser_json_inf_nan="strings")

    best_mean_100: float | None = None
    returns: tuple[float, ...] = ()  #: of the newest episodes, oldest first, at most 100
    history: tuple[tuple[float, float], ...] = ()  #: (elapsed seconds, mean return): the curve so far


class Manifest(View):
    """What a checkpoint holds. `files` is filled in when the checkpoint is completed."""

    format_version: int = FORMAT_VERSION
    run_id: str
    name: str
    step: int = Field(ge=0)
    created_at: datetime
    shape: str
    attempt: int = 1
    job_digest: str
    counters: Progress = Progress()
    past_updates: int = 0  #: of `counters.updates`: made by learners that had left, which no shard counts
    ledger: Samples = Samples()
    reward: RewardHistory = RewardHistory()
    elapsed_s: float = 0.0  #: training time of the run until here, over all attempts
    files: dict[str, FileEntry] = Field(default_factory=dict)


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """Write the sealed manifest, flushed to disk."""
    body = manifest.model_dump_json(indent=1).rstrip().removesuffix("}").rstrip()
    digest = hashlib.sha256(body.encode()).hexdigest()
    write_whole(folder / MANIFEST, body + _SEAL.format(digest=digest), durable=True)


def read_manifest(folder: Path) -> Manifest:
    """The manifest of a checkpoint; CheckpointError where it is missing, damaged or of a newer format."""
    path = folder / MANIFEST
    try:
        raw = path.read_bytes()
    except FileNotFoundError as error:
        what = "has no manifest: it was never completed" if folder.is_dir() else "does not exist"
        raise CheckpointError(f"{folder} {what}") from error
    except OSError as error:
        raise CheckpointError(f"{path} cannot be read: {error.strerror}") from error
    body = raw[:-_SEAL_BYTES]
    if raw[-_SEAL_BYTES:] != _SEAL.format(digest=hashlib.sha256(body).hexdigest()).encode():
        raise CheckpointError(f"{path} is damaged: its content does not match its checksum")
    content = json.loads(raw)
    version = content.get("format_version")
    if not isinstance(version, int) or version > FORMAT_VERSION:
        raise CheckpointError(
            f"{folder} has checkpoint format {version}, this version reads up to {FORMAT_VERSION}",
            hint="use the version of tianjictl that wrote it, or a newer one",
        )
    try:
        manifest = Manifest.model_validate(content)
    except ValidationError as error:
        raise CheckpointError(f"{path} is not a manifest: {error.errors()[0]['msg']}") from error
    strays = [name for name in manifest.files if "/" in name or name in ("", ".", "..", MANIFEST)]
    if strays:
        raise CheckpointError(f"{path} names a file outside its folder: {strays[0]!r}")
    return manifest


def env_steps_at(folder: Path | None) -> int:
    """Env steps of the run at a checkpoint, 0 without one; CheckpointError where it is unreadable."""
    return read_manifest(folder).counters.env_steps if folder is not None else 0


def file_digest(path: Path) -> str:
    """SHA-256 of a file, read in blocks: a replay memory may be larger than the memory that is free."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
