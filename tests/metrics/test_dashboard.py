"""The dashboard asks only for what there is, and can be imported."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from support.whole_view import whole_view
from tianjictl.metrics.exposition import exposition
from tianjictl.metrics.pictures import Shown
from tianjictl.runs.client import Picture

DASHBOARD: dict[str, Any] = json.loads(Path(__file__).parents[2].joinpath("docs/grafana/tianji.json").read_text())
PANELS = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]
VARIABLES = DASHBOARD["templating"]["list"]
EXPRESSIONS = [target["expr"] for panel in PANELS for target in panel["targets"]]
_METRIC = re.compile(r"\btianji_\w+")
_GROUPED = re.compile(r"\b(?:by|on) \(([\w, ]+)\)")


@pytest.fixture(scope="module")
def labels() -> dict[str, set[str]]:
    """The labels of each metric of a whole run."""
    view = whole_view()
    text, _ = exposition([Shown(view.run_id, view.name, "me", "cn01", Picture(view, 0.0, live=True, ended=False))])
    return {
        sample.name: set(sample.labels)
        for family in text_string_to_metric_families(text.decode())
        for sample in family.samples
    }


def test_every_metric_that_it_asks_for_is_written(labels: dict[str, set[str]]) -> None:
    asked = {
        name for text in (*EXPRESSIONS, *(v["query"]["query"] for v in queries())) for name in _METRIC.findall(text)
    }
    assert asked - set(labels) == set()


def test_every_label_that_it_chooses_or_groups_by_is_there(labels: dict[str, set[str]]) -> None:
    for expression in EXPRESSIONS:
        for name, chosen in re.findall(r"(tianji_\w+)\{([^}]*)\}", expression):
            assert set(re.findall(r"(\w+)=", chosen)) <= labels[name], expression
        grouped = {word.strip() for group in _GROUPED.findall(expression) for word in group.split(",")}
        assert grouped <= labels[_METRIC.findall(expression)[0]], expression


def test_every_panel_shows_only_the_runs_that_are_chosen() -> None:
    assert [expression for expression in EXPRESSIONS if 'run=~"$run"' not in expression] == []
    assert [variable["name"] for variable in VARIABLES] == ["datasource", "run", "host"]


def test_no_panel_lies_on_another_and_each_has_an_id_of_its_own() -> None:
    ids = [panel["id"] for panel in DASHBOARD["panels"]]
    assert len(set(ids)) == len(ids)
    cells = [
        (x, y)
        for panel in DASHBOARD["panels"]
        for x in range(panel["gridPos"]["x"], panel["gridPos"]["x"] + panel["gridPos"]["w"])
        for y in range(panel["gridPos"]["y"], panel["gridPos"]["y"] + panel["gridPos"]["h"])
    ]
    assert len(set(cells)) == len(cells)
    assert max(x for x, _ in cells) < 24


def test_it_names_nobodys_data_source() -> None:
    sources = {panel["datasource"]["uid"] for panel in PANELS}
    assert sources == {"${datasource}"}
    assert "__inputs" not in DASHBOARD


def queries() -> list[dict[str, Any]]:
    return [variable for variable in VARIABLES if variable["type"] == "query"]
