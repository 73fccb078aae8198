"""Why a plan is as it is, for a person: short sentences and a table of what more would be worth."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tianjictl.cli.output import print_table, say
from tianjictl.planning.explain import WHAT_BINDS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from runtime.contract.plan import Plan
    from tianjictl.planning.explain import Explanation
    from tianjictl.planning.marginal import Marginal


def show_why(plan: Plan, found: Explanation | None) -> None:
    """The first sentences of a plan, or the whole explanation where there is one; then what is to be noted."""
    lines = plan.predicted.explanation
    if found is not None:
        show_explanation(found)
        lines = tuple(line for line in lines if not line.startswith(WHAT_BINDS))
    for line in (*lines, *(f"note: {text}" for text in plan.notes)):
        say(line)


def show_explanation(found: Explanation) -> None:
    """The whole of it on standard output."""
    for position, bind in enumerate(found.binds):
        say(f"{'also' if position else WHAT_BINDS} {bind.sentence}")
    if found.marginal:
        _marginal(found.marginal)
    for line in _lines(found):
        say(line)


def _marginal(found: tuple[Marginal, ...]) -> None:
    worth = [each for each in found if each.gain > 0]
    rows = [(each.what, f"+{each.samples_per_s:,.0f}", f"{each.gain:+.1%}", each.shape or "") for each in worth]
    rows += [(each.what, "0", "0", "") for each in found if each.gain <= 0]
    say()
    print_table(("what more would be worth", "samples/s", "gain", "as"), rows, right=(1, 2))
    say()


def _lines(found: Explanation) -> Iterator[str]:
    if found.idle:
        short = found.idle.get("actor_short_of_cores", 0.0)
        roles = {role: share for role, share in found.idle.items() if role != "actor_short_of_cores"}
        want = f"; actors go without a core for {short:.0%} of their time" if short >= 0.005 else ""
        yield "idle: " + ", ".join(f"{role} {share:.0%}" for role, share in roles.items()) + want
    if found.critical_path is not None:
        yield f"critical path: {found.critical_path}"
    if (other := found.next_best) is not None:
        cores = f"{other.learner_cores} core{'' if other.learner_cores == 1 else 's'} per learner"
        shared = ", sharing cores" if other.shared else ""
        yield f"next best shape: {other.shape} ({cores}, {other.cores} in all{shared}): {_change(other.gain)}"
    if (other := found.crowded) is not None:
        yield f"sharing cores: --shape {other.shape} --oversubscribe is predicted to give {_change(other.gain)}"
    gap = f": nothing can be better by more than {found.proof.gap:.1%}" if found.proof.gap >= 0.001 else ""
    yield f"proof: {found.proof.words}{gap}"


def _change(gain: float) -> str:
    return "as many samples/s" if gain == 0 else f"{gain:+.1%} samples/s"
