"""The numbers of an ensemble of decision trees, for every version of ONNX-ML's operators.

TreeEnsembleClassifier and TreeEnsembleRegressor list leaves among the nodes; TreeEnsemble-5 lists them apart. The
numbers of trees and nodes are left out: they only link the tables, and another form of the same ensemble has others.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir

_OPERATORS = ("TreeEnsemble", "TreeEnsembleRegressor", "TreeEnsembleClassifier")
_THRESHOLDS = ("nodes_splits", "nodes_values", "nodes_values_as_tensor")
_NUMBERS = (
    "leaf_weights", "membership_values", "class_weights", "class_weights_as_tensor", "target_weights",
    "target_weights_as_tensor", "base_values", "base_values_as_tensor",
)  # fmt: skip


def is_ensemble(node: ir.Node) -> bool:
    """Return whether the node is an ensemble of decision trees."""
    return node.domain == "ai.onnx.ml" and node.op_type in _OPERATORS


def thresholds(node: ir.Node) -> tuple[np.ndarray, np.ndarray]:
    """Return the features (int64) and thresholds (float) of the nodes of an ensemble that test; leaves have none."""
    features, modes = _table(node, "nodes_featureids"), _table(node, "nodes_modes")
    values = np.concatenate([_table(node, name) for name in _THRESHOLDS if name in node.attributes] or [np.zeros(0)])
    tests = modes != "LEAF"
    return features[tests], values[: len(tests)][tests]


def numbers_of_ensemble(node: ir.Node) -> dict[str, np.ndarray]:
    """Return the thresholds, weights and sets of an ensemble, each by a name of its own."""
    found = {name: _table(node, name) for name in _NUMBERS if name in node.attributes}
    return {"thresholds": thresholds(node)[1], **found}


def _table(node: ir.Node, name: str) -> np.ndarray:
    content: Any = node.attributes[name].value
    return content.numpy() if isinstance(content, ir.TensorProtocol) else np.asarray(content)
