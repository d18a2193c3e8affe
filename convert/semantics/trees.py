"""Ensembles of decision trees, as TreeEnsemble-5 of ONNX-ML has them in its attributes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from convert.errors import Unsupported

MEMBER = 6
"""The mode of a node that looks into a set; the others are ≤, <, ≥, >, = and ≠."""
AVERAGE, SUM, MIN, MAX = range(4)
"""What becomes of the leaves that the trees come to."""


def member_sets(modes: np.ndarray, members: np.ndarray | None) -> list[list[float]]:
    """The values of each node that looks into a set, in order; in the attribute each set ends with NaN.

    Raises `Unsupported` where there are more sets than such nodes, or fewer.
    """
    sets: list[list[float]] = [[]]
    for value in [] if members is None else members.tolist():
        if np.isnan(value):
            sets.append([])
        else:
            sets[-1].append(value)
    if len(sets) - 1 != int((modes == MEMBER).sum()):
        raise Unsupported("TreeEnsemble with other than one set of values for each membership node")
    return sets[:-1]


def next_places(ids: Sequence[int], are_leaves: Sequence[int], leaves: int) -> np.ndarray:
    """Where each place leads, int64: leaves come behind the nodes in one numbering, and lead to themselves."""
    count = len(ids)
    ahead = np.where(np.asarray(are_leaves, bool), np.asarray(ids) + count, ids)
    return np.concatenate([ahead, np.arange(count, count + leaves)]).astype(np.int64)


def tree_depth(after: Sequence[np.ndarray], count: int, roots: Sequence[int]) -> int:
    """The longest way from a root to a leaf; `after` leads on from each of `count` nodes.

    Raises `Unsupported` where nodes go in a circle.
    """
    depth, reached = 0, {int(r) for r in roots if r < count}
    while reached:
        if depth > count:
            raise Unsupported("TreeEnsemble whose nodes go in a circle")
        reached = {int(branch[node]) for node in reached for branch in after if branch[node] < count}
        depth += 1
    return depth
