"""What is sent next, over lines that lose things: the file is whole in the end, or it is not there."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from runtime.contract.messages import Part, PartTaken
from runtime.control.landing import Landing, Reader, is_plain
from runtime.control.transfer import PART_BYTES, STALLED_AFTER_S, WINDOW, Transfer


def sent(transfer: Transfer, now: float = 0.0) -> list[Part]:
    parts = []
    while (part := transfer.next()) is not None:
        transfer.sent(part, now)
        parts.append(part)
    return parts


def answer(part: Part, error: str | None = None) -> PartTaken:
    return PartTaken(step=part.step, name=part.name, offset=part.offset, error=error)


def test_a_window_of_parts_is_unanswered_and_each_answer_lets_one_more_go() -> None:
    transfer = Transfer(7)
    transfer.add("buffer-0.safetensors", 6 * PART_BYTES + 1)
    transfer.add("buffer-0.json", 0)
    first = sent(transfer)
    assert [part.offset for part in first] == [n * PART_BYTES for n in range(WINDOW)]
    assert transfer.taken(answer(first[0]), 0.0) is None
    assert [part.offset for part in sent(transfer)] == [WINDOW * PART_BYTES]
    assert not any(part.last for part in first)


def test_the_next_file_goes_when_the_one_before_is_whole_and_the_end_is_marked() -> None:
    transfer = Transfer(7)
    for name in ("a.json", "b.json"):
        transfer.add(name, 1)
    (a,) = sent(transfer)
    assert (a.name, a.size, a.last) == ("a.json", 1, False)
    assert transfer.taken(answer(a), 0.0) == "a.json"
    (b,) = sent(transfer)
    assert (b.name, b.last) == ("b.json", True)
    assert transfer.taken(answer(b), 0.0) == "b.json"
    assert sent(transfer) == []


def test_an_answer_that_nobody_waits_for_changes_nothing() -> None:
    transfer = Transfer(7)
    transfer.add("a.json", 1)
    (a,) = sent(transfer)
    for stray in (answer(a).model_copy(update={"name": "b.json"}), answer(a).model_copy(update={"offset": 5})):
        assert transfer.taken(stray, 0.0) is None
    assert transfer.taken(answer(a), 0.0) == "a.json"
    assert transfer.taken(answer(a), 0.0) is None


def test_a_refused_file_does_not_hold_up_the_others() -> None:
    transfer = Transfer(7)
    for name in ("a.json", "b.json"):
        transfer.add(name, 1)
    (a,) = sent(transfer)
    transfer.refused(answer(a, "full"))
    transfer.refused(answer(a, "full"))
    assert [part.name for part in sent(transfer)] == ["b.json"]


def test_answers_that_are_due_for_too_long_are_noticed() -> None:
    transfer = Transfer(7)
    assert not transfer.stalled(1e9)
    transfer.add("a.json", PART_BYTES * 3)
    first = sent(transfer, now=100.0)[0]
    assert not transfer.stalled(100.0 + STALLED_AFTER_S)
    transfer.taken(answer(first), 104.0)
    assert not transfer.stalled(104.0 + STALLED_AFTER_S)
    assert transfer.stalled(104.1 + STALLED_AFTER_S)
    transfer.restart()
    assert not transfer.stalled(1e9)


@pytest.mark.parametrize("seed", range(30))
def test_over_a_line_that_breaks_again_and_again_the_file_arrives_as_it_was(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    there, here = tmp_path / "there", tmp_path / "here"
    there.mkdir()
    here.mkdir()
    files = {f"learner-{n}.json": chance.randbytes(chance.randrange(4 * PART_BYTES)) for n in range(3)}
    transfer, reader = Transfer(1), Reader(there)
    for name, content in files.items():
        (there / name).write_bytes(content)
        transfer.add(name, len(content))
    landing: Landing | None = None
    outward: list[tuple[Part, bytes]] = []
    backward: list[PartTaken] = []
    while transfer.files:
        what = chance.randrange(10)
        if what == 0:  # the connection breaks: some of the newest that was under way is gone
            del outward[chance.randrange(len(outward) + 1) :]
            del backward[chance.randrange(len(backward) + 1) :]
            transfer.restart()
        elif what < 4 and (part := transfer.next()) is not None:
            outward.append((part, reader.read(part)))
            transfer.sent(part, 0.0)
        elif what < 7 and outward:
            part, blob = outward.pop(0)
            if part.offset == 0:
                if landing is not None:
                    landing.abandon()
                landing = Landing(here, part.name, part.size)
            if landing is not None and landing.fits(part.name, part.offset):
                landing.put(blob)
                backward.append(answer(part))
        elif backward and (whole := transfer.taken(backward.pop(0), 0.0)):
            assert (here / whole).read_bytes() == files[whole], "it is whole as soon as the sender believes it"
    reader.close()
    if landing is not None:
        landing.abandon()
    assert {file.name: file.read_bytes() for file in here.iterdir()} == files


@pytest.mark.parametrize("name", ["buffer-0.json", "learner-12.safetensors", "actor-3.28.failed", "manifest.json"])
def test_names_of_a_checkpoints_files(name: str) -> None:
    assert is_plain(name)


@pytest.mark.parametrize(
    "name",
    [
        "",
        ".",
        "..",
        "/etc/x.json",
        "../a.json",
        "a/b.json",
        ".a.json",
        "a.json\n",
        "a.exe",
        "a\0.json",
        "x" * 300 + ".json",
    ],
)
def test_names_that_lead_elsewhere(name: str) -> None:
    assert not is_plain(name)


def test_more_bytes_than_announced_or_none_are_an_error_and_leave_nothing(tmp_path: Path) -> None:
    for blob in (b"four", b""):
        landing = Landing(tmp_path, "a.json", 3)
        with pytest.raises(ValueError, match="announced"):
            landing.put(blob)
        assert list(tmp_path.iterdir()) == []


def test_a_file_that_became_shorter_while_it_was_sent_is_noticed(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_bytes(b"x" * 10)
    reader = Reader(tmp_path)
    with pytest.raises(OSError, match="shorter"):
        reader.read(Part(step=1, name="a.json", offset=0, size=11, last=True))
    reader.close()
