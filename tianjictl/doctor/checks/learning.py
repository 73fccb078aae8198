"""The learning code, proved on the host itself by `python -m runtime selfcheck`: a row for each of its proofs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tianjictl.doctor.finding import Finding, Verdict, fail, ok, skip

if TYPE_CHECKING:
    from runtime.contract.selfcheck import SelfcheckFinding
    from tianjictl.doctor.situation import Examined, Situation

PREFIX = "learning."
WHOLE = f"{PREFIX}code"  #: where no proof could be made at all
#: Proofs that are about the job's environment; the others are about what is installed.
_OF_THE_ENVIRONMENT = ("environment", "autoreset", "step-limit", "env-streams")
_WHY = {
    "gae": "advantages that bootstrap wrongly at a truncation train towards wrong values, and nothing says so",
    "n-step": "a return that reaches over an episode's end trains on rewards of another episode",
    "v-trace": "samples of older policies are weighted by it",
    "not-finite": "one NaN in the parameters and every later update is lost",
    "prioritised-replay": "samples that are drawn too often or too seldom bias what is learnt",
    "streams": "actors with the same random numbers play the same episodes, and count for one",
    "env-streams": "environments with the same random numbers play the same episodes, and count for one",
    "threads": "a learner with other threads than planned waits for cores, or leaves them idle",
    "environment": "every component is made for the shapes that the plan knows",
    "step-limit": "an episode that is cut short by a limit is not over: its value must be bootstrapped",
    "autoreset": "a step after an episode's end that is taken for a real one teaches nonsense",
    "engines": "the two ways to compute a network must agree",
}
_WHY_ELSE = "learning code that computes something else here than elsewhere fails without a word"


def learning_findings(one: Examined, situation: Situation) -> list[Finding]:
    """The rows of one host."""
    if one.selfcheck is None:
        return [_row(one, WHOLE, _unproved(one, situation), _WHY_ELSE)]
    return [
        _row(one, f"{PREFIX}{proof.check}", _judge(one, situation, proof), _WHY.get(proof.check, _WHY_ELSE))
        for proof in one.selfcheck.findings
    ]


def _judge(one: Examined, situation: Situation, proof: SelfcheckFinding) -> Verdict:
    if proof.ok is None:
        return skip(proof.evidence)
    if proof.ok:
        return ok(proof.evidence)
    seen = f": expected {proof.expected}, saw {proof.seen}" if proof.expected or proof.seen else ""
    if proof.check in _OF_THE_ENVIRONMENT:
        env = situation.env_id or "the environment"
        mend = f"mend {env} (docs/environments.md says what a run expects), then: tianjictl doctor JOB --only {PREFIX}"
        return fail(proof.evidence + seen, f"{mend}{proof.check}")
    mend = f"{situation.playbook('bootstrap', one)} installs the packages anew; if it still fails, report it"
    return fail(proof.evidence + seen, mend)


def _unproved(one: Examined, situation: Situation) -> Verdict:
    if one.failure is not None:
        return skip("not reached")
    if one.selfcheck_problem is None:
        return skip("not tried" if one.software is not None else "there is no Python to ask")
    return fail(f"the proofs could not be made: {one.selfcheck_problem}", situation.playbook("bootstrap", one))


def _row(one: Examined, check: str, verdict: Verdict, why: str) -> Finding:
    return Finding(check, one.name, verdict.severity, verdict.evidence, why, verdict.mend)


def is_learning(check: str) -> bool:
    """Whether a check's id belongs here."""
    return check.startswith(PREFIX)
