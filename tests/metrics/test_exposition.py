"""What Prometheus is told of runs, read back by the library's own parser."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest
from prometheus_client.parser import text_string_to_metric_families

from runtime.contract.states import ComponentState, Role, RunState
from support.whole_view import AT, component, whole_view
from tianjictl.metrics.catalogue import LASTING, LIVE
from tianjictl.metrics.exposition import exposition, lag_buckets
from tianjictl.metrics.families import Kind
from tianjictl.metrics.pictures import Shown
from tianjictl.runs.client import Picture

if TYPE_CHECKING:
    from runtime.contract.view import RunView

Read = dict[str, list[tuple[dict[str, str], float]]]


def shown(view: RunView, *, live: bool = True, ended: bool = False, age_s: float = 0.0) -> Shown:
    picture = Picture(view, age_s, live=live, ended=ended)
    return Shown(view.run_id, view.name, "me", "cn01", picture)


def text(*runs: Shown) -> str:
    return exposition(runs)[0].decode()


def read(*runs: Shown) -> Read:
    """Samples by name, as a reader of the text finds them."""
    found: Read = {}
    for family in text_string_to_metric_families(text(*runs)):
        for sample in family.samples:
            found.setdefault(sample.name, []).append((dict(sample.labels), sample.value))
    return found


def value(samples: Read, metric: str, /, **labels: str) -> float:
    matching = [number for found, number in samples[metric] if labels.items() <= found.items()]
    assert len(matching) == 1, f"{metric}{labels}: {samples[metric]}"
    return matching[0]


def test_a_reader_finds_the_numbers_of_the_view() -> None:
    samples = read(shown(whole_view()))
    assert value(samples, "tianji_up") == 1
    assert value(samples, "tianji_env_steps_total") == 1000
    assert value(samples, "tianji_samples_dropped_total", reason="stale") == 20
    assert value(samples, "tianji_samples_dropped_total", reason="other") == 30
    assert value(samples, "tianji_prediction_ratio") == pytest.approx(0.8)
    assert value(samples, "tianji_run_state", state="running") == 1
    assert sum(number for _, number in samples["tianji_run_state"]) == 1
    assert value(samples, "tianji_bottleneck", side="learner") == 1
    assert value(samples, "tianji_component_cpu_ratio", component="actor-0", role="actor", host="cn01") == 1.5
    assert value(samples, "tianji_component_core_wait_ratio", component="actor-0", role="actor", host="cn01") == 0.25
    assert value(samples, "tianji_component_restarts_total", component="learner-1") == 1
    assert value(samples, "tianji_learner_loss", component="learner-1", host="cn02") == 1.5
    assert (value(samples, "tianji_host_up", host="cn01"), value(samples, "tianji_host_up", host="cn02")) == (1, 0)
    assert value(samples, "tianji_link_bytes_per_second", source="cn01", target="cn02") == 12.5e6
    assert value(samples, "tianji_checkpoint_timestamp_seconds") == AT.timestamp() - 30
    assert value(samples, "tianji_shape_wanted", role="actor") == 4
    assert value(samples, "tianji_shape_present", role="actor") == 1
    assert value(samples, "tianji_run_info", name="cartpole", user="me", head="cn01") == 1


def test_the_ledger_holds_in_what_is_read() -> None:
    samples = read(shown(whole_view()))
    dropped = sum(number for _, number in samples["tianji_samples_dropped_total"])
    rest = value(samples, "tianji_samples_consumed_total") + dropped + value(samples, "tianji_samples_in_flight")
    assert value(samples, "tianji_samples_produced_total") == rest


def test_a_run_that_nobody_answers_for_has_no_numbers_and_an_honest_age() -> None:
    samples = read(shown(whole_view(), live=False, age_s=77.0))
    assert value(samples, "tianji_up") == 0
    assert value(samples, "tianji_run_ended") == 0
    assert value(samples, "tianji_view_age_seconds") == 77
    assert set(samples) == {
        "tianji_exporter_runs", "tianji_up", "tianji_run_ended", "tianji_view_age_seconds", "tianji_run_info",
    }  # fmt: skip


def test_a_run_that_has_ended_keeps_its_totals_and_has_no_rates() -> None:
    samples = read(shown(whole_view(state=RunState.COMPLETED), live=False, ended=True))
    assert (value(samples, "tianji_up"), value(samples, "tianji_run_ended")) == (0, 1)
    assert value(samples, "tianji_env_steps_total") == 1000
    assert value(samples, "tianji_run_state", state="completed") == 1
    assert {metric.name for metric in LIVE} & set(samples) == set()
    assert "tianji_version_lag_bucket" not in samples


def test_runs_share_families_and_differ_by_label() -> None:
    samples = read(shown(whole_view("a")), shown(whole_view("b")), Shown("c", "c", "me", "here", None))
    assert [labels["run"] for labels, _ in samples["tianji_env_steps_total"]] == ["a", "b"]
    assert [(labels["run"], number) for labels, number in samples["tianji_up"]] == [("a", 1), ("b", 1), ("c", 0)]
    assert text(shown(whole_view("a")), shown(whole_view("b"))).count("# TYPE tianji_up gauge") == 1


def test_what_is_not_known_is_left_out() -> None:
    nothing = component(Role.ACTOR, cpu_percent=None, rss_bytes=None, gauges={})
    samples = read(shown(whole_view(components=(nothing,))))
    assert "tianji_component_cpu_ratio" not in samples
    assert "tianji_learner_loss" not in samples
    assert value(samples, "tianji_component_up") == 1


def test_a_state_that_nobody_is_in_any_more_reads_0() -> None:
    dead = component(Role.ACTOR, state=ComponentState.BACKOFF)
    samples = read(shown(whole_view(components=(dead,))))
    assert value(samples, "tianji_components", role="actor", state="running") == 0
    assert value(samples, "tianji_components", role="actor", state="backoff") == 1


def test_foreign_text_stays_inside_its_label() -> None:
    evil = 'x"} 1\ntianji_up{run="forged'
    samples = read(shown(whole_view(hosts=(whole_view().hosts[0].model_copy(update={"name": evil}),))))
    assert [labels["host"] for labels, _ in samples["tianji_host_up"]] == [evil]
    assert len(samples["tianji_up"]) == 1


def test_the_lag_histogram_counts_every_sample_once() -> None:
    buckets, total = lag_buckets(whole_view().freshness)
    counts = dict(buckets)
    assert [counts[bound] for bound in ("0.0", "1.0", "7.0", "8.0", "24.0", "32.0", "+Inf")] == [
        30, 70, 70, 95, 95, 100, 100,
    ]  # fmt: skip
    assert total == 200.0
    assert [count for _, count in buckets] == sorted(count for _, count in buckets)


def test_names_and_units_follow_the_conventions() -> None:
    metrics = (*LASTING, *LIVE)
    names = [metric.name for metric in metrics]
    assert len(set(names)) == len(names)
    assert [name for name in names if not re.fullmatch(r"tianji(_[a-z0-9]+)+", name)] == []
    assert [name for name in names if re.search(r"_(s|ms|mb|kb|percent|share|total|count|sum|bucket)$", name)] == []
    assert all(metric.help.endswith(".") for metric in metrics)
    assert {metric.kind for metric in metrics} == {Kind.GAUGE, Kind.COUNTER}


def test_every_metric_has_a_value_in_a_whole_view() -> None:
    samples = read(shown(whole_view()))
    written = {metric.name + ("_total" if metric.kind is Kind.COUNTER else "") for metric in (*LASTING, *LIVE)}
    assert written - set(samples) == set()


def test_the_number_of_series_grows_only_with_components_and_hosts() -> None:
    few, many = (
        whole_view(components=tuple(component(Role.ACTOR, index) for index in range(count))) for count in (10, 110)
    )
    lines = [sum(not line.startswith("#") for line in text(shown(view)).splitlines()) for view in (few, many)]
    assert (lines[1] - lines[0]) / 100 <= 9, "series an actor"


def test_openmetrics_is_spoken_to_who_asks_for_it() -> None:
    content, content_type = exposition([shown(whole_view())], "application/openmetrics-text; version=1.0.0")
    assert content_type.startswith("application/openmetrics-text")
    assert content.endswith(b"# EOF\n")


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool (Debian: prometheus) is not installed")
def test_promtool_finds_nothing_to_complain_about() -> None:
    everything = text(shown(whole_view("a")), shown(whole_view("b"), live=False))
    done = subprocess.run(
        ["promtool", "check", "metrics"], input=everything, capture_output=True, text=True, timeout=30, check=False
    )
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def test_json_can_write_the_samples() -> None:
    from tianjictl.metrics.exposition import samples

    found = json.loads(json.dumps(samples([shown(whole_view())]), allow_nan=False))
    assert {"name": "tianji_up", "labels": {"run": whole_view().run_id}, "value": 1.0} in found
