"""The sum tree against running sums over a list."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from runtime.replay.sumtree import SumTree

priorities = st.lists(st.sampled_from([0.0, 0.25, 1.0, 3.0, 1e6]), min_size=1, max_size=40)


def tree_of(values: list[float]) -> SumTree:
    tree = SumTree(len(values))
    tree.set(np.arange(len(values)), np.array(values))
    return tree


@given(priorities, st.data())
def test_a_mass_falls_into_the_leaf_whose_interval_holds_it(values: list[float], data: st.DataObject) -> None:
    tree, sums = tree_of(values), np.cumsum(values)
    assert tree.total == sums[-1]
    if tree.total == 0.0:
        return
    mass = data.draw(st.floats(0.0, tree.total, exclude_max=True))
    assert tree.find(np.array([mass]))[0] == np.searchsorted(sums, mass, side="right")


@given(priorities, st.lists(st.tuples(st.integers(0, 39), st.floats(0.0, 9.0)), max_size=30))
def test_setting_leaves_again_keeps_every_sum(values: list[float], changes: list[tuple[int, float]]) -> None:
    changes = [(at % len(values), value) for at, value in changes]
    tree, expected = tree_of(values), np.array(values)
    if changes:
        at, new = np.array([c[0] for c in changes]), np.array([c[1] for c in changes])
        tree.set(at, new)
        for index, value in changes:  # an index given twice takes the last value
            expected[index] = value
    np.testing.assert_array_equal(tree.get(np.arange(len(values))), expected)
    rebuilt = SumTree(len(values))
    rebuilt.rebuild(expected)
    np.testing.assert_allclose(tree.total, expected.sum(), rtol=1e-12, atol=1e-9)
    np.testing.assert_allclose(rebuilt.total, tree.total, rtol=1e-12)


def test_rounding_at_the_very_end_never_leads_into_an_empty_leaf() -> None:
    tree = tree_of([0.1] * 7 + [0.0] * 6)
    found = tree.find(np.array([tree.total, np.nextafter(tree.total, 9.0)]))
    assert (found == 6).all()


def test_a_rebuild_forgets_what_was_there() -> None:
    tree = tree_of([5.0] * 9)
    tree.rebuild(np.array([1.0, 2.0]))
    assert tree.total == 3.0
    np.testing.assert_array_equal(tree.get(np.arange(9)), [1, 2, 0, 0, 0, 0, 0, 0, 0])


def test_a_tree_of_one_leaf_works() -> None:
    tree = tree_of([2.0])
    assert tree.find(np.array([0.0, 1.9])).tolist() == [0, 0]
