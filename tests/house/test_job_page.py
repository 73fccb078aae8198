"""The page about jobs has every key of a job, with its default, and no others."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
import yaml
from sources import ROOT

from runtime.contract.job import Job
from runtime.contract.model import Document
from runtime.contract.units import seconds

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pydantic.fields import FieldInfo

PAGE = (ROOT / "docs" / "jobs.md").read_text()
_ROW = re.compile(r"^\| `([a-z_.]+)` \| (.+?) \|", re.MULTILINE)
_DURATION = re.compile(r"[\d.]+[a-z]+")
ELSEWHERE = "algorithm"  #: its settings depend on its name and are told in the source that the page names


def keys_of(model: type[Document], before: str = "") -> Iterator[tuple[str, FieldInfo]]:
    for name, field in model.model_fields.items():
        inner = field.annotation
        if before + name == ELSEWHERE:
            continue
        if isinstance(inner, type) and issubclass(inner, Document):
            yield from keys_of(inner, f"{before}{name}.")
        else:
            yield before + name, field


KEYS = dict(keys_of(Job))
DEFAULTS = dict(_ROW.findall(PAGE))


def test_the_page_has_every_key_once_and_no_others():
    assert [key for key, _ in _ROW.findall(PAGE)] == list(DEFAULTS), "each once"
    told = set(DEFAULTS) - {f"{ELSEWHERE}.name"}
    assert (set(KEYS) - told, told - set(KEYS)) == (set(), set())


@pytest.mark.parametrize("key", sorted(set(KEYS) - {"name"}))
def test_the_page_tells_the_default(key):
    field, cell = KEYS[key], DEFAULTS[key]
    if field.is_required():
        assert cell == "needed"
        return
    told = cell.strip("`")
    assert cell == f"`{told}`"
    default = field.get_default(call_default_factory=True)
    assert (seconds(told) if _DURATION.fullmatch(told) else yaml.safe_load(told)) == default
