"""ONNX files with operators of ONNX-ML and ONNX Runtime whose attributes contradict each other.

Tree ensembles whose nodes form cycles or are not there, and attentions with a cache whose heads are negative, do not
fit, or are far too many.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.suites.hostile_files.case import Canary, Case, file_name

FLOAT, INT32, INT64 = 1, 6, 7
MOST = (1 << 63) - 1
ODD_COUNTS = (0, -1, 3, 1 << 31, 1 << 40, MOST)


def _node(operator: str, inputs: list[str], outputs: list[str], domain: str, attributes: dict[str, Any]) -> Any:
    """Return a node; the type of an empty list follows from its name."""
    import onnx.helper as oh

    node = oh.make_node(operator, inputs, outputs, domain=domain)
    for name, value in attributes.items():
        empty = 6 if name.endswith(("_weights", "_values")) else 8 if name.endswith("_modes") else 7
        kind = empty if isinstance(value, list) and not value else None
        node.attribute.append(oh.make_attribute(name, value, attr_type=kind))
    return node


def _model(node: Any, inputs: list[tuple[str, int, list[Any]]], outputs: list[str]) -> Any:
    import onnx.helper as oh

    graph = oh.make_graph(
        [node], "g", [oh.make_tensor_value_info(*each) for each in inputs],
        [oh.make_tensor_value_info(name, FLOAT, None) for name in outputs],
    )  # fmt: skip
    imports = [
        oh.make_opsetid("", 20),
        oh.make_opsetid("ai.onnx.ml", 5 if node.op_type == "TreeEnsemble" else 3),
        oh.make_opsetid("com.microsoft", 1),
    ]
    return oh.make_model(graph, opset_imports=imports, ir_version=9)


# -- trees ------------------------------------------------------------------------------------------------------------

_OLD: dict[str, Any] = {
    "nodes_treeids": [0, 0, 0], "nodes_nodeids": [0, 1, 2], "nodes_featureids": [0, 0, 0],
    "nodes_values": [0.5, 0.0, 0.0], "nodes_modes": ["BRANCH_LEQ", "LEAF", "LEAF"], "nodes_truenodeids": [1, 0, 0],
    "nodes_falsenodeids": [2, 0, 0], "nodes_missing_value_tracks_true": [0, 0, 0], "target_treeids": [0, 0],
    "target_nodeids": [1, 2], "target_ids": [0, 0], "target_weights": [1.0, 2.0], "n_targets": 1,
}  # fmt: skip
"""A regressor of ONNX-ML 1 with one tree of three nodes."""
_TREES: dict[str, dict[str, Any]] = {
    "a node of itself": {"nodes_truenodeids": [0, 0, 0]},
    "two nodes of each other": {"nodes_modes": ["BRANCH_LEQ", "BRANCH_LEQ", "LEAF"], "nodes_truenodeids": [1, 0, 0]},
    "one leaf twice": {"nodes_falsenodeids": [1, 0, 0]},
    "a node that is not there": {"nodes_truenodeids": [99, 0, 0]},
    "a node below zero": {"nodes_truenodeids": [-1, 0, 0]},
    "a node of 2^63": {"nodes_truenodeids": [MOST, 0, 0]},
    "nodes of one name": {"nodes_nodeids": [0, 0, 0]},
    "a root that is none": {"nodes_nodeids": [5, 1, 2]},
    "a feature of 2^40": {"nodes_featureids": [1 << 40, 0, 0]},
    "a feature below zero": {"nodes_featureids": [-1, 0, 0]},
    "a target of 2^40": {"target_ids": [1 << 40, 0]},
    "a target below zero": {"target_ids": [-1, 0]},
    "a target of no leaf": {"target_nodeids": [0, 99]},
    "a target of no tree": {"target_treeids": [7, 7]},
    "targets of 2^40": {"n_targets": 1 << 40},
    "targets of -1": {"n_targets": -1},
    "no targets": {"n_targets": 0},
    "lists of another length": {"nodes_values": [0.5]},
    "lists of no length": {name: [] for name in _OLD if name.startswith("nodes_")},
    "weights that lack": {"target_weights": []},
    "NaN as a threshold": {"nodes_values": [float("nan"), 0.0, 0.0], "target_weights": [float("inf"), float("nan")]},
    "an unknown mode": {"nodes_modes": ["os.system", "LEAF", "LEAF"]},
    "a mode of lines": {"nodes_modes": ["\x1b[31m\nPASS", "LEAF", "LEAF"]},
    "a root that is a leaf": {"nodes_modes": ["LEAF", "LEAF", "LEAF"]},
    "another aggregation": {"aggregate_function": "os.system"},
    "another transformation": {"post_transform": "os.system"},
    "base values of another count": {"base_values": [1.0] * 1000},
    "trees of negative numbers": {"nodes_treeids": [-5, -5, -5], "target_treeids": [-5, -5]},
}


def _chain(depth: int) -> dict[str, Any]:
    """Return a tree in which each branch has a leaf and the next branch."""
    count, branches = 2 * depth + 1, range(depth)
    modes = [*["BRANCH_LEQ"] * depth, *["LEAF"] * (depth + 1)]
    truth = [*(depth + i for i in branches), *[0] * (depth + 1)]
    other = [*(i + 1 if i + 1 < depth else 2 * depth for i in branches), *[0] * (depth + 1)]
    leaves = [*range(depth, count)]
    return {
        "nodes_treeids": [0] * count, "nodes_nodeids": [*range(count)], "nodes_featureids": [0] * count,
        "nodes_values": [0.5] * count, "nodes_modes": modes, "nodes_truenodeids": truth, "nodes_falsenodeids": other,
        "nodes_missing_value_tracks_true": [0] * count, "target_treeids": [0] * len(leaves), "target_nodeids": leaves,
        "target_ids": [0] * len(leaves), "target_weights": [1.0] * len(leaves),
    }  # fmt: skip


def _new_trees() -> Iterator[tuple[str, Any]]:
    """Yield ensembles of ONNX-ML 5, whose branches and leaves are in lists of their own."""
    import numpy as np
    import onnx.numpy_helper as onh

    good: dict[str, Any] = {
        "nodes_featureids": [0], "nodes_truenodeids": [0], "nodes_trueleafs": [1], "nodes_falsenodeids": [1],
        "nodes_falseleafs": [1], "leaf_targetids": [0, 0], "tree_roots": [0], "n_targets": 1,
    }  # fmt: skip
    arrays = {"nodes_splits": np.float32([0.5]), "nodes_modes": np.uint8([0]), "leaf_weights": np.float32([1, 2])}
    changes: dict[str, dict[str, Any]] = {
        "a branch of itself": {"nodes_trueleafs": [0]}, "a leaf of 2^40": {"nodes_truenodeids": [1 << 40]},
        "a leaf below zero": {"nodes_truenodeids": [-1]}, "roots of 2^40": {"tree_roots": [1 << 40]},
        "roots below zero": {"tree_roots": [-1]}, "no roots": {"tree_roots": []},
        "10^5 roots": {"tree_roots": [0] * 10**5},
        "a target of 2^40": {"leaf_targetids": [1 << 40, 0]}, "a target below zero": {"leaf_targetids": [-1, 0]},
        "targets of 2^40": {"n_targets": 1 << 40}, "targets of -1": {"n_targets": -1},
        "an aggregation of 99": {"aggregate_function": 99}, "a transformation of 99": {"post_transform": 99},
        "a mode of 9": {"nodes_modes": np.uint8([9])}, "modes of floats": {"nodes_modes": np.float32([0])},
        "splits of two": {"nodes_splits": np.float32([0, 1])}, "splits of text": {"nodes_splits": np.array(["a"])},
        "a member set": {"nodes_modes": np.uint8([6]), "membership_values": np.float32([])},
        "members of NaN": {"nodes_modes": np.uint8([6]), "membership_values": np.float32([np.nan] * 5)},
    }  # fmt: skip
    for name, change in changes.items():
        values = {**good, **arrays, **change}
        values = {k: onh.from_array(v, k) if isinstance(v, np.ndarray) else v for k, v in values.items()}
        node = _node("TreeEnsemble", ["x"], ["y"], "ai.onnx.ml", values)
        yield f"trees of ONNX-ML 5: {name}", _model(node, [("x", FLOAT, ["batch", 4])], ["y"])


def _trees() -> Iterator[tuple[str, Any]]:
    changes = _TREES | {"a chain of 20,000": _chain(20_000), "a chain of 500": _chain(500)}
    for name, change in changes.items():
        values = _OLD | change
        node = _node("TreeEnsembleRegressor", ["x"], ["y"], "ai.onnx.ml", values)
        yield f"trees: {name}", _model(node, [("x", FLOAT, ["batch", 4])], ["y"])
        values = {key.replace("target_", "class_"): value for key, value in values.items() if key != "n_targets"}
        values |= {"classlabels_int64s": [0, 1]}
        node = _node("TreeEnsembleClassifier", ["x"], ["label", "y"], "ai.onnx.ml", values)
        yield f"classes of trees: {name}", _model(node, [("x", FLOAT, ["batch", 4])], ["y"])


# -- attention --------------------------------------------------------------------------------------------------------


def _attentions() -> Iterator[tuple[str, Any]]:
    def model(name: str, attributes: dict[str, Any], cache: list[Any], width: int = 16, lengths: Any = None) -> Any:
        names = ["q", "k", "v", "past_k", "past_v", "lengths", "total", "cos", "sin"]
        node = _node("GroupQueryAttention", names, ["y", "k2", "v2"], "com.microsoft", attributes)
        inputs = [
            ("q", FLOAT, ["batch", "tokens", width]), ("k", FLOAT, ["batch", "tokens", 8]),
            ("v", FLOAT, ["batch", "tokens", 8]), ("past_k", FLOAT, cache), ("past_v", FLOAT, cache),
            ("lengths", INT32, lengths or ["batch", 1]), ("total", INT32, [1]), ("cos", FLOAT, [8, 2]),
            ("sin", FLOAT, [8, 2]),
        ]  # fmt: skip
        return f"attention: {name}", _model(node, inputs, ["y", "k2", "v2"])

    good, cache = {"num_heads": 4, "kv_num_heads": 2}, ["batch", 2, "past", 4]
    for key in ("num_heads", "kv_num_heads", "local_window_size", "do_rotary", "rotary_interleaved", "smooth_softmax",
                "qk_output"):  # fmt: skip
        for value in ODD_COUNTS:
            yield model(f"{key} of {value}", {**good, key: value}, cache)
    for key in ("scale", "softcap"):
        for value in (float("nan"), float("inf"), -1e38, 0.0):
            yield model(f"{key} of {value}", {**good, key: value}, cache)
    for value in ([], [2], ["batch", 2, 1 << 40, 4], ["batch", -1, "past", 4], ["batch", 3, "past", 4],
                  ["batch", 2, "past", 1 << 40], ["batch", 2, "past", 0], [1 << 62, 2, 1 << 62, 4]):  # fmt: skip
        yield model(f"a cache of {value}", good, value)
    yield model("a width of 15", good, cache, 15)
    yield model("a width of 0", good, cache, 0)
    yield model("a width of 2^40", good, cache, 1 << 40)
    yield model("lengths of two dims more", good, cache, lengths=["batch", 1, 7])
    yield model("no heads said", {}, cache)
    yield model("a text for heads", {**good, "num_heads": "4"}, cache)


def operator_files(folder: Path, canary: Canary) -> Iterator[Case]:
    """Write a file for each model. Trees are also converted to Caffe2, which computes them by simpler operators."""
    del canary  # nothing in these files is code
    for makers in (_trees(), _new_trees(), _attentions()):
        for number, (name, model) in enumerate(makers):
            path = folder / f"{number}_{file_name(name)}.onnx"
            path.write_bytes(model.SerializeToString())
            yield Case(name, path)
            if "trees" in name:
                yield Case(f"{name}, to caffe2", path, ("--to", "caffe2", "-o", "m.caffe2"), verbs=("convert",))
