"""The attributes of TreeEnsemble as every backend reads them."""

from __future__ import annotations

import numpy as np
import pytest

from convert.errors import Unsupported
from convert.semantics.trees import MEMBER, member_sets, next_places, tree_depth

NAN = float("nan")


def test_each_node_that_looks_into_a_set_has_one() -> None:
    modes = np.array([0, MEMBER, 3, MEMBER])
    assert member_sets(modes, np.array([1.0, 2.0, NAN, NAN])) == [[1.0, 2.0], []]
    assert member_sets(np.array([0, 5]), None) == []


@pytest.mark.parametrize("members", [None, [1.0, NAN], [1.0, NAN, 2.0, NAN, 3.0, NAN]])
def test_sets_that_are_left_over_or_lack_are_refused(members: list[float] | None) -> None:
    with pytest.raises(Unsupported, match="other than one set of values"):
        member_sets(np.array([MEMBER, MEMBER]), None if members is None else np.array(members))


def test_leaves_lead_to_themselves_and_a_circle_is_refused() -> None:
    true, false = next_places([1, 0], [0, 1], 3), next_places([2, 1], [1, 1], 3)
    assert (true.tolist(), false.tolist()) == ([1, 2, 2, 3, 4], [4, 3, 2, 3, 4])
    assert tree_depth((true, false), 2, [0]) == 2
    assert tree_depth((true, false), 2, [3]) == 0
    with pytest.raises(Unsupported, match="form a cycle"):
        tree_depth((next_places([1, 0], [0, 0], 0), next_places([1, 0], [0, 0], 0)), 2, [0])
