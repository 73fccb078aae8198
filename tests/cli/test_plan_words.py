"""An explanation on the screen: short lines, numbers aligned, nothing left out that was found."""

from __future__ import annotations

import pytest

from tianjictl.cli.plan_words import show_explanation
from tianjictl.planning.explain import Bind, CriticalPath, Explanation, NextBest, Proof
from tianjictl.planning.marginal import Marginal

FOUND = Explanation(
    bottleneck="memory",
    binds=(
        Bind(cause="memory", gain=0.6, sentence="the memory of n1: 0.82 GiB of 0.88 GiB that may be used are taken"),
        Bind(cause="actors", gain=0.0, sentence="the CPU time of the 5 actors"),
    ),
    marginal=(
        Marginal(what="one more node like n1", limit="node", host="n1", samples_per_s=4100.0, gain=0.08, shape="L2A10"),
        Marginal(what="environments and actors 10 % faster", limit="actors", samples_per_s=12.0, gain=0.0023),
        Marginal(what="one more core on n1", limit="core", host="n1", samples_per_s=0.0, gain=0.0),
    ),
    idle={"learner": 0.1, "actor": 0.0, "buffer": 0.95, "cores": 0.25},
    critical_path=CriticalPath(
        group=0, fragment_samples=2048, sample_s=0.1, receive_s=0.002, actors=5, train_s=0.03, round_s=0.1, hidden=True
    ),
    next_best=NextBest(shape="L1A4", learner_cores=2, cores=6, samples_per_s=80_000.0, gain=-0.2, shared=False),
    crowded=NextBest(shape="L2A8", learner_cores=2, cores=12, samples_per_s=148_000.0, gain=0.48, shared=True),
    proof=Proof(words="feasible gap 2.0%", gap=0.02),
)


def test_what_binds_comes_first_and_the_rest_after_it(capsys: pytest.CaptureFixture[str]) -> None:
    show_explanation(FOUND)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "what binds is the memory of n1: 0.82 GiB of 0.88 GiB that may be used are taken"
    assert lines[1] == "also the CPU time of the 5 actors"
    assert lines[-5:] == [
        "idle: learner 10%, actor 0%, buffer 95%, cores 25%",
        "critical path: T_round = max(T_sp, N_A·T_rv) = max(100 ms, 5 × 2 ms) = 100 ms per fragment of 2,048: "
        "receiving is hidden behind sampling; the learner needs 5 × 30 ms for what a round brings",
        "next best shape: L1A4 (2 cores per learner, 6 in all): -20.0% samples/s",
        "sharing cores: --shape L2A8 --oversubscribe is predicted to give +48.0% samples/s",
        "proof: feasible gap 2.0%: nothing can be better by more than 2.0%",
    ]


def test_what_more_would_be_worth_is_a_table_with_numbers_in_columns(capsys: pytest.CaptureFixture[str]) -> None:
    show_explanation(FOUND)
    lines = capsys.readouterr().out.splitlines()
    table = lines[lines.index("") + 1 : len(lines) - 6]
    assert [line.split("  ")[0] for line in table[1:]] == [each.what for each in FOUND.marginal]
    ends = {line.index(word) + len(word) for line, word in zip(table[1:], ("+4,100", "+12", " 0"), strict=True)}
    assert len(ends) == 1, "right-aligned"
    assert table[1].endswith("+8.0%  L2A10")


def test_without_measurements_only_the_proof_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    show_explanation(Explanation(proof=Proof(words="optimal for usual rates (nothing measured)", gap=0.0)))
    assert capsys.readouterr().out == "proof: optimal for usual rates (nothing measured)\n"
