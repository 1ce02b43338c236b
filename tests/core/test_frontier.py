"""The order in which open nodes are split."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hybridtrees.core.search._search import FRONTIERS, NodeQueue

# Few distinct gains, so that ties are common; more nodes than the first buffer holds.
gains = st.lists(st.sampled_from([0.0, 0.5, 1.0, 2.0, 1e300, 1e-300]), max_size=200)


@given(gains)
def test_best_first_takes_the_largest_gain_and_then_the_lowest_id(gains):
    expected = sorted(range(len(gains)), key=lambda k: (-gains[k], k))
    assert NodeQueue("best-first").order(gains) == expected


@given(gains)
def test_other_orders_do_not_look_at_gains(gains):
    ids = list(range(len(gains)))
    assert NodeQueue("depth-wise").order(gains) == ids
    assert NodeQueue("depth-first").order(gains) == ids[::-1]


@given(gains)
def test_a_queue_can_be_used_again(gains):
    queue = NodeQueue("best-first")
    assert queue.order(gains) == queue.order(gains)


def test_names():
    assert set(FRONTIERS) == {"depth-wise", "best-first", "depth-first"}
    with pytest.raises(KeyError):
        NodeQueue("breadth-first")
