"""One source of numbers, several places."""

from __future__ import annotations

import errno
import json
import subprocess
import sys
from typing import TYPE_CHECKING

from runtime.metrics.sinks import FanOut, JsonLines, MetricSink
from runtime.metrics.tensorboard import TensorBoard
from runtime.metrics.tensorboard_layout import PAGES

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


class FullDisk:
    def __init__(self) -> None:
        self.tries = 0

    def write(self, step: int, values: Mapping[str, float], *, time_s: float) -> None:  # noqa: ARG002
        self.tries += 1
        raise OSError(errno.ENOSPC, "No space left on device")

    def close(self) -> None:
        raise AssertionError("a sink that was given up is not closed")


def fill(sink: MetricSink) -> None:
    for step in (100, 200, 300):
        sink.write(step, {"reward/mean_100": step / 4, "loss": 0.5}, time_s=1000.0 + step / 100)


def curve(folder: Path, tag: str) -> list[tuple[int, float]]:
    from tensorboard.backend.event_processing.event_file_loader import EventFileLoader

    points = []
    for file in sorted(folder.iterdir()):
        for event in EventFileLoader(str(file)).Load():
            points += [(event.step, value.tensor.float_val[0]) for value in event.summary.value if value.tag == tag]
    return points


def test_json_lines_go_on_where_an_earlier_attempt_ended(tmp_path: Path) -> None:
    fill(JsonLines(tmp_path / "m.jsonl"))
    JsonLines(tmp_path / "m.jsonl").write(400, {"loss": 0.25}, time_s=1010.0)
    lines = [json.loads(line) for line in (tmp_path / "m.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines] == [100, 200, 300, 400]
    assert lines[0] == {"step": 100, "time": 1001.0, "reward/mean_100": 25.0, "loss": 0.5}


def test_tensorboard_reads_the_same_numbers_even_if_the_run_was_short(tmp_path: Path) -> None:
    sink = TensorBoard(tmp_path / "tb", open_after_s=1e9)
    fill(sink)
    assert not (tmp_path / "tb").exists(), "nothing is loaded while a run starts"
    sink.close()
    assert curve(tmp_path / "tb", "reward/mean_100") == [(100, 25.0), (200, 50.0), (300, 75.0)]


def test_a_long_run_opens_the_file_and_keeps_what_waited(tmp_path: Path) -> None:
    sink = TensorBoard(tmp_path / "tb", open_after_s=1.5)
    fill(sink)
    assert (tmp_path / "tb").exists()
    sink.close()
    assert [step for step, _ in curve(tmp_path / "tb", "loss")] == [100, 200, 300]


def test_a_sink_that_fails_is_given_up_and_the_others_go_on(tmp_path: Path) -> None:
    broken = FullDisk()
    fan = FanOut([broken, JsonLines(tmp_path / "m.jsonl")])
    fill(fan)
    fan.close()
    assert broken.tries == 1
    assert len((tmp_path / "m.jsonl").read_text().splitlines()) == 3


def test_the_modules_load_no_tensorboard() -> None:
    code = "import sys, runtime.metrics.tensorboard, runtime.metrics.sinks; sys.exit('tensorboard' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_tensorboard_gets_pages_of_charts_and_the_settings_of_the_run(tmp_path: Path) -> None:
    from tensorboard.backend.event_processing.event_file_loader import EventFileLoader
    from tensorboard.plugins.custom_scalar import layout_pb2
    from tensorboard.plugins.hparams import plugin_data_pb2

    sink = TensorBoard(tmp_path / "tb", {"shape": "L1A2", "training.seed": 3, "shadow": False})
    fill(sink)
    sink.close()
    [file] = (tmp_path / "tb").iterdir()
    found = {value.tag: value for event in EventFileLoader(str(file)).Load() for value in event.summary.value}
    layout = layout_pb2.Layout.FromString(found["custom_scalars__config__"].tensor.string_val[0])
    assert [page.title for page in layout.category] == [title for title, _ in PAGES]
    [band] = [chart.margin.series[0] for chart in layout.category[0].chart if chart.margin.series]
    assert (band.lower, band.upper) == ("freshness/version_lag_p05", "freshness/version_lag_p95")
    content = found["_hparams_/session_start_info"].metadata.plugin_data.content
    started = plugin_data_pb2.HParamsPluginData.FromString(content).session_start_info
    assert started.hparams["shape"].string_value == "L1A2"
    assert started.hparams["training.seed"].number_value == 3
    assert started.hparams["shadow"].HasField("bool_value")
