"""Ensembles of decision trees (TreeEnsemble-5 of ONNX-ML)."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from convert.errors import Unsupported
from convert.semantics.trees import AVERAGE, MEMBER, MIN, SUM, member_sets, next_places, tree_depth

from ..dtypes import tensor_from
from ..rules import onnx_op

_TESTS = (torch.le, torch.lt, torch.ge, torch.gt, torch.eq, torch.ne)


@onnx_op("ai.onnx.ml::TreeEnsemble")
def tree_ensemble(
    t, x, *, aggregate_function, leaf_targetids, leaf_weights, membership_values, n_targets, nodes_falseleafs,
    nodes_falsenodeids, nodes_featureids, nodes_hitrates, nodes_missing_value_tracks_true, nodes_modes, nodes_splits,
    nodes_trueleafs, nodes_truenodeids, post_transform, tree_roots,
):  # fmt: skip
    if post_transform:
        raise Unsupported(f"TreeEnsemble with post_transform={post_transform}")
    modes = nodes_modes.numpy()
    sets = member_sets(modes, None if membership_values is None else membership_values.numpy())
    missing = nodes_missing_value_tracks_true or [0] * len(nodes_featureids)
    columns = []
    for feature, mode, split, tracks in zip(
        nodes_featureids, modes.tolist(), nodes_splits.numpy().tolist(), missing, strict=True
    ):
        value = x[:, feature]
        if mode == MEMBER:
            same = [torch.eq(value, v) for v in sets.pop(0)]
            test = torch.stack(same).any(0) if same else torch.zeros_like(value, dtype=torch.bool)
        else:
            test = _TESTS[mode](value, split)
        columns.append(test | torch.isnan(value) if tracks else test)
    outcomes = torch.stack(columns, 1)
    count, leaves = len(nodes_featureids), len(leaf_targetids)
    true = next_places(nodes_truenodeids, nodes_trueleafs, leaves)
    false = next_places(nodes_falsenodeids, nodes_falseleafs, leaves)
    place = tensor_from(np.asarray(tree_roots, np.int64))[None].expand([x.shape[0], len(tree_roots)])
    for _ in range(tree_depth((true, false), count, tree_roots)):
        goes = torch.gather(outcomes, 1, torch.clamp(place, max=count - 1))
        place = torch.where(goes, tensor_from(true)[place], tensor_from(false)[place])
    values = tensor_from(leaf_weights.numpy()).to(x.dtype)[place - count]
    targets = tensor_from(np.asarray(leaf_targetids, np.int64))[place - count]
    return _aggregated(values, targets[..., None] == torch.arange(n_targets), aggregate_function, len(tree_roots))


def _aggregated(values: Any, of: Any, function: int, trees: int) -> Any:
    """Return one number per target from values [rows, trees] or [rows, trees, targets]."""
    if function in (SUM, AVERAGE):
        total = torch.where(of, values[..., None], torch.zeros_like(values)[..., None]).sum(1)
        return total / trees if function == AVERAGE else total
    limits = torch.finfo(values.dtype)
    fill = torch.full_like(values, limits.max if function == MIN else limits.min)[..., None]
    chosen = torch.where(of, values[..., None], fill)
    return torch.amin(chosen, 1) if function == MIN else torch.amax(chosen, 1)
