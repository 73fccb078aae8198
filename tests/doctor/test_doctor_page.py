"""The page about the doctor has every check once, and no others."""

from __future__ import annotations

import re
from pathlib import Path

from runtime.contract.job import EnvConfig
from runtime.contract.selfcheck import SelfcheckRequest
from runtime.selfcheck.command import selfcheck
from tianjictl.doctor.registry import CHECKS

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "doctor.md").read_text()
ROWS = re.findall(r"^\| `([a-z]+\.[a-z_-]+)` \|", PAGE, re.MULTILINE)


def test_the_page_has_every_check_in_reading_order_and_no_others() -> None:
    assert [row for row in ROWS if not row.startswith("learning.")] == [check.id for check in CHECKS]


def test_the_page_has_every_proof_that_a_host_makes() -> None:
    request = SelfcheckRequest(env=EnvConfig(id="CartPole-v1"), look_s=0.05)
    made = {f"learning.{finding.check}" for finding in selfcheck(request).findings}
    assert made <= {row for row in ROWS if row.startswith("learning.")}
