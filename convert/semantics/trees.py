"""Ensembles of decision trees, in the form of the attributes of ONNX-ML's TreeEnsemble-5."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from convert.errors import Unsupported

MEMBER = 6
"""The mode of a node that tests membership in a set; the other modes are ≤, <, ≥, >, = and ≠."""
AVERAGE, SUM, MIN, MAX = range(4)
"""Ways to aggregate the leaves that the trees reach."""


def member_sets(modes: np.ndarray, members: np.ndarray | None) -> list[list[float]]:
    """Return the set of values of each membership node, in order; in the attribute, each set ends with NaN.

    Raises `Unsupported` if the numbers of sets and of such nodes differ.
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
    """Return the successor of each place as int64. Leaves are numbered after the nodes, and lead to themselves."""
    count = len(ids)
    ahead = np.where(np.asarray(are_leaves, bool), np.asarray(ids) + count, ids)
    return np.concatenate([ahead, np.arange(count, count + leaves)]).astype(np.int64)


def tree_depth(after: Sequence[np.ndarray], count: int, roots: Sequence[int]) -> int:
    """Return the length of the longest path from a root to a leaf; `after` holds the successors of `count` nodes.

    Raises `Unsupported` if the nodes form a cycle.
    """
    depth, reached = 0, {int(r) for r in roots if r < count}
    while reached:
        if depth > count:
            raise Unsupported("TreeEnsemble whose nodes form a cycle")
        reached = {int(branch[node]) for node in reached for branch in after if branch[node] < count}
        depth += 1
    return depth
