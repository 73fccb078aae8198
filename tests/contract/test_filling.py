"""Flows that share limits: fair, feasible, and as large as they can be."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.contract.filling import Limit, fill


def test_flows_rise_together_until_their_shared_limit_and_the_others_go_on():
    filled = fill([1.0, 1.0, 1.0], [Limit("shared", {0: 1.0, 1: 1.0}, 4.0), Limit("own", {2: 1.0}, 7.0)])
    assert filled.flows == pytest.approx((2.0, 2.0, 7.0))
    assert filled.stopped_by == (("shared",), ("shared",), ("own",))


def test_a_flow_that_its_own_limit_stops_leaves_its_share_to_others():
    limits = [Limit("small", {0: 1.0}, 1.0), Limit("shared", {0: 1.0, 1: 1.0}, 10.0)]
    assert fill([1.0, 1.0], limits).flows == pytest.approx((1.0, 9.0))


def test_flows_rise_at_their_own_pace():
    assert fill([1.0, 3.0], [Limit("shared", {0: 1.0, 1: 1.0}, 8.0)]).flows == pytest.approx((2.0, 6.0))


def test_a_limit_below_nothing_leaves_nothing():
    assert fill([1.0], [Limit("none", {0: 1.0}, -3.0)]).flows == (0.0,)


def test_limits_that_are_reached_together_are_both_named():
    filled = fill([1.0], [Limit("one", {0: 1.0}, 5.0), Limit("other", {0: 2.0}, 10.0)])
    assert filled.stopped_by == (("one", "other"),)


def test_a_flow_without_a_limit_is_a_mistake():
    with pytest.raises(ValueError, match="no limit"):
        fill([1.0, 1.0], [Limit("one", {0: 1.0}, 5.0)])


@st.composite
def networks(draw: st.DrawFn) -> tuple[list[float], list[Limit]]:
    count = draw(st.integers(1, 5))
    sizes = st.floats(0.1, 10.0)
    limits = [Limit(("own", i), {i: 1.0}, draw(st.floats(0.0, 20.0))) for i in range(count)]
    for number in range(draw(st.integers(0, 4))):
        members = draw(st.sets(st.integers(0, count - 1), min_size=1))
        limits.append(Limit(("shared", number), {i: draw(sizes) for i in members}, draw(st.floats(0.0, 50.0))))
    return [draw(sizes) for _ in range(count)], limits


@given(networks())
def test_no_limit_is_broken_and_no_flow_could_rise_without_another_that_is_no_larger_falling(
    network: tuple[list[float], list[Limit]],
) -> None:
    paces, limits = network
    flows = fill(paces, limits).flows
    for limit in limits:
        assert sum(weight * flows[i] for i, weight in limit.weights.items()) <= limit.most + 1e-6 + 1e-6 * limit.most
    for index, flow in enumerate(flows):
        level = flow / paces[index]
        # A bottleneck: a full limit in which nobody has risen further than this one.
        assert any(
            sum(weight * flows[i] for i, weight in limit.weights.items()) >= limit.most - 1e-6 - 1e-6 * limit.most
            and all(flows[i] / paces[i] <= level + 1e-6 * (1 + level) for i in limit.weights)
            for limit in limits
            if index in limit.weights
        )
