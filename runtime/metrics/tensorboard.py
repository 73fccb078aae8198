"""TensorBoard event files. The library takes a third of a second to load, so it is loaded late."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

#: What is written before this many seconds have passed waits in memory: while a run starts, its cores have other work,
#: and a run that is over sooner loads the library when it closes.
OPEN_AFTER_S = 20.0


class TensorBoard:
    """A `MetricSink` into `folder`. Each attempt of a run adds a file; TensorBoard shows them as one curve."""

    def __init__(self, folder: Path, *, open_after_s: float = OPEN_AFTER_S) -> None:
        self._folder = folder
        self._open_after_s = open_after_s
        self._waiting: list[tuple[int, dict[str, float], float]] = []
        self._writer: Any = None

    def write(self, step: int, values: Mapping[str, float], *, time_s: float) -> None:
        if self._writer is not None:
            self._add(step, values, time_s)
            return
        self._waiting.append((step, dict(values), time_s))
        if time_s - self._waiting[0][2] >= self._open_after_s:
            self._open()

    def _open(self) -> None:
        from tensorboard.summary.writer.event_file_writer import EventFileWriter  # type: ignore[import-untyped]  # it ships no types

        self._writer = EventFileWriter(str(self._folder), flush_secs=10)
        for step, values, time_s in self._waiting:
            self._add(step, values, time_s)
        self._waiting.clear()

    def _add(self, step: int, values: Mapping[str, float], time_s: float) -> None:
        from tensorboard.compat.proto.event_pb2 import Event  # type: ignore[import-untyped]  # it ships no types
        from tensorboard.compat.proto.summary_pb2 import Summary  # type: ignore[import-untyped]  # it ships no types

        scalars = [Summary.Value(tag=name, simple_value=value) for name, value in values.items()]
        self._writer.add_event(Event(wall_time=time_s, step=step, summary=Summary(value=scalars)))

    def close(self) -> None:
        if self._writer is None and self._waiting:
            self._open()
        if self._writer is not None:
            self._writer.close()
