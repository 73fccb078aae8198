"""One connection for many looks, and what becomes of it when the coordinator goes, returns, is slow or babbles."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from runtime.contract.operator import OperatorRequest, Reply, ViewRequest
from runtime.contract.waiting import wait_readable
from runtime.control.operator_server import OperatorServer
from support.pictures import large_view, small_view
from tianjictl.tui.asking import Asking

Answer = Callable[[OperatorRequest], Reply]


class Coordinator:
    """The operator's door of a coordinator, with a made-up answer behind it."""

    def __init__(self, path: Path, answer: Answer) -> None:
        self._server, self.answer = OperatorServer(path), answer
        self.asked: list[OperatorRequest] = []
        self.most_connections = 0
        self._closing = False
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self) -> None:
        while not self._closing:
            descriptors = self._server.descriptors()
            self.most_connections = max(self.most_connections, len(descriptors) - 1)
            ready = {descriptor for descriptor in descriptors if wait_readable(descriptor, 0.002)}
            self._server.serve(ready, self._reply)

    def _reply(self, request: OperatorRequest) -> Reply:
        self.asked.append(request)
        return self.answer(request)

    def close(self) -> None:
        self._closing = True
        self._thread.join()
        self._server.close()


def tells(view: object) -> Answer:
    return lambda _request: Reply(ok=True, data=view)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "control.sock"


@pytest.fixture
def start(path: Path) -> Iterator[Callable[[Answer], Coordinator]]:
    made: list[Coordinator] = []

    def started(answer: Answer) -> Coordinator:
        made.append(Coordinator(path, answer))
        return made[-1]

    yield started
    for each in made:
        each.close()


def test_many_looks_go_over_one_connection(start, path):
    coordinator, asking = start(tells(small_view())), Asking(path, 5.0)
    assert [asking.view() for _ in range(5)] == [small_view()] * 5
    assert coordinator.asked == [ViewRequest()] * 5
    assert coordinator.most_connections == 1
    asking.close()


def test_an_answer_in_many_pieces_is_read_whole(start, path):
    view = large_view()
    start(tells(view))
    asking = Asking(path, 5.0)
    assert asking.view() == view
    asking.close()


def test_where_nobody_is_there_is_no_view_and_the_next_coordinator_is_found(start, path):
    asking = Asking(path, 5.0)
    assert asking.view() is None
    first = start(tells(small_view()))
    assert asking.view() == small_view()
    first.close()
    assert asking.view() is None
    start(tells(small_view(elapsed_s=999.0)))
    found = asking.view()
    assert found is not None
    assert found.elapsed_s == 999.0
    asking.close()


@pytest.mark.parametrize(
    "answer",
    [tells("no view"), tells({"run_id": 1}), lambda _request: Reply(ok=False, error="not now")],
    ids=["nonsense", "half", "refused"],
)
def test_an_answer_without_a_view_is_none_and_the_next_is_heard(start, path, answer):
    coordinator, asking = start(answer), Asking(path, 5.0)
    assert asking.view() is None
    coordinator.answer = tells(small_view())
    assert asking.view() == small_view()
    asking.close()


def test_a_late_answer_is_not_taken_for_that_to_the_next_question(start, path):
    release = threading.Event()

    def late(_request: OperatorRequest) -> Reply:
        release.wait(20.0)
        return Reply(ok=True, data=small_view())

    coordinator, asking = start(late), Asking(path, 0.2)
    try:
        assert asking.view() is None
        coordinator.answer = tells(small_view(elapsed_s=999.0))
    finally:
        release.set()
    deadline = time.monotonic() + 20.0
    while (found := asking.view()) is None:
        assert time.monotonic() < deadline
    assert found.elapsed_s == 999.0
    asking.close()
