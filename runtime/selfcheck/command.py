"""`python -m runtime selfcheck JSON`: proves the learning code on this host, prints a SelfcheckReport (JSON both)."""

from __future__ import annotations

import contextlib
import json
import sys
import time
from collections.abc import Sequence

from pydantic import ValidationError

from runtime.contract.job import EnvConfig
from runtime.contract.selfcheck import SelfcheckReport, SelfcheckRequest
from runtime.selfcheck.description import Description
from runtime.selfcheck.drawing import check_prioritised_replay, replay_settings
from runtime.selfcheck.finding import Check, found
from runtime.selfcheck.golden import check_gae, check_n_step, check_v_trace
from runtime.selfcheck.limits import check_step_limit
from runtime.selfcheck.numerics import check_engines, check_threads
from runtime.selfcheck.resets import check_resets
from runtime.selfcheck.sentinel import check_not_finite
from runtime.selfcheck.streams import check_env_streams, check_streams


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
    findings = [found(name, look) for name, look in checks_of_the_code(request)]
    if request.env is not None:
        description = Description(request.env)
        findings.append(found("environment", lambda: description.check(request.spec)))
        if description.spec is not None:  # one that cannot be made is one finding, not four
            findings += [found(name, look) for name, look in checks_of_the_environment(request, request.env)]
    return SelfcheckReport(findings=tuple(findings), took_s=round(time.perf_counter() - began, 4))


def checks_of_the_code(request: SelfcheckRequest) -> list[Check]:
    """Those that need no environment."""
    seed = request.seed
    checks: list[Check] = [
        ("gae", check_gae),
        ("n-step", check_n_step),
        ("v-trace", check_v_trace),
        ("not-finite", lambda: check_not_finite(request.algorithm, seed)),
        ("prioritised-replay", lambda: check_prioritised_replay(replay_settings(request.algorithm), seed)),
        ("streams", lambda: check_streams(seed)),
        ("threads", lambda: check_threads(request.threads)),
    ]
    if request.full:
        checks.append(("engines", lambda: check_engines(seed)))
    return checks


def checks_of_the_environment(request: SelfcheckRequest, env: EnvConfig) -> list[Check]:
    """Those that play it."""
    seed, look_s = request.seed, request.look_s
    return [
        ("autoreset", lambda: check_resets(env, seed, look_s)),
        ("step-limit", lambda: check_step_limit(env, seed, look_s)),
        ("env-streams", lambda: check_env_streams(env, seed, look_s)),
    ]


def _failed(message: str) -> int:
    sys.stdout.write(json.dumps({"error": message}) + "\n")
    return 2
