"""What a board promises, whatever memory it lies in."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runtime.memory.board import Board, BoardReader, BoardSpec, BoardWriter
from runtime.memory.layout import Field, Layout
from runtime.memory.segment import Segment

if TYPE_CHECKING:
    from tests.memory.conftest import BoardUnderTest, Form


def publish(board: BoardUnderTest, version: int, value: int) -> None:
    board.writer.begin(value)
    board.writer.publish(version)


def test_a_new_board_has_no_version(form: Form) -> None:
    board = form.board(4)
    assert board.reader.version() == board.writer.version() == -1
    assert board.reader.read() is None
    assert board.writer.current() is None


def test_the_newest_publication_wins(form: Form) -> None:
    board = form.board(4)
    for version in range(11):
        publish(board, version, version * 3)
        assert board.reader.version() == board.writer.version() == version
        assert board.reader.read() == [version, version * 3]
        assert board.reader.version() == version


def test_a_reader_skips_what_it_missed(form: Form) -> None:
    board = form.board(2)
    for version in range(9):
        publish(board, version, version)
    assert board.reader.read() == [8, 8]


def test_what_is_begun_is_not_seen_before_it_is_published(form: Form) -> None:
    board = form.board(2)
    publish(board, 3, 30)
    board.writer.begin(40)
    assert board.reader.read() == [3, 30]
    assert board.writer.current() == 30
    board.writer.publish(4)
    assert board.reader.read() == [4, 40]


def test_a_reader_may_take_some_fields_only(form: Form) -> None:
    board = form.board(2)
    publish(board, 1, 10)
    assert board.reader.read_numbers() == [1, 10]


def test_publishing_wakes_every_reader(form: Form) -> None:
    board = form.board(2)
    for event in board.signals:
        event.drain()
    board.writer.begin(1)
    assert not any(event.wait(0) for event in board.signals)
    board.writer.publish(1)
    assert all(event.wait(0) for event in board.signals)


def test_publishing_what_was_not_begun_is_an_error(form: Form) -> None:
    board = form.board(2)
    with pytest.raises(RuntimeError, match="publish without begin"):
        board.writer.publish(1)
    board.writer.begin(1)
    with pytest.raises(ValueError, match="negative"):
        board.writer.publish(-1)


@settings(max_examples=25, deadline=None)
@given(
    slots=st.integers(2, 4),
    steps=st.lists(st.sampled_from(["publish", "publish", "begin", "lose writer"]), max_size=25),
)
def test_a_lost_writer_leaves_the_last_version_and_its_successor_goes_on(
    form: Form, slots: int, steps: list[str]
) -> None:
    board, newest = form.board(slots), -1
    for step in steps:
        match step:
            case "publish":
                newest += 1
                publish(board, newest, newest + 100)
            case "begin":
                board.writer.begin(-6)
            case "lose writer":
                board.writer.begin(-6)
                board.replace_writer()
        assert board.writer.version() == board.reader.version() == newest
        assert board.reader.read() == (None if newest < 0 else [newest, newest + 100])
        assert board.writer.current() == (None if newest < 0 else newest + 100)
    board.segment.close()


PAIR = Layout((Field("first", "int64", (8,)), Field("second", "int64", (8,))))


class Overtaken(dict[str, np.ndarray]):
    """A read target that lets the writer publish `times` versions between the copies of its two fields, once."""

    def __init__(self, writer: BoardWriter, times: int) -> None:
        super().__init__(first=np.zeros(8, np.int64), second=np.zeros(8, np.int64))
        self._writer = writer
        self._left = times

    def items(self) -> Any:  # an iterator in place of a view, which is all that a copy loop needs
        return self._between()

    def _between(self) -> Iterator[tuple[str, np.ndarray]]:
        yield "first", self["first"]
        while self._left:
            self._left -= 1
            write_pair(self._writer, self._writer.version + 1)
        yield "second", self["second"]


def write_pair(writer: BoardWriter, version: int) -> None:
    views = writer.begin()
    views["first"].fill(version)
    views["second"].fill(version)
    writer.publish(version)


@pytest.mark.parametrize(
    ("slots", "times", "expected"), [(2, 1, 0), (2, 2, 2), (4, 3, 0), (4, 4, 4), (4, 9, 9), (4, 8, 8)]
)
def test_a_reader_overtaken_in_mid_copy_gets_one_whole_version(slots: int, times: int, expected: int) -> None:
    spec = BoardSpec("pair", PAIR, slots)
    segment = Segment.anonymous(spec.nbytes)
    Board.format(segment, spec)
    writer = BoardWriter(segment, spec)
    write_pair(writer, 0)
    into = Overtaken(writer, times)
    assert BoardReader(segment, spec).read(into) == expected
    assert (into["first"] == expected).all()
    assert (into["second"] == expected).all()


def test_a_reader_in_mid_copy_notices_a_slot_that_is_only_begun() -> None:
    spec = BoardSpec("pair", PAIR, 2)
    segment = Segment.anonymous(spec.nbytes)
    Board.format(segment, spec)
    writer = BoardWriter(segment, spec)
    write_pair(writer, 0)

    class BegunOver(Overtaken):
        def _between(self) -> Iterator[tuple[str, np.ndarray]]:
            yield "first", self["first"]
            if self._left:
                self._left -= 1
                write_pair(writer, 1)
                writer.begin()["second"].fill(-9)
            yield "second", self["second"]

    into = BegunOver(writer, 1)
    assert BoardReader(segment, spec).read(into) == 1
    assert (into["second"] == 1).all()


def test_a_reader_that_is_always_overtaken_says_so() -> None:
    spec = BoardSpec("pair", PAIR, 2)
    segment = Segment.anonymous(spec.nbytes)
    Board.format(segment, spec)
    writer = BoardWriter(segment, spec)
    write_pair(writer, 0)

    class AlwaysOvertaken(Overtaken):
        def _between(self) -> Iterator[tuple[str, np.ndarray]]:
            self._left = 2
            return super()._between()

    with pytest.raises(TimeoutError, match="overtaken"):
        BoardReader(segment, spec).read(AlwaysOvertaken(writer, 2))


def test_slots_are_poisoned_until_written(form: Form) -> None:
    board = form.board(3)
    fields = board.spec.layout.views(board.segment.memory, board.spec.nbytes - board.spec.stride + 128)
    assert np.isnan(fields["real"]).all()


def test_a_segment_of_another_board_is_refused(form: Form) -> None:
    board = form.board(2)
    with pytest.raises(ValueError, match="other"):
        BoardReader(board.segment, BoardSpec("other", PAIR, 2))
    with pytest.raises(ValueError, match="at least 2"):
        form.board(1)
