"""One component's part of a checkpoint: `<name>.safetensors` for arrays, `<name>.json` for the rest. No pickle."""

from __future__ import annotations

import json
import re
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file

from runtime.checkpoint.errors import CheckpointError, writing
from runtime.checkpoint.names import FAILURE_SUFFIX, failure_note
from runtime.contract.files import write_whole

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_OS_ERROR = re.compile(r"(.*) \(os error (\d+)\)")


def save_shard(folder: Path, name: str, arrays: Mapping[str, np.ndarray], meta: Mapping[str, Any]) -> None:
    """Write arrays and JSON-like `meta` of component `name` into `folder`, which is made where missing.

    CheckpointError where that fails, for example on a full disk; then nothing of this shard is left but a note for
    whoever completes the checkpoint, and the component can go on. Not flushed to disk: completing does that.
    """
    try:
        with writing(f"the part of {name}", folder):
            folder.mkdir(parents=True, exist_ok=True)
            if arrays:
                _save_arrays(folder / f"{name}.safetensors", arrays)
            write_whole(folder / f"{name}.json", json.dumps(meta, default=_as_json))
            for note in folder.glob(f"{name}.*{FAILURE_SUFFIX}"):
                note.unlink(missing_ok=True)
    except CheckpointError as error:
        for part in (f"{name}.safetensors", f"{name}.json"):
            with suppress(OSError):  # the disk that failed may fail again; completing notices a part that is missing
                (folder / part).unlink(missing_ok=True)
        code = error.__cause__.errno if isinstance(error.__cause__, OSError) else None
        with suppress(OSError):
            (folder / failure_note(name, code)).write_text(f"{error.message}\n{error.hint or ''}")
        raise


def load_shard(folder: Path, name: str) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Arrays (own memory, writable) and meta of component `name`; CheckpointError where unreadable."""
    try:
        meta = json.loads((folder / f"{name}.json").read_bytes())
        path = folder / f"{name}.safetensors"
        arrays = {key: np.array(array) for key, array in load_file(path).items()} if path.exists() else {}
    except FileNotFoundError as error:
        raise CheckpointError(f"{folder} holds no part for {name}") from error
    except (OSError, ValueError, SafetensorError) as error:
        raise CheckpointError(f"the part of {name} in {folder} cannot be read: {error}") from error
    if not isinstance(meta, dict):
        raise CheckpointError(f"the part of {name} in {folder} cannot be read: its JSON is no mapping")
    return arrays, meta


def has_shard(folder: Path, name: str) -> bool:
    """Whether the checkpoint holds a part of component `name` (a run of another shape may not)."""
    return (folder / f"{name}.json").exists()


def _save_arrays(path: Path, arrays: Mapping[str, np.ndarray]) -> None:
    # `require` keeps zero-dimensional arrays as they are, `ascontiguousarray` would make them one-dimensional.
    tensors = {key: np.require(array, requirements="C") for key, array in arrays.items()}
    try:
        save_file(tensors, path)
    except SafetensorError as error:
        match = _OS_ERROR.fullmatch(str(error))
        if match is None:
            raise
        # The library reports a full disk as text; as OSError it is told like every other failed write.
        raise OSError(int(match[2]), match[1].rpartition(": ")[2], str(path)) from error


def _as_json(value: object) -> object:
    """NumPy numbers and arrays, as random generator states hold them."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        return value.tolist()
    raise TypeError(f"{type(value).__name__} cannot be kept in a checkpoint's JSON part")
