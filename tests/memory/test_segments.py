"""Layouts, segments, eventfds and the fence: what rings and boards stand on."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.memory import fence as fence_module
from runtime.memory.eventfd import EventFd
from runtime.memory.fence import fence
from runtime.memory.layout import Field, Layout, poison
from runtime.memory.segment import Segment

shapes = st.lists(st.integers(0, 5), max_size=3).map(tuple)
dtypes = st.sampled_from(["float32", "float64", "int64", "uint8", "bool", "int32"])
layouts = st.lists(st.tuples(dtypes, shapes), min_size=1, max_size=6).map(
    lambda parts: Layout(tuple(Field(f"f{number}", dtype, shape) for number, (dtype, shape) in enumerate(parts)))
)


@given(layouts)
def test_fields_are_aligned_and_never_overlap(layout: Layout) -> None:
    buffer = memoryview(bytearray(layout.nbytes))
    views = layout.views(buffer)
    for number, field in enumerate(layout.fields, start=1):
        assert layout.offsets[field.name] % 64 == 0
        assert views[field.name].shape == field.shape
        assert views[field.name].dtype == np.dtype(field.dtype)
        views[field.name].fill(number)
    for number, field in enumerate(layout.fields, start=1):
        assert (views[field.name] == np.array(number).astype(field.dtype)).all()


@given(layouts)
def test_a_layout_survives_being_written_as_text(layout: Layout) -> None:
    again = Layout.from_json(layout.to_json())
    assert again == layout
    assert (again.nbytes, again.digest) == (layout.nbytes, layout.digest)


def test_layouts_that_cannot_be_shared_are_refused() -> None:
    with pytest.raises(ValueError, match="Python objects"):
        Field("bad", "object", (1,))
    with pytest.raises(ValueError, match="negative"):
        Field("bad", "int64", (-1,))
    with pytest.raises(ValueError, match="twice: a"):
        Layout((Field("a", "int64", ()), Field("a", "bool", ())))
    with pytest.raises(ValueError, match="at least one"):
        Layout(())


def test_poison_is_a_value_nobody_would_write() -> None:
    arrays = {kind: np.zeros(3, kind) for kind in ("float32", "int64", "uint8", "bool", "complex64", "S4")}
    poison(arrays.values())
    assert np.isnan(arrays["float32"]).all()
    assert np.isnan(arrays["complex64"]).all()
    assert (arrays["int64"] == -1).all()
    assert (arrays["uint8"] == 255).all()
    assert arrays["bool"].all()
    assert (arrays["S4"] == b"\xff\xff\xff\xff").all()


def test_two_mappings_of_one_descriptor_share_memory() -> None:
    made = Segment.create("shared", 4096)
    assert made.fd is not None
    attached = Segment.attach(os.dup(made.fd))
    made.words(64, 2)[1] = -3
    assert attached.words(72, 1)[0] == -3
    assert attached.nbytes == 4096
    made.close()
    attached.close()


def test_no_holder_can_change_the_size_of_a_segment() -> None:
    segment = Segment.create("sealed", 8192)
    assert segment.fd is not None
    for size in (4096, 16384):
        with pytest.raises(PermissionError):
            os.ftruncate(segment.fd, size)
    segment.close()


def test_a_closed_segment_leaves_no_descriptor_and_its_views_stay_usable() -> None:
    before = len(list(Path("/proc/self/fd").iterdir()))
    segment = Segment.create("closing", 4096)
    view = Layout((Field("a", "int64", (4,)),)).views(segment.memory)["a"]
    segment.close()
    segment.close()
    view.fill(3)
    assert view.sum() == 12
    assert len(list(Path("/proc/self/fd").iterdir())) <= before + 1  # mmap keeps one of its own while views live
    del view, segment
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_an_anonymous_segment_has_no_descriptor_and_is_zeroed() -> None:
    segment = Segment.anonymous(4096)
    assert segment.fd is None
    assert not any(segment.memory)
    segment.close()


def test_an_empty_descriptor_is_refused() -> None:
    fd = os.memfd_create("empty")
    with pytest.raises(ValueError, match="empty"):
        Segment.attach(fd)
    os.close(fd)


def test_words_must_be_aligned() -> None:
    with pytest.raises(ValueError, match="multiple of 8"):
        Segment.anonymous(4096).words(4, 1)


def test_a_signal_before_the_wait_is_not_lost() -> None:
    event = EventFd.create()
    assert not event.wait(0)
    event.signal()
    event.signal()
    assert event.wait(0)
    event.drain()
    assert not event.wait(0)
    event.drain()
    event.close()
    event.close()


def test_a_signal_that_would_overflow_still_wakes() -> None:
    event = EventFd.create()
    os.eventfd_write(event.fileno(), 2**64 - 2)
    event.signal()
    assert event.wait(0)
    event.close()


def test_a_signal_wakes_a_waiting_process(child: Callable[..., int]) -> None:
    there, back = EventFd.create(), EventFd.create()

    def answer() -> None:
        assert there.wait(10)
        back.signal()

    pid = child(answer)
    there.signal()
    assert back.wait(10)
    os.waitpid(pid, 0)
    there.close()
    back.close()


def test_the_fence_works_in_a_child_forked_while_a_thread_was_inside_it(child: Callable[..., int]) -> None:
    with fence_module._lock:
        pid = child(fence)
        _, status = os.waitpid(pid, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    fence()


def test_the_fence_may_be_used_by_several_threads_at_once() -> None:
    done: list[int] = []

    def many() -> None:
        for _ in range(2000):
            fence()
        done.append(1)

    threads = [threading.Thread(target=many) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(done) == 4
