"""Decision tree ensembles of ONNX-ML, built of ONNX's own operators.

Small ensembles are matrices: a leaf is reached if as many of the tests above it have the required outcome as there are.
Larger ones are walked down, all trees of a row at a time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from convert.errors import BadInput, Unsupported
from convert.graph import Graph
from convert.numerics.learners import as_float, best_label, class_labels, floats, second_label, transformed
from convert.semantics.trees import AVERAGE, MAX, MIN, SUM, member_sets, next_places, tree_depth

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
_MEMBER = "BRANCH_MEMBER"
_MODES = (*_TESTS, _MEMBER)
"""The modes of TreeEnsemble-5, by number."""

_AGGREGATES = {"SUM": SUM, "AVERAGE": AVERAGE}


_AGAIN = "export the model again"


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
    """[leaves, targets], in the dtype of the computation; what a leaf does not weigh has no influence."""
    members: np.ndarray | None = None
    """The sets that tests of membership look into, padded with NaN: [tests, largest set]."""

    def __post_init__(self) -> None:
        """Raise `BadInput` for successors, roots or features that are not there, and `Unsupported` for a cycle."""
        tests, places = len(self.features), len(self.yes)
        if {len(self.values), len(self.modes), len(self.tracks)} != {tests} or not self.roots.size:
            raise BadInput("decision trees without a root, or with lists of different lengths", hint=_AGAIN)
        _check_range("node", np.concatenate([self.yes, self.no, self.roots]), places)
        _check_range("feature", self.features, 1 << 31)
        tree_depth((self.yes, self.no), tests, self.roots.tolist())

    @property
    def are_apart(self) -> bool:
        """Whether each node and leaf has one node above it, as in a tree."""
        tests = len(self.features)
        below = np.concatenate([self.yes[:tests], self.no[:tests]])
        return len(np.unique(below)) == len(below)


def _check_range(what: str, numbers: np.ndarray, count: int) -> None:
    """Raise `BadInput` for a number below zero, which would count from the end, or of `count` or more."""
    if numbers.size and not (numbers.min() >= 0 and numbers.max() < count):
        odd = numbers[(numbers < 0) | (numbers >= count)][0]
        raise BadInput(f"decision trees name the {what} {odd}, which is not there", hint=_AGAIN)


def tree_regressor(g: Graph, node: ir.Node) -> Sequence[ir.Value]:
    """TreeEnsembleRegressor: [rows, targets]."""
    count = node.attributes.get_int("n_targets", 1)
    trees, kind = _trees(node, "target", count), node.attributes.get_string("aggregate_function", "SUM")
    if kind not in _AGGREGATES:
        raise Unsupported(f"aggregate_function={kind}")
    base = floats(node, "base_values")
    if base.size not in (0, count):
        raise Unsupported(f"TreeEnsembleRegressor of {count} targets and {base.size} base values")
    y = _aggregated(g, as_float(g, node.inputs[0]), trees, _AGGREGATES[kind])
    y = g.Add(y, base) if base.size else y
    return [transformed(g, y, node.attributes.get_string("post_transform", "NONE"))]


def tree_classifier(g: Graph, node: ir.Node) -> Sequence[ir.Value]:
    """TreeEnsembleClassifier: labels [rows], scores [rows, classes]."""
    labels, base = class_labels(node), floats(node, "base_values")
    ids, how = set(node.attributes.get_ints("class_ids")), node.attributes.get_string("post_transform", "NONE")
    trees = _trees(node, "class", len(labels))
    scores = _aggregated(g, as_float(g, node.inputs[0]), trees, SUM)
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
    if {len(a[name].value) for name in a if name.startswith("nodes_") and len(a[name].value)} != {len(modes)}:
        raise BadInput("decision trees with lists of different lengths", hint=_AGAIN)
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
    _check_roots(keys, modes, [([*tests, *leaves])[root] for root in roots])
    _check_range(kind, np.array(a.get_ints(f"{kind}_ids"), np.int64), columns)
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


def _check_roots(keys: list[tuple[int, int]], modes: list[str], roots: list[int]) -> None:
    """Raise `BadInput` unless each tree has one root, which is no leaf beside other nodes; all are indices of nodes."""
    sizes = Counter(tree for tree, _ in keys)
    if Counter(keys[root][0] for root in roots) != Counter(dict.fromkeys(sizes, 1)):
        raise BadInput("decision trees that do not have one root each", hint=_AGAIN)
    if any(modes[root] == "LEAF" and sizes[keys[root][0]] > 1 for root in roots):
        raise BadInput("decision trees with nodes that no root leads to", hint=_AGAIN)


def tree_ensemble(g: Graph, node: ir.Node) -> Sequence[ir.Value]:
    """TreeEnsemble-5: [rows, targets], in the dtype of x."""
    x, a = node.inputs[0], node.attributes
    assert x is not None
    if how := a.get_int("post_transform", 0):
        raise Unsupported(f"post_transform={how}")
    if (how := a.get_int("aggregate_function", SUM)) not in (AVERAGE, SUM, MIN, MAX):
        raise Unsupported(f"aggregate_function={how}")

    def tensor(name: str) -> np.ndarray | None:
        found = a.get_tensor(name, None)
        return None if found is None else found.numpy()

    modes, splits, weights = (tensor(name) for name in ("nodes_modes", "nodes_splits", "leaf_weights"))
    assert modes is not None
    assert splits is not None
    assert weights is not None
    targets, roots = np.array(a.get_ints("leaf_targetids"), np.int64), np.array(a.get_ints("tree_roots"), np.int64)
    yes, no = (
        next_places(a.get_ints(f"nodes_{side}nodeids"), a.get_ints(f"nodes_{side}leafs"), len(targets))
        for side in ("true", "false")
    )
    columns = a.get_int("n_targets", 1)
    _check_range("target", targets, columns)
    dtype = g.dtype(x).numpy()
    limits = np.finfo(dtype)
    table = np.full((len(targets), columns), {MIN: limits.max, MAX: limits.min}.get(how, 0), dtype)
    table[np.arange(len(targets)), targets] = weights
    trees = Trees(
        np.array(a.get_ints("nodes_featureids"), np.int64), splits.astype(dtype), [_MODES[mode] for mode in modes],
        np.array(a.get_ints("nodes_missing_value_tracks_true", []) or [0] * len(modes), bool), yes, no, roots, table,
        _padded_sets(modes, tensor("membership_values"), dtype),
    )  # fmt: skip
    return [_aggregated(g, x, trees, how)]


def _padded_sets(modes: np.ndarray, members: np.ndarray | None, dtype: np.dtype) -> np.ndarray | None:
    """Return the set of each test, padded with NaN, which equals nothing; None if no test has one."""
    sets = iter(member_sets(modes, members))
    of_tests = [next(sets) if _MODES[mode] == _MEMBER else [] for mode in modes]
    width = max(map(len, of_tests), default=0)
    return np.array([[*one, *[np.nan] * (width - len(one))] for one in of_tests], dtype) if width else None


def _aggregated(g: Graph, x: ir.Value, trees: Trees, how: int) -> ir.Value:
    """Return the leaves that each row of x reaches, one in every tree, as one number per target: [rows, targets]."""
    tests, leaves = len(trees.features), len(trees.weights)
    if (width := g.shape(x)[-1]) is not None and isinstance(width, int):
        _check_range("feature", trees.features, width)
    if not tests or tests * leaves > _MATRICES or not trees.are_apart:
        found, axis = _walked(g, x, trees), np.array([1])
    elif how in (MIN, MAX):
        fill = np.array(trees.weights.dtype.type(np.finfo(trees.weights.dtype).max) * (1 if how == MIN else -1))
        found, axis = g.Where(g.Unsqueeze(_reached(g, x, trees), np.array([2])), trees.weights, fill), np.array([1])
    else:
        y = g.MatMul(g.Cast(_reached(g, x, trees), to=g.dtype(x)), trees.weights)
        return g.Div(y, float(len(trees.roots))) if how == AVERAGE else y
    if how in (MIN, MAX):
        return g.node("ReduceMin" if how == MIN else "ReduceMax", [found, axis], {"keepdims": 0})
    return g.node("ReduceMean" if how == AVERAGE else "ReduceSum", [found, axis], {"keepdims": 0})


def _reached(g: Graph, x: ir.Value, trees: Trees) -> ir.Value:
    """Return which leaves each row of x reaches, one in every tree: [rows, leaves]."""
    tests, leaves = len(trees.features), len(trees.weights)
    outcomes = g.Cast(_passed(g, g.Gather(x, trees.features, axis=1), trees, None), to=g.dtype(x))
    above = {int(child): (t, sign) for t in range(tests) for child, sign in ((trees.yes[t], 1), (trees.no[t], -1))}
    agree, wanted = np.zeros((tests, leaves), trees.values.dtype), np.zeros(leaves, trees.values.dtype)
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
    """Return the weights of the leaves that each row of x reaches: [rows, trees, targets]."""
    tests = len(trees.features)
    depth = tree_depth((trees.yes, trees.no), tests, trees.roots.tolist())
    rows = g.Slice(g.dims(x), [0], [1], [0])
    place = g.Expand(trees.roots[None], g.Concat(rows, np.array([len(trees.roots)]), axis=0))
    for _ in range(depth):
        test = g.Min(place, np.int64(max(tests - 1, 0)))
        value = g.GatherElements(x, g.Gather(trees.features, test, axis=0), axis=1)
        passed = _passed(g, value, trees, test)
        place = g.Where(passed, g.Gather(trees.yes, place, axis=0), g.Gather(trees.no, place, axis=0))
    return g.Gather(trees.weights, g.Sub(place, np.int64(tests)), axis=0)


def _passed(g: Graph, value: ir.Value, trees: Trees, test: ir.Value | None) -> ir.Value:
    """Return the outcomes of the tests on `value`: of all tests in order, or of those with the indices `test`."""

    def of_tests(numbers: np.ndarray) -> ir.Value:
        return g.const(numbers) if test is None else g.Gather(numbers, test, axis=0)

    limits, found = of_tests(trees.values), None
    for mode in sorted(set(trees.modes)):
        if mode == _MEMBER:
            passed = _is_member(g, value, None if trees.members is None else of_tests(trees.members))
        else:
            operator, turned = _TESTS[mode]
            passed = g.node(operator, [value, limits])
            passed = g.Not(passed) if turned else passed
        own = of_tests(np.array([m == mode for m in trees.modes]))
        found = passed if found is None else g.Or(g.And(own, passed), g.And(g.Not(own), found))
    assert found is not None
    return g.Or(found, g.And(g.IsNaN(value), of_tests(trees.tracks))) if trees.tracks.any() else found


def _is_member(g: Graph, value: ir.Value, members: ir.Value | None) -> ir.Value:
    """Return whether each value equals one of its members in the last dim; nothing is a member of empty sets."""
    if members is None:
        return g.Less(value, -np.inf)
    same = g.Cast(g.Equal(g.Unsqueeze(value, np.array([-1])), members), to=ir.DataType.INT32)
    return g.Cast(g.ReduceMax(same, np.array([-1]), keepdims=0), to=ir.DataType.BOOL)
