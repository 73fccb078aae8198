"""TensorBoard event files. The library takes a third of a second to load, so it is loaded late."""

# mypy: disable-error-code="import-untyped"
# The library ships no types.

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from runtime.metrics.tensorboard_layout import PAGES, Band

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from runtime.metrics.settings import Setting

#: What is written before this many seconds have passed waits in memory: while a run starts, its cores have other work,
#: and a run that is over sooner loads the library when it closes.
OPEN_AFTER_S = 20.0


class TensorBoard:
    """A `MetricSink` into `folder`. Each attempt of a run adds a file; TensorBoard shows them as one curve.

    `settings` are shown as hyperparameters, by which runs are compared; the layout makes an overview of the curves.
    """

    def __init__(
        self, folder: Path, settings: Mapping[str, Setting] | None = None, *, open_after_s: float = OPEN_AFTER_S
    ) -> None:
        self._folder = folder
        self._settings = dict(settings or {})
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
        from tensorboard.compat.proto.event_pb2 import Event
        from tensorboard.summary.writer.event_file_writer import EventFileWriter

        self._writer = EventFileWriter(str(self._folder), flush_secs=10)
        step, _, time_s = self._waiting[0]
        for summary in (_layout(), _hyperparameters(self._settings, time_s)):
            self._writer.add_event(Event(wall_time=time_s, step=step, summary=summary))
        for step, values, time_s in self._waiting:
            self._add(step, values, time_s)
        self._waiting.clear()

    def _add(self, step: int, values: Mapping[str, float], time_s: float) -> None:
        from tensorboard.compat.proto.event_pb2 import Event
        from tensorboard.compat.proto.summary_pb2 import Summary

        scalars = [Summary.Value(tag=name, simple_value=value) for name, value in values.items()]
        self._writer.add_event(Event(wall_time=time_s, step=step, summary=Summary(value=scalars)))

    def close(self) -> None:
        if self._writer is None and self._waiting:
            self._open()
        if self._writer is not None:
            self._writer.close()


def _layout() -> Any:
    """The pages as the "Custom scalars" plugin reads them."""
    from tensorboard.compat.proto.summary_pb2 import Summary, SummaryMetadata
    from tensorboard.compat.proto.tensor_pb2 import TensorProto
    from tensorboard.plugins.custom_scalar import layout_pb2, metadata

    layout = layout_pb2.Layout()
    for title, charts in PAGES:
        page = layout.category.add(title=title)
        for chart in charts:
            made = page.chart.add(title=chart.title)
            if isinstance(chart, Band):
                made.margin.series.add(value=chart.value, lower=chart.lower, upper=chart.upper)
            else:
                made.multiline.tag.extend(f"^{tag}$" for tag in chart.tags)
    plugin = SummaryMetadata.PluginData(plugin_name=metadata.PLUGIN_NAME)
    tensor = TensorProto(dtype="DT_STRING", string_val=[layout.SerializeToString()])
    value = Summary.Value(tag=metadata.CONFIG_SUMMARY_TAG, tensor=tensor, metadata=SummaryMetadata(plugin_data=plugin))
    return Summary(value=[value])


def _hyperparameters(settings: Mapping[str, Setting], began_s: float) -> Any:
    """The settings as the "HParams" plugin reads them."""
    from tensorboard.compat.proto.summary_pb2 import Summary, SummaryMetadata
    from tensorboard.plugins.hparams import metadata, plugin_data_pb2

    started = plugin_data_pb2.SessionStartInfo(start_time_secs=began_s)
    for name, setting in settings.items():
        if isinstance(setting, bool):
            started.hparams[name].bool_value = setting
        elif isinstance(setting, str):
            started.hparams[name].string_value = setting
        else:
            started.hparams[name].number_value = setting
    content = plugin_data_pb2.HParamsPluginData(session_start_info=started, version=metadata.PLUGIN_DATA_VERSION)
    plugin = SummaryMetadata.PluginData(plugin_name=metadata.PLUGIN_NAME, content=content.SerializeToString())
    value = Summary.Value(
        tag=metadata.SESSION_START_INFO_TAG,
        tensor=metadata.NULL_TENSOR,
        metadata=SummaryMetadata(plugin_data=plugin),
    )
    return Summary(value=[value])
