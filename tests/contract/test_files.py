"""Files that appear whole, lines that are whole, also on a disk that fills up."""

from __future__ import annotations

import resource
import threading
from pathlib import Path

import pytest

from runtime.contract.files import append_line, write_whole


def test_a_line_that_does_not_fit_leaves_nothing_of_itself(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    append_line(path, "a" * 90)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, hard))
    try:
        with pytest.raises(OSError, match="No space left"):
            append_line(path, "b" * 90)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    append_line(path, "c")
    assert path.read_text().split() == ["a" * 90, "c"]


def test_threads_that_write_one_file_at_once_do_not_disturb_each_other(tmp_path):
    path = tmp_path / "one.json"
    failures: list[BaseException] = []

    def write(text: str) -> None:
        try:
            for _ in range(200):
                write_whole(path, text)
        except OSError as error:
            failures.append(error)

    threads = [threading.Thread(target=write, args=(letter * 1000,)) for letter in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert len(set(path.read_text())) == 1
    assert list(tmp_path.iterdir()) == [path]
