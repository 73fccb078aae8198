"""Files that appear whole, lines that are whole, also on a disk that fills up."""

from __future__ import annotations

import resource
from pathlib import Path

import pytest

from runtime.contract.files import append_line


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
