"""A disk that fills up while a checkpoint is written costs that checkpoint and nothing else."""

from __future__ import annotations

import errno
import json
import resource
import subprocess
import sys
import textwrap
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest

from runtime.checkpoint.errors import CheckpointError
from runtime.checkpoint.manifest import Manifest
from runtime.checkpoint.names import failure_note
from runtime.checkpoint.partial import PartialCheckpoint
from runtime.checkpoint.shard import save_shard
from runtime.checkpoint.store import newest_complete

ABOUT = Manifest(
    run_id="r", name="n", step=0, created_at=datetime(2026, 1, 1, tzinfo=UTC), shape="L1A1", job_digest="ab"
)

# Runs in a mount namespace of its own: the small disk vanishes with the process, however that ends.
ON_A_SMALL_DISK = textwrap.dedent("""
    import json, subprocess, sys
    from pathlib import Path
    import numpy as np
    from runtime.checkpoint.errors import CheckpointError
    from runtime.checkpoint.manifest import Manifest
    from runtime.checkpoint.partial import PartialCheckpoint
    from runtime.checkpoint.shard import save_shard
    from runtime.checkpoint.store import newest_complete

    disk = Path(sys.argv[1])
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(disk)], check=True)
    about = Manifest.model_validate_json(sys.argv[2])
    checkpoints = disk / "checkpoints"
    said = []

    def attempt(step, floats):
        partial = PartialCheckpoint(checkpoints, step)
        try:
            save_shard(partial.folder, "learner-0", {"p": np.ones(floats, np.float32)}, {})
        except CheckpointError as error:
            said.append([error.message, error.hint])
        return partial

    attempt(1, 1000).complete(about, ["learner-0"])
    try:
        attempt(2, 1_000_000).complete(about, ["learner-0"])
    except CheckpointError as error:
        said.append([error.message, error.hint])
    # The shard fits, the manifest does not.
    partial = attempt(3, 1000)
    with (disk / "filler").open("wb", buffering=0) as filler:
        try:
            while True:
                filler.write(bytes(4096))
        except OSError:
            pass
    try:
        partial.complete(about, ["learner-0"])
    except CheckpointError as error:
        said.append([error.message, error.hint])
    folder, skipped = newest_complete(checkpoints)
    (disk / "filler").unlink()
    attempt(4, 1000).complete(about, ["learner-0"])
    print(json.dumps({
        "said": said, "newest": folder.name, "skipped": skipped, "left": sorted(p.name for p in checkpoints.iterdir()),
    }))
""")


def namespace_command() -> list[str]:
    command = ["unshare", "--mount", "--map-root-user"]
    try:
        answer = subprocess.run([*command, "true"], capture_output=True, timeout=60, check=False)
    except FileNotFoundError:
        pytest.skip("no unshare(1): the file size limit stands in for a full disk")
    if answer.returncode != 0:
        pytest.skip("no mount namespaces here: the file size limit stands in for a full disk")
    return command


def test_a_full_disk_is_reported_and_earlier_checkpoints_stay(tmp_path: Path) -> None:
    command = [*namespace_command(), sys.executable, "-c", ON_A_SMALL_DISK, str(tmp_path), ABOUT.model_dump_json()]
    answer = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert answer.returncode == 0, answer.stderr
    result = json.loads(answer.stdout)
    saving, completing, sealing = result["said"]
    for message, _ in (saving, completing, sealing):
        assert "No space left on device" in message
        assert "earlier checkpoints are untouched" in message
    assert saving[0].startswith("the part of learner-0 could not be written in ")
    assert completing == saving, "what the component met is what completing reports"
    assert sealing[0].startswith("checkpoint 3 could not be written in ")
    assert "keep fewer checkpoints" in sealing[1]
    assert (result["newest"], result["skipped"]) == ("step-000000000001", [])
    assert result["left"] == ["step-000000000001", "step-000000000004"], "a failed checkpoint must leave nothing"


def test_a_file_that_may_not_grow_is_reported_and_earlier_checkpoints_stay(tmp_path: Path) -> None:
    first = PartialCheckpoint(tmp_path, 1)
    save_shard(first.folder, "learner-0", {"p": np.ones(10)}, {})
    older = first.complete(ABOUT, ["learner-0"])
    partial = PartialCheckpoint(tmp_path, 2)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, hard))
    try:
        with pytest.raises(CheckpointError, match="File too large") as caught:
            save_shard(partial.folder, "learner-0", {"p": np.ones(100_000)}, {})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert caught.value.hint == "raise the limit on file sizes (ulimit -f)"
    assert [path.name for path in partial.folder.glob("[!.]*")] == ["learner-0.27.failed"]
    with pytest.raises(CheckpointError, match="the part of learner-0 could not be written"):
        partial.complete(ABOUT, ["learner-0"])
    assert newest_complete(tmp_path) == (older, [])
    assert list(tmp_path.iterdir()) == [older]


def test_a_note_without_content_still_says_why(tmp_path: Path) -> None:
    partial = PartialCheckpoint(tmp_path, 1)
    (partial.folder / failure_note("learner-1", errno.ENOSPC)).touch()
    with pytest.raises(CheckpointError, match=r"learner-1 could not write its part in .*: No space left on device"):
        partial.complete(ABOUT, ["learner-1"])


def test_a_part_that_succeeds_the_second_time_counts(tmp_path: Path) -> None:
    partial = PartialCheckpoint(tmp_path, 1)
    (partial.folder / "learner-0.28.failed").write_text("the disk was full")
    save_shard(partial.folder, "learner-0", {}, {})
    assert newest_complete(tmp_path) == (None, [])
    assert partial.complete(ABOUT, ["learner-0"]).name == "step-000000000001"


def test_a_folder_that_cannot_be_made_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(CheckpointError, match=r"checkpoint 1 could not be written in .*Not a directory"):
        PartialCheckpoint(tmp_path / "file", 1)
