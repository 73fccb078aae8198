"""`python -m runtime selfcheck JSON`: proves the learning code on this host and prints a SelfcheckReport (JSON both)."""

from __future__ import annotations

import contextlib
import json
import sys
import time
from collections.abc import Sequence

from pydantic import ValidationError

from runtime.contract.selfcheck import SelfcheckReport, SelfcheckRequest
from runtime.selfcheck.finding import Check, found
from runtime.selfcheck.golden import check_gae, check_n_step, check_v_trace


def main(argv: Sequence[str]) -> int:
    """Exit code 0 with the report as the last line, whatever it says; 2 with `{"error": …}` for a bad request."""
    try:
        request = SelfcheckRequest.model_validate_json(argv[0])
    except IndexError:
        return _failed("usage: selfcheck JSON, where JSON is a SelfcheckRequest")
    except ValidationError as error:
        return _failed(str(error))
    with contextlib.redirect_stdout(sys.stderr):  # environments and their libraries greet on standard output
        report = selfcheck(request)
    sys.stdout.write(report.model_dump_json() + "\n")
    return 0


def selfcheck(request: SelfcheckRequest) -> SelfcheckReport:
    """Make every check that the request has room for; none of them raises."""
    began = time.perf_counter()
    findings = tuple(found(name, look) for name, look in checks_for(request))
    return SelfcheckReport(findings=findings, took_s=round(time.perf_counter() - began, 4))


def checks_for(request: SelfcheckRequest) -> list[Check]:
    """The checks of a request, by name."""
    checks: list[Check] = [("gae", check_gae), ("n-step", check_n_step), ("v-trace", check_v_trace)]
    return checks


def _failed(message: str) -> int:
    sys.stdout.write(json.dumps({"error": message}) + "\n")
    return 2
