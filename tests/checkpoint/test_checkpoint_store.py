"""A checkpoint is there whole or not at all, and no damaged one is ever used."""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest

from runtime.checkpoint import manifest as manifests
from runtime.checkpoint.errors import CheckpointError
from runtime.checkpoint.manifest import MANIFEST, Manifest, RewardHistory, read_manifest, write_manifest
from runtime.checkpoint.names import partial_folder, step_folder
from runtime.checkpoint.partial import PartialCheckpoint
from runtime.checkpoint.shard import has_shard, load_shard, save_shard
from runtime.checkpoint.store import find, listing, newest_complete, prune, verify
from runtime.contract.view import Progress, Samples

CREATED = datetime(2026, 1, 1, tzinfo=UTC)
ABOUT = Manifest(
    run_id="r-1",
    name="cartpole",
    step=0,
    created_at=CREATED,
    shape="L1A2",
    job_digest="ab",
    counters=Progress(env_steps=4096, updates=3, version=3, episodes=12),
    ledger=Samples(produced=4096, consumed=4000, in_flight=96),
    reward=RewardHistory(best_mean_100=20.5, returns=(9.0, 21.0)),
    elapsed_s=3.5,
)


def a_checkpoint(checkpoints: Path, step: int, size: int = 1000) -> Path:
    partial = PartialCheckpoint(checkpoints, step)
    save_shard(partial.folder, "learner-0", {"params": np.arange(size, dtype=np.float32)}, {"updates": 3})
    save_shard(partial.folder, "actor-0", {}, {"index": 0})
    return partial.complete(ABOUT, ["learner-0", "actor-0"])


def flip(path: Path, position: int) -> None:
    raw = bytearray(path.read_bytes())
    raw[position] ^= 0x01
    path.write_bytes(raw)


def test_what_is_saved_is_loaded_again(tmp_path: Path) -> None:
    arrays: dict[str, np.ndarray] = {
        "matrix": np.arange(6, dtype=np.float32).reshape(2, 3).T,
        "scalar": np.array(3, dtype=np.int64),
        "flags": np.array([True, False]),
        "bytes": np.arange(5, dtype=np.uint8),
        "none": np.zeros((0, 4), dtype=np.float32),
    }
    generator = np.random.Generator(np.random.MT19937(3))
    save_shard(tmp_path, "learner-0", arrays, {"random": generator.bit_generator.state, "n": np.int64(4)})
    loaded, meta = load_shard(tmp_path, "learner-0")
    assert set(loaded) == set(arrays)
    for name, array in arrays.items():
        np.testing.assert_array_equal(loaded[name], array)
        assert (loaded[name].dtype, loaded[name].shape) == (array.dtype, array.shape)
        assert loaded[name].flags.writeable
    assert meta["n"] == 4
    other = np.random.Generator(np.random.MT19937(0))
    other.bit_generator.state = meta["random"]
    assert other.integers(1 << 30) == generator.integers(1 << 30)


def test_an_object_that_json_cannot_hold_is_a_programming_error(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="set cannot be kept"):
        save_shard(tmp_path, "x", {}, {"bad": {1, 2}})


def test_a_part_that_is_not_there_is_named(tmp_path: Path) -> None:
    folder = a_checkpoint(tmp_path, 1)
    assert has_shard(folder, "actor-0")
    assert not has_shard(folder, "actor-7")
    with pytest.raises(CheckpointError, match="no part for actor-7"):
        load_shard(folder, "actor-7")


def test_a_complete_checkpoint_says_what_it_is_of(tmp_path: Path) -> None:
    folder = a_checkpoint(tmp_path, 4096)
    assert folder == step_folder(tmp_path, 4096)
    assert verify(folder) == []
    manifest = read_manifest(folder)
    assert manifest.model_copy(update={"files": {}, "step": 0}) == ABOUT
    assert manifest.step == 4096
    assert set(manifest.files) == {"learner-0.safetensors", "learner-0.json", "actor-0.json"}
    json.loads((folder / MANIFEST).read_bytes())
    assert {path.name for path in folder.iterdir()} == {*manifest.files, MANIFEST}
    assert list(tmp_path.iterdir()) == [folder]


def test_returns_that_are_no_number_do_not_make_a_checkpoint_unreadable(tmp_path: Path) -> None:
    partial = PartialCheckpoint(tmp_path, 1)
    folder = partial.complete(ABOUT.model_copy(update={"reward": RewardHistory(returns=(1.0, float("nan")))}), [])
    assert np.isnan(read_manifest(folder).reward.returns[1])


def test_a_flipped_bit_anywhere_in_the_manifest_is_noticed(tmp_path: Path) -> None:
    folder = a_checkpoint(tmp_path, 1)
    path = folder / MANIFEST
    raw = path.read_bytes()
    for position in [*range(0, len(raw) - 90, 11), *range(len(raw) - 90, len(raw))]:
        flip(path, position)
        assert verify(folder), f"byte {position} ({chr(raw[position])!r}) changed unseen"
        path.write_bytes(raw)
    assert verify(folder) == []


@pytest.mark.parametrize("name", ["learner-0.safetensors", "learner-0.json", "actor-0.json"])
def test_a_flipped_bit_in_any_file_is_noticed_and_an_older_checkpoint_is_used(tmp_path: Path, name: str) -> None:
    older, newer = a_checkpoint(tmp_path, 1, size=10), a_checkpoint(tmp_path, 2, size=10)
    size = (newer / name).stat().st_size
    for position in range(size):
        flip(newer / name, position)
        folder, skipped = newest_complete(tmp_path)
        assert folder == older
        assert skipped == [
            f"skipped step-000000000002: {newer / name} is damaged: its content does not match its checksum"
        ]
        flip(newer / name, position)
    assert newest_complete(tmp_path) == (newer, [])


def test_missing_shortened_and_strange_files_are_each_named(tmp_path: Path) -> None:
    folder = a_checkpoint(tmp_path, 1)
    (folder / "actor-0.json").unlink()
    with (folder / "learner-0.safetensors").open("r+b") as file:
        file.truncate(100)
    (folder / "notes.txt").write_text("mine")
    text = "\n".join(verify(folder))
    assert "actor-0.json is missing" in text
    assert "learner-0.safetensors has 100 bytes" in text
    assert "notes.txt does not belong" in text


def test_a_folder_without_manifest_is_incomplete_and_passed_over(tmp_path: Path) -> None:
    older, newer = a_checkpoint(tmp_path, 1), a_checkpoint(tmp_path, 2)
    (newer / MANIFEST).unlink()
    folder, skipped = newest_complete(tmp_path)
    assert folder == older
    assert "has no manifest: it was never completed" in skipped[0]


def test_a_newer_format_is_refused_by_name(tmp_path: Path) -> None:
    folder = a_checkpoint(tmp_path, 1)
    newer = manifests.FORMAT_VERSION + 1
    write_manifest(folder, read_manifest(folder).model_copy(update={"format_version": newer}))
    with pytest.raises(CheckpointError, match=f"has checkpoint format {newer}, this version reads up to") as caught:
        read_manifest(folder)
    assert caught.value.hint is not None
    assert verify(folder)


def test_a_manifest_cannot_reach_outside_its_folder(tmp_path: Path) -> None:
    folder = a_checkpoint(tmp_path, 1)
    manifest = read_manifest(folder)
    entry = manifest.files["actor-0.json"]
    write_manifest(folder, manifest.model_copy(update={"files": {"../../etc/passwd": entry}}))
    with pytest.raises(CheckpointError, match="outside its folder"):
        read_manifest(folder)


def test_a_checkpoint_without_all_its_parts_is_not_completed(tmp_path: Path) -> None:
    older = a_checkpoint(tmp_path, 1)
    partial = PartialCheckpoint(tmp_path, 2)
    save_shard(partial.folder, "learner-0", {}, {})
    with pytest.raises(CheckpointError, match="checkpoint 2 is without the part of buffer-0"):
        partial.complete(ABOUT, ["learner-0", "buffer-0"])
    assert list(tmp_path.iterdir()) == [older]


def test_half_written_files_of_a_killed_component_stay_out(tmp_path: Path) -> None:
    partial = PartialCheckpoint(tmp_path, 1)
    (partial.folder / ".learner-0.json.77.tmp").write_text("half")
    save_shard(partial.folder, "learner-0", {}, {})
    assert set(read_manifest(partial.complete(ABOUT, ["learner-0"])).files) == {"learner-0.json"}


def test_a_run_that_passes_a_step_again_replaces_that_checkpoint(tmp_path: Path) -> None:
    a_checkpoint(tmp_path, 5, size=10)
    folder = a_checkpoint(tmp_path, 5, size=20)
    assert load_shard(folder, "learner-0")[0]["params"].size == 20
    assert list(tmp_path.iterdir()) == [folder]


def test_a_checkpoint_set_aside_by_a_writer_that_died_comes_back(tmp_path: Path) -> None:
    folder = a_checkpoint(tmp_path, 5)
    folder.rename(tmp_path / ".replaced-000000000005")
    prune(tmp_path, 1, now=0.0)
    assert newest_complete(tmp_path) == (folder, [])


def test_find_takes_latest_a_step_or_a_path(tmp_path: Path) -> None:
    first, second = a_checkpoint(tmp_path, 1), a_checkpoint(tmp_path, 2)
    assert find(tmp_path).folder == second
    assert find(tmp_path, "1").folder == first
    assert find(tmp_path, str(first)).manifest.step == 1
    flip(second / "actor-0.json", 0)
    found = find(tmp_path, "latest")
    assert found.folder == first
    assert len(found.skipped) == 1


def test_find_says_what_there_is_instead(tmp_path: Path) -> None:
    a_checkpoint(tmp_path, 1)
    with pytest.raises(CheckpointError, match="no checkpoint of step 7") as caught:
        find(tmp_path, "7")
    assert caught.value.hint == "there are: 1"
    with pytest.raises(CheckpointError, match="does not exist"):
        find(tmp_path, str(tmp_path / "elsewhere"))
    with pytest.raises(CheckpointError, match="no complete checkpoint"):
        find(tmp_path / "empty")


def test_a_damaged_checkpoint_is_refused_even_when_asked_for_by_step(tmp_path: Path) -> None:
    flip(a_checkpoint(tmp_path, 1) / "actor-0.json", 2)
    with pytest.raises(CheckpointError, match="is damaged"):
        find(tmp_path, "1")


def test_the_listing_is_newest_first_with_age_size_and_problems(tmp_path: Path) -> None:
    a_checkpoint(tmp_path, 1)
    (a_checkpoint(tmp_path, 12) / "actor-0.json").unlink()
    newest, oldest = listing(tmp_path, now=CREATED + timedelta(seconds=90))
    assert (newest.step, newest.complete, len(newest.problems)) == (12, False, 1)
    assert (oldest.step, oldest.complete, oldest.age_s, oldest.shape) == (1, True, 90.0, "L1A2")
    assert oldest.bytes > 4000
    assert listing(tmp_path / "nowhere", now=CREATED) == []


def test_prune_keeps_the_newest_and_never_the_last_good_one_away(tmp_path: Path) -> None:
    folders = [a_checkpoint(tmp_path, step, size=10) for step in range(1, 6)]
    for damaged in folders[3:]:
        flip(damaged / "learner-0.safetensors", 90)
    assert prune(tmp_path, 1, now=0.0) == [folders[1], folders[0]]
    assert newest_complete(tmp_path)[0] == folders[2]
    assert folders[4].exists(), "a damaged one that is newer stays for inspection"


def test_prune_with_a_checkpoint_known_to_be_good_counts_it(tmp_path: Path) -> None:
    folders = [a_checkpoint(tmp_path, step, size=10) for step in range(1, 6)]
    assert set(prune(tmp_path, 2, now=0.0, intact=folders[4])) == set(folders[:3])
    with pytest.raises(ValueError, match="at least one"):
        prune(tmp_path, 0, now=0.0)


def test_prune_removes_what_a_dead_writer_left_and_spares_a_living_one(tmp_path: Path) -> None:
    script = (
        "import os, sys; from pathlib import Path; from runtime.checkpoint.partial import PartialCheckpoint\n"
        "PartialCheckpoint(Path(sys.argv[1]), 8); os._exit(0)"
    )
    subprocess.run([sys.executable, "-c", script, str(tmp_path)], check=True, timeout=120)
    living = PartialCheckpoint(tmp_path, 9)
    unlocked = partial_folder(tmp_path, 10)
    unlocked.mkdir()
    began = unlocked.stat().st_mtime
    assert prune(tmp_path, 1, now=began + 60) == [partial_folder(tmp_path, 8)]
    assert living.folder.exists()
    assert prune(tmp_path, 1, now=began + 7200) == [unlocked]
    living.abandon()
    assert list(tmp_path.iterdir()) == []
