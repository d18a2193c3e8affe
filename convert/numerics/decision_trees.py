"""Decision tree ensembles of ONNX-ML's first versions, built of ONNX's own operators.

Small ensembles are matrices: a leaf is reached if as many of the tests above it have the required outcome as there are.
Larger ones are walked down, all trees of a row at a time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from convert.errors import Unsupported
from convert.graph import Graph
from convert.numerics.learners import FLOAT, as_float, best_label, class_labels, floats, second_label, transformed
from convert.semantics.trees import tree_depth

_MATRICES = 2**20
"""Largest number of elements of the matrices of an ensemble that is built with them."""

_TESTS = {
    "BRANCH_LEQ": ("LessOrEqual", False),
    "BRANCH_LT": ("Less", False),
    "BRANCH_GTE": ("GreaterOrEqual", False),
    "BRANCH_GT": ("Greater", False),
    "BRANCH_EQ": ("Equal", False),
    "BRANCH_NEQ": ("Equal", True),
}


@dataclass(frozen=True)
class Trees:
    """An ensemble.

    Tests are numbered over all trees, leaves after them; `yes` and `no` hold the successors of each place.
    """

    features: np.ndarray
    values: np.ndarray
    modes: list[str]
    tracks: np.ndarray
    yes: np.ndarray
    no: np.ndarray
    roots: np.ndarray
    weights: np.ndarray
    """[leaves, targets]"""


def tree_regressor(g: Graph, node: ir.Node) -> Sequence[ir.Value]:
    """TreeEnsembleRegressor: [rows, targets]."""
    count = node.attributes.get_int("n_targets", 1)
    trees, kind = _trees(node, "target", count), node.attributes.get_string("aggregate_function", "SUM")
    y = _sums(g, as_float(g, node.inputs[0]), trees, kind)
    base = floats(node, "base_values")
    y = g.Add(y, base) if base.size else y
    return [transformed(g, y, node.attributes.get_string("post_transform", "NONE"))]


def tree_classifier(g: Graph, node: ir.Node) -> Sequence[ir.Value]:
    """TreeEnsembleClassifier: labels [rows], scores [rows, classes]."""
    labels, base = class_labels(node), floats(node, "base_values")
    ids, how = set(node.attributes.get_ints("class_ids")), node.attributes.get_string("post_transform", "NONE")
    trees = _trees(node, "class", len(labels))
    scores = _sums(g, as_float(g, node.inputs[0]), trees, "SUM")
    if len(labels) > 2:
        if base.size not in (0, len(labels)):
            raise Unsupported(f"TreeEnsembleClassifier of {len(labels)} classes and {base.size} base values")
        scores = g.Add(scores, base) if base.size else scores
        return [best_label(g, scores, labels), transformed(g, scores, how)]
    if len(labels) != 2 or ids != {0} or base.size > 1 or how not in ("NONE", "LOGISTIC"):
        # ONNX Runtime returns the second label, or 1, if the second score is above 0; the specification has no such
        # rule.
        raise Unsupported("TreeEnsembleClassifier of two classes that does not have scores of the first one only")
    score = g.Slice(scores, [0], [1], [1])
    score = g.Add(score, base) if base.size else score
    chance = transformed(g, score, how)
    if (floats(node, "class_weights") >= 0).all():
        return [second_label(g, score, labels, 0.5), g.Concat(g.Sub(1.0, chance), chance, axis=1)]
    first = g.Sub(1.0, chance) if how == "LOGISTIC" else g.Neg(score)
    return [second_label(g, score, labels, 0.0), g.Concat(first, chance, axis=1)]


def _trees(node: ir.Node, kind: str, columns: int) -> Trees:
    """Return the ensemble of a node. `kind` is what its leaves hold: `target` or `class`."""
    names = {n for n in node.attributes if n.endswith("_as_tensor")}
    if names:
        raise Unsupported(f"trees of float64 ({', '.join(sorted(names))})")
    a = node.attributes
    modes = list(a.get_strings("nodes_modes"))
    keys = list(zip(a.get_ints("nodes_treeids"), a.get_ints("nodes_nodeids"), strict=True))
    tests = [i for i, m in enumerate(modes) if m != "LEAF"]
    leaves = [i for i, m in enumerate(modes) if m == "LEAF"]
    if unknown := {modes[i] for i in tests} - set(_TESTS):
        raise Unsupported(f"trees with nodes of {', '.join(sorted(unknown))}")
    place = {keys[i]: k for k, i in enumerate([*tests, *leaves])}

    def ahead(name: str) -> np.ndarray:
        ids = a.get_ints(name)
        return np.array([place[keys[i][0], ids[i]] for i in tests] + list(range(len(tests), len(keys))), np.int64)

    yes, no = ahead("nodes_truenodeids"), ahead("nodes_falsenodeids")
    below = {*yes[: len(tests)].tolist(), *no[: len(tests)].tolist()}
    roots = [place[keys[i]] for i in sorted([*tests, *leaves]) if place[keys[i]] not in below]
    weights = np.zeros((len(leaves), columns), np.float32)
    for tree, number, column, weight in zip(
        a.get_ints(f"{kind}_treeids"), a.get_ints(f"{kind}_nodeids"), a.get_ints(f"{kind}_ids"),
        a.get_floats(f"{kind}_weights"), strict=True,
    ):  # fmt: skip
        weights[place[tree, number] - len(tests), column] += np.float32(weight)
    missing = a.get_ints("nodes_missing_value_tracks_true", []) or [0] * len(keys)
    pick = np.array(tests, np.int64)
    return Trees(
        np.array(a.get_ints("nodes_featureids"), np.int64)[pick], floats(node, "nodes_values")[pick],
        [modes[i] for i in tests], np.array(missing, bool)[pick], yes, no, np.array(roots, np.int64), weights,
    )  # fmt: skip


def _sums(g: Graph, x: ir.Value, trees: Trees, kind: str) -> ir.Value:
    """Return the sum or the average, over all trees, of the leaves that each row of x reaches: [rows, targets]."""
    if kind not in ("SUM", "AVERAGE"):
        raise Unsupported(f"aggregate_function={kind}")
    tests, leaves = len(trees.features), len(trees.weights)
    if tests and tests * leaves <= _MATRICES:
        y = g.MatMul(g.Cast(_reached(g, x, trees), to=FLOAT), trees.weights)
    else:
        y = _walked(g, x, trees)
    return g.Div(y, float(len(trees.roots))) if kind == "AVERAGE" else y


def _reached(g: Graph, x: ir.Value, trees: Trees) -> ir.Value:
    """Return which leaves each row of x reaches, one in every tree: [rows, leaves]."""
    tests, leaves = len(trees.features), len(trees.weights)
    outcomes = g.Cast(_passed(g, g.Gather(x, trees.features, axis=1), trees, None), to=FLOAT)
    above = {int(child): (t, sign) for t in range(tests) for child, sign in ((trees.yes[t], 1), (trees.no[t], -1))}
    agree, wanted = np.zeros((tests, leaves), np.float32), np.zeros(leaves, np.float32)
    for leaf in range(leaves):
        step = above.get(tests + leaf)
        for _ in range(tests + 1):
            if step is None:
                break
            test, sign = step
            agree[test, leaf], wanted[leaf] = sign, wanted[leaf] + (sign > 0)
            step = above.get(test)
    return g.Equal(g.MatMul(outcomes, agree), wanted)


def _walked(g: Graph, x: ir.Value, trees: Trees) -> ir.Value:
    tests = len(trees.features)
    depth = tree_depth((trees.yes, trees.no), tests, trees.roots.tolist())
    rows = g.Slice(g.dims(x), [0], [1], [0])
    place = g.Expand(trees.roots[None], g.Concat(rows, np.array([len(trees.roots)]), axis=0))
    for _ in range(depth):
        test = g.Min(place, np.int64(max(tests - 1, 0)))
        value = g.GatherElements(x, g.Gather(trees.features, test, axis=0), axis=1)
        passed = _passed(g, value, trees, test)
        place = g.Where(passed, g.Gather(trees.yes, place, axis=0), g.Gather(trees.no, place, axis=0))
    return g.ReduceSum(g.Gather(trees.weights, g.Sub(place, np.int64(tests)), axis=0), np.array([1]), keepdims=0)


def _passed(g: Graph, value: ir.Value, trees: Trees, test: ir.Value | None) -> ir.Value:
    """Return the outcomes of the tests on `value`: of all tests in order, or of those with the indices `test`."""

    def of_tests(numbers: np.ndarray) -> ir.Value:
        return g.const(numbers) if test is None else g.Gather(numbers, test, axis=0)

    limits, found = of_tests(trees.values), None
    for mode in sorted(set(trees.modes)):
        operator, turned = _TESTS[mode]
        passed = g.node(operator, [value, limits])
        passed = g.Not(passed) if turned else passed
        own = of_tests(np.array([m == mode for m in trees.modes]))
        found = passed if found is None else g.Or(g.And(own, passed), g.And(g.Not(own), found))
    assert found is not None
    return g.Or(found, g.And(g.IsNaN(value), of_tests(trees.tracks))) if trees.tracks.any() else found
