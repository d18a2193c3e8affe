"""Ensembles of decision trees, as TreeEnsemble-5 of ONNX-ML has them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from convert.errors import Unsupported

from ..dtypes import tensor_from
from ..rules import onnx_op

_TESTS = (torch.le, torch.lt, torch.ge, torch.gt, torch.eq, torch.ne)
_MEMBER = 6
_AVERAGE, _SUM, _MIN, _MAX = range(4)


@onnx_op("ai.onnx.ml::TreeEnsemble")
def tree_ensemble(
    t, x, *, aggregate_function, leaf_targetids, leaf_weights, membership_values, n_targets, nodes_falseleafs,
    nodes_falsenodeids, nodes_featureids, nodes_hitrates, nodes_missing_value_tracks_true, nodes_modes, nodes_splits,
    nodes_trueleafs, nodes_truenodeids, post_transform, tree_roots,
):  # fmt: skip
    if post_transform:
        raise Unsupported(f"TreeEnsemble with post_transform={post_transform}")
    sets = _sets([] if membership_values is None else membership_values.numpy())
    missing = nodes_missing_value_tracks_true or [0] * len(nodes_featureids)
    columns = []
    for feature, mode, split, tracks in zip(
        nodes_featureids, nodes_modes.numpy().tolist(), nodes_splits.numpy().tolist(), missing, strict=True
    ):
        value = x[:, feature]
        if mode == _MEMBER:
            if not sets:
                raise Unsupported("TreeEnsemble with fewer sets of values than nodes that look into one")
            same = [torch.eq(value, v) for v in sets.pop(0)]
            test = torch.stack(same).any(0) if same else torch.zeros_like(value, dtype=torch.bool)
        else:
            test = _TESTS[mode](value, split)
        columns.append(test | torch.isnan(value) if tracks else test)
    outcomes = torch.stack(columns, 1)
    # Leaves come behind the nodes in one numbering, and lead to themselves.
    count = len(nodes_featureids)
    themselves = np.arange(count, count + len(leaf_targetids))
    true, false = (
        np.concatenate([np.asarray(ids) + count * np.asarray(leaf), themselves]).astype(np.int64)
        for ids, leaf in ((nodes_truenodeids, nodes_trueleafs), (nodes_falsenodeids, nodes_falseleafs))
    )
    place = tensor_from(np.asarray(tree_roots, np.int64))[None].expand([x.shape[0], len(tree_roots)])
    for _ in range(_depth((true, false), count, tree_roots)):
        goes = torch.gather(outcomes, 1, torch.clamp(place, max=count - 1))
        place = torch.where(goes, tensor_from(true)[place], tensor_from(false)[place])
    values = tensor_from(leaf_weights.numpy()).to(x.dtype)[place - count]
    targets = tensor_from(np.asarray(leaf_targetids, np.int64))[place - count]
    return _aggregated(values, targets[..., None] == torch.arange(n_targets), aggregate_function, len(tree_roots))


def _sets(members: Any) -> list[list[float]]:
    """The values of each node that looks into a set; in the attribute each set ends with NaN."""
    found: list[list[float]] = [[]]
    for value in np.asarray(members, np.float64).tolist():
        if np.isnan(value):
            found.append([])
        else:
            found[-1].append(value)
    return found[:-1]


def _depth(after: Sequence[np.ndarray], count: int, roots: Sequence[int]) -> int:
    """The longest way from a root to a leaf. Raises `Unsupported` where nodes go in a circle."""
    depth, reached = 0, {int(r) for r in roots if r < count}
    while reached:
        if depth > count:
            raise Unsupported("TreeEnsemble whose nodes go in a circle")
        reached = {int(branch[node]) for branch in after for node in reached if branch[node] < count}
        depth += 1
    return depth


def _aggregated(values: Any, of: Any, function: int, trees: int) -> Any:
    """One number for each target: values [rows, trees], of [rows, trees, targets]."""
    if function in (_SUM, _AVERAGE):
        total = torch.where(of, values[..., None], torch.zeros_like(values)[..., None]).sum(1)
        return total / trees if function == _AVERAGE else total
    limits = torch.finfo(values.dtype)
    fill = torch.full_like(values, limits.max if function == _MIN else limits.min)[..., None]
    chosen = torch.where(of, values[..., None], fill)
    return torch.amin(chosen, 1) if function == _MIN else torch.amax(chosen, 1)
