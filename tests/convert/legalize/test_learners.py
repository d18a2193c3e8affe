"""ONNX-ML operators written out in ONNX's own: onnxruntime gives the same for both forms."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime
import pytest
from onnx import helper

from convert.errors import BadInput
from convert.legalize.table import LEARNERS
from convert.legalize.write_out import write_out
from convert.reference.onnx_file import evaluate_file
from convert.reference.table import kernel
from tests.support.onnx_support import read

ML = "ai.onnx.ml"
RNG = np.random.default_rng(4)
NAN = float("nan")
FLOAT, INT64 = onnx.TensorProto.FLOAT, onnx.TensorProto.INT64

CASES: list[Any] = []


def case(name: str, operator: str, *inputs: np.ndarray, outputs: tuple[int, ...] = (FLOAT,), **attributes: Any) -> None:
    CASES.append(pytest.param(operator, inputs, outputs, attributes, id=f"{operator} {name}".strip()))


def rows(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def numbers(count: int) -> list[float]:
    return RNG.standard_normal(count).astype(np.float32).tolist()  # type: ignore[no-any-return]


X, Z = rows(7, 4), RNG.integers(-2, 3, (6, 4))
HOLES = np.where(RNG.random((7, 4)) < 0.4, NAN, X).astype(np.float32)
case("", "ArrayFeatureExtractor", X, np.array([3, 0, 0], np.int64))
case("of integers", "ArrayFeatureExtractor", Z, np.array([1], np.int64), outputs=(INT64,))
case("", "Binarizer", X, threshold=0.2)
case("of integers", "LabelEncoder", Z, outputs=(INT64,), keys_int64s=[-1, 0, 2, 0], values_int64s=[7, 8, 9, 10])
case("to floats", "LabelEncoder", Z, keys_int64s=[-1, 0, 2], values_floats=[0.5, -1.5, 2.0])
case("of floats", "LabelEncoder", np.where(HOLES > 0, 1.5, HOLES).astype(np.float32), outputs=(INT64,),
     keys_floats=[1.5, NAN], values_int64s=[4, 5], default_int64=3)  # fmt: skip
case("by column", "Scaler", X, offset=numbers(4), scale=numbers(4))
case("by one number, of integers", "Scaler", Z, offset=[0.5], scale=[2.0])
case("of NaN", "Imputer", HOLES, imputed_value_floats=numbers(4), replaced_value_float=NAN)
case("of a number", "Imputer", Z.astype(np.float32), imputed_value_floats=[7.0], replaced_value_float=1.0)
case("of integers", "Imputer", Z, outputs=(INT64,), imputed_value_int64s=[5, 6, 7, 8], replaced_value_int64=-1)
for norm in ("MAX", "L1", "L2"):
    case(norm, "Normalizer", np.concatenate([X, -np.abs(X), np.zeros((1, 4), np.float32)]), norm=norm)
case("of the largest, with NaN", "Normalizer", HOLES, norm="MAX")
case("", "FeatureVectorizer", X, rows(7, 2), inputdimensions=[4, 2])
case("of more and fewer columns", "FeatureVectorizer", X, rows(7, 2), inputdimensions=[3, 5])
case("of integers", "OneHotEncoder", Z, cats_int64s=[-1, 0, 2, 9], zeros=1)
case("of floats", "OneHotEncoder", Z.astype(np.float32), cats_int64s=[-1, 0, 2], zeros=1)
case("", "LinearRegressor", X, coefficients=numbers(8), intercepts=numbers(2), targets=2)
case("without intercepts", "LinearRegressor", X, coefficients=numbers(4), targets=1)
BOTH = (INT64, FLOAT)
for how in ("NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO"):
    case(f"of three, {how}", "LinearClassifier", X, outputs=BOTH, coefficients=numbers(12), intercepts=numbers(3),
         classlabels_ints=[1, 5, 9], post_transform=how)  # fmt: skip
for how in ("NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO"):
    case(f"{how}", "LinearRegressor", X, coefficients=numbers(8), intercepts=numbers(2), targets=2, post_transform=how)
    case(f"of one score, {how}", "LinearClassifier", X, outputs=BOTH, coefficients=numbers(4), intercepts=[0.3],
         classlabels_ints=[3, 4], post_transform=how)  # fmt: skip
    case(f"of two scores, {how}", "LinearClassifier", Z, outputs=BOTH, coefficients=numbers(8), intercepts=numbers(2),
         classlabels_ints=[3, 4], post_transform=how)  # fmt: skip
for kind, params in {"LINEAR": [0.0, 0.0, 0.0], "POLY": [0.3, 0.5, 3.0], "RBF": [0.4, 0.0, 0.0],
                     "SIGMOID": [0.2, 0.1, 0.0]}.items():  # fmt: skip
    case(kind, "SVMRegressor", X, coefficients=numbers(5), support_vectors=numbers(20), n_supports=5, rho=[0.2],
         kernel_type=kind, kernel_params=params)  # fmt: skip
for kind, params in {"LINEAR": [0.0, 0.0, 0.0], "POLY": [0.3, 0.5, 3.0], "RBF": [0.4, 0.0, 0.0],
                     "SIGMOID": [0.2, 0.1, 0.0]}.items():  # fmt: skip
    for vectors in ([2, 3], [3, 1, 2], [1, 2, 1, 3]):
        case(f"{kind}, {len(vectors)} classes", "SVMClassifier", X, outputs=BOTH, kernel_type=kind,
             kernel_params=params, coefficients=numbers(sum(vectors) * (len(vectors) - 1)),
             support_vectors=numbers(sum(vectors) * 4), rho=numbers(len(vectors) * (len(vectors) - 1) // 2),
             vectors_per_class=vectors, classlabels_ints=[7, 3, 5, 9][: len(vectors)])  # fmt: skip
case("LOGISTIC", "SVMClassifier", X, outputs=BOTH, kernel_type="RBF", kernel_params=[0.4, 0.0, 0.0],
     coefficients=numbers(12), support_vectors=numbers(24), rho=numbers(3), vectors_per_class=[2, 2, 2],
     classlabels_ints=[1, 2, 3], post_transform="LOGISTIC")  # fmt: skip
for vectors in ([2, 3], [3, 1, 2], [1, 2, 1, 3], [2] * 7):
    pairs = len(vectors) * (len(vectors) - 1) // 2
    for how in ("NONE", "LOGISTIC", "SOFTMAX"):
        case(f"probabilities, {len(vectors)} classes, {how}", "SVMClassifier", rows(40, 4), outputs=BOTH,
             kernel_type="RBF", kernel_params=[0.4, 0.0, 0.0], coefficients=numbers(sum(vectors) * (len(vectors) - 1)),
             support_vectors=numbers(sum(vectors) * 4), rho=numbers(pairs), vectors_per_class=vectors,
             classlabels_ints=list(range(5, 5 + len(vectors))), prob_a=[-5 * abs(a) for a in numbers(pairs)],
             prob_b=numbers(pairs), post_transform=how)  # fmt: skip
case("probabilities, of texts", "SVMClassifier", X, outputs=(onnx.TensorProto.STRING, FLOAT), kernel_type="LINEAR",
     kernel_params=[0.0] * 3, coefficients=[abs(n) for n in numbers(5)], support_vectors=numbers(20), rho=[0.1],
     vectors_per_class=[2, 3], classlabels_strings=["no", "yes"], prob_a=[-1.0], prob_b=[0.1])  # fmt: skip
TEXTS = (onnx.TensorProto.STRING, FLOAT)
case("of texts", "SVMClassifier", X, outputs=TEXTS, kernel_type="RBF", kernel_params=[0.4, 0.0, 0.0],
     coefficients=numbers(5), support_vectors=numbers(20), rho=[0.1], vectors_per_class=[2, 3],
     classlabels_strings=["no", "yes"])  # fmt: skip
case("of three texts", "LinearClassifier", X, outputs=TEXTS, coefficients=numbers(12), intercepts=numbers(3),
     classlabels_strings=["a", "β", ""], post_transform="SOFTMAX")  # fmt: skip
case("of one score, texts", "LinearClassifier", X, outputs=TEXTS, coefficients=numbers(4), intercepts=[0.3],
     classlabels_strings=["no", "yes"])  # fmt: skip
case("of one class", "SVMRegressor", X, coefficients=numbers(5), support_vectors=numbers(20), n_supports=5, rho=[0.2],
     kernel_type="RBF", kernel_params=[0.4, 0.0, 0.0], one_class=1)  # fmt: skip
case("without vectors", "SVMRegressor", X, coefficients=numbers(4), rho=[0.2], kernel_type="LINEAR",
     kernel_params=[0.0, 0.0, 0.0])  # fmt: skip


def forest(
    kind: str, columns: int, trees: int, depth: int, modes: list[str], dense: bool, sign: int = 0
) -> dict[str, Any]:
    """Return attributes of random trees over four features; each leaf has a number for one column, or for all."""
    chance = np.random.default_rng(trees * 100 + depth)
    names = ("treeids", "nodeids", "featureids", "values", "modes", "truenodeids", "falsenodeids",
             "missing_value_tracks_true")  # fmt: skip
    of_nodes: dict[str, list[Any]] = {n: [] for n in names}
    of_leaves: dict[str, list[Any]] = {n: [] for n in ("treeids", "nodeids", "ids", "weights")}
    for tree in range(trees):
        waiting, count = [(0, 0)], 1
        while waiting:
            number, level = waiting.pop()
            leaf = level == depth or (level > 0 and chance.random() < 0.2)
            mode = "LEAF" if leaf else modes[int(chance.integers(len(modes)))]
            after = (0, 0) if leaf else (count, count + 1)
            row = (tree, number, int(chance.integers(4)), float(np.float32(chance.normal())), mode, *after,
                   int(chance.random() < 0.3))  # fmt: skip
            for name, value in zip(of_nodes, row, strict=True):
                of_nodes[name].append(value)
            if not leaf:
                waiting += [(after[0], level + 1), (after[1], level + 1)]
                count += 2
            for column in (range(columns) if dense else [int(chance.integers(columns))]) if leaf else []:
                weight = float(np.float32(chance.normal()))
                for name, value in zip(of_leaves, (tree, number, column, abs(weight) if sign else weight), strict=True):
                    of_leaves[name].append(value)
    return {f"nodes_{n}": v for n, v in of_nodes.items()} | {f"{kind}_{n}": v for n, v in of_leaves.items()}


TREE: dict[str, Any] = {
    "nodes_treeids": [0, 0, 0], "nodes_nodeids": [0, 1, 2], "nodes_featureids": [1, 0, 0],
    "nodes_values": [0.5, 0.0, 0.0], "nodes_modes": ["BRANCH_LEQ", "LEAF", "LEAF"], "nodes_truenodeids": [1, 0, 0],
    "nodes_falsenodeids": [2, 0, 0], "target_treeids": [0, 0], "target_nodeids": [1, 2], "target_ids": [0, 0],
    "target_weights": [1.0, 2.0], "n_targets": 1,
}  # fmt: skip
case("of a leaf below two tests", "TreeEnsembleRegressor", X, **TREE | {
    "nodes_treeids": [0] * 4, "nodes_nodeids": [0, 1, 2, 3], "nodes_featureids": [0, 1, 0, 0],
    "nodes_values": [0.0] * 4, "nodes_modes": ["BRANCH_LEQ", "BRANCH_LEQ", "LEAF", "LEAF"],
    "nodes_truenodeids": [1, 2, 0, 0], "nodes_falsenodeids": [2, 3, 0, 0], "target_nodeids": [2, 3],
})  # fmt: skip
LEQ, ALL = ["BRANCH_LEQ"], ["BRANCH_LEQ", "BRANCH_LT", "BRANCH_GT", "BRANCH_GTE", "BRANCH_EQ", "BRANCH_NEQ"]
for size, (trees, depth) in {"small": (5, 3), "deep": (4, 12)}.items():
    for modes in (LEQ, ALL):
        case(f"{size}, {len(modes)} modes", "TreeEnsembleRegressor", HOLES, n_targets=3, base_values=numbers(3),
             **forest("target", 3, trees, depth, modes, dense=True))  # fmt: skip
    case(f"{size}, average", "TreeEnsembleRegressor", HOLES, n_targets=1, aggregate_function="AVERAGE",
         **forest("target", 1, trees, depth, LEQ, dense=True))  # fmt: skip
    for how in ("NONE", "SOFTMAX", "LOGISTIC"):
        case(f"{size}, of three, {how}", "TreeEnsembleClassifier", X, outputs=BOTH, post_transform=how,
             classlabels_int64s=[4, 5, 9], base_values=numbers(3),
             **forest("class", 3, trees, depth, LEQ, dense=False))  # fmt: skip
    for how in ("NONE", "LOGISTIC"):
        for sign in (0, 1):
            case(f"{size}, of one score, {how}, {'positive' if sign else 'any'}", "TreeEnsembleClassifier", X,
                 outputs=BOTH, classlabels_int64s=[4, 5], post_transform=how, base_values=[0.2],
                 **forest("class", 1, trees, depth, LEQ, dense=True, sign=sign))  # fmt: skip


def ensemble(mode: int, how: int, deep: bool) -> dict[str, Any]:
    """Return the attributes of TreeEnsemble-5 for three trees whose tests have `mode` (6: sets) or are mixed (−1).

    The leaves of a tree are of one target for a minimum or a maximum: ONNX Runtime makes 0 of a target without leaves,
    the specification the extreme of the dtype.
    """
    chance, depth = np.random.default_rng(mode + 8), 12 if deep else 2
    nodes: list[list[Any]] = []
    leaves: list[tuple[int, float]] = []
    roots = []

    def grown(level: int) -> tuple[int, int]:
        """Add a subtree; return its number, and whether it is a leaf."""
        if level == depth or (level > 1 and chance.random() < 0.2):
            leaves.append((len(roots) % 2 if how > 1 else int(chance.integers(2)), float(np.float32(chance.normal()))))
            return len(leaves) - 1, 1
        own = len(nodes)
        kind = mode if mode >= 0 else int(chance.integers(7))
        nodes.append([int(chance.integers(4)), kind, float(np.round(chance.normal())), int(chance.random() < 0.3)])
        nodes[own] += [*grown(level + 1), *grown(level + 1)]
        return own, 0

    for _ in range(3):
        roots.append(grown(0)[0])
    features, modes, splits, tracks, true, true_leaf, false, false_leaf = (list(c) for c in zip(*nodes, strict=True))
    count = modes.count(6)
    members = [v for i in range(count) for v in (-1.0, *[0.0, float(i)][: i % 3], NAN)]
    given = {"membership_values": helper.make_tensor("m", FLOAT, [len(members)], members)} if count else {}
    return {
        "aggregate_function": how, "n_targets": 2, "tree_roots": roots,
        "leaf_targetids": [t for t, _ in leaves],
        "leaf_weights": helper.make_tensor("w", FLOAT, [len(leaves)], [w for _, w in leaves]),
        "nodes_featureids": features, "nodes_missing_value_tracks_true": tracks,
        "nodes_modes": helper.make_tensor("k", onnx.TensorProto.UINT8, [len(modes)], modes),
        "nodes_splits": helper.make_tensor("s", FLOAT, [len(splits)], splits),
        "nodes_truenodeids": true, "nodes_trueleafs": true_leaf, "nodes_falsenodeids": false,
        "nodes_falseleafs": false_leaf, **given,
    }  # fmt: skip


for mode in range(7):
    case(f"mode {mode}", "TreeEnsemble", np.round(HOLES), **ensemble(mode, 1, False))
for how in range(4):
    for deep in (False, True):
        case(f"{'deep' if deep else 'small'}, aggregate {how}", "TreeEnsemble", np.round(HOLES),
             **ensemble(-1, how, deep))  # fmt: skip


def model_of(
    operator: str, inputs: tuple[np.ndarray, ...], outputs: tuple[int, ...], attributes: dict[str, Any]
) -> Any:
    ins = [
        helper.make_tensor_value_info(
            f"x{i}", helper.np_dtype_to_tensor_dtype(a.dtype), ["n" if a.ndim > 1 else None, *a.shape[1:]]
        )
        for i, a in enumerate(inputs)
    ]
    outs = [helper.make_tensor_value_info(f"y{i}", kind, None) for i, kind in enumerate(outputs)]
    names = [v.name for v in ins], [v.name for v in outs]
    node = helper.make_node(operator, *names, domain=ML, **attributes)
    imports = [helper.make_opsetid("", 17), helper.make_opsetid(ML, 5 if operator == "TreeEnsemble" else 3)]
    return helper.make_model(helper.make_graph([node], "g", ins, outs), opset_imports=imports, ir_version=8)


def answers(proto: onnx.ModelProto, feed: dict[str, np.ndarray]) -> list[np.ndarray]:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return session.run(None, feed)  # type: ignore[no-any-return]


def agree(got: np.ndarray, want: np.ndarray) -> None:
    if want.dtype == object:
        assert got.tolist() == want.tolist()
    else:
        np.testing.assert_allclose(got, want, rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize(("operator", "inputs", "outputs", "attributes"), CASES)
def test_expanded(
    operator: str, inputs: tuple[np.ndarray, ...], outputs: tuple[int, ...], attributes: dict[str, Any]
) -> None:
    proto = model_of(operator, inputs, outputs, attributes)
    model = read(proto)
    assert write_out(model, takes_standard)
    assert not any(node.domain for node in model.graph.all_nodes())
    model.ir_version = 10
    written = ir.serde.serialize_model(model)
    for count in (len(inputs[0]), 1):
        feed = {f"x{i}": a[:count] if a.ndim > 1 else a for i, a in enumerate(inputs)}
        for got, want in zip(answers(written, feed), answers(proto, feed), strict=True):
            assert got.dtype == want.dtype
            agree(got, want.reshape(got.shape))


OF_KERNELS = [c for c in CASES if f"{ML}::{c.values[0]}" in kernel]


@pytest.mark.parametrize(("operator", "inputs", "outputs", "attributes"), OF_KERNELS)
def test_the_reference_of_a_verification_is_onnx_runtime(
    operator: str, inputs: tuple[np.ndarray, ...], outputs: tuple[int, ...], attributes: dict[str, Any]
) -> None:
    proto = model_of(operator, inputs, outputs, attributes)
    feed = {f"x{i}": a for i, a in enumerate(inputs)}
    (found,) = evaluate_file(proto, [feed])
    for got, want in zip(found.values(), answers(proto, feed), strict=True):
        agree(np.asarray(got), want.reshape(np.shape(got)))


def takes_standard(node: ir.Node) -> bool:
    """Return whether a node is of ONNX's default domain."""
    return not node.domain


def test_every_expansion_has_a_case() -> None:
    assert {f"{ML}::{c.values[0]}" for c in CASES} == set(LEARNERS)


def test_what_stands_behind_an_operator_without_inference_has_a_dtype() -> None:
    """ONNX infers nothing for a Scaler; the dtype after its sum is known once the Scaler is written out."""
    proto = model_of("Scaler", (X,), (FLOAT,), {"offset": [0.5], "scale": [2.0]})
    graph = proto.graph
    graph.node[0].output[0] = "scaled"
    graph.node.append(helper.make_node("Add", ["scaled", "scaled"], ["twice"]))
    graph.node.append(helper.make_node("Imputer", ["twice"], ["y0"], domain=ML, imputed_value_floats=[1.0]))
    model = read(proto)
    assert write_out(model, takes_standard)
    assert not any(node.domain for node in model.graph.all_nodes())


def test_what_is_not_taken_stays() -> None:
    unlabelled = {"coefficients": numbers(8), "intercepts": numbers(2)}
    assert not write_out(read(model_of("LinearClassifier", (X,), BOTH, unlabelled)), takes_standard)
    scaler = read(model_of("Scaler", (X,), (FLOAT,), {"offset": [0.0], "scale": [1.0]}))
    assert not write_out(scaler, lambda node: node.op_type == "Scaler" or takes_standard(node))


@pytest.mark.parametrize(
    ("operator", "outputs", "attributes"),
    [
        ("LinearClassifier", BOTH, {"coefficients": numbers(5), "intercepts": numbers(2), "classlabels_ints": [0, 1]}),
        ("FeatureVectorizer", (FLOAT,), {"inputdimensions": [4, 4]}),
        (
            "SVMClassifier",
            BOTH,
            {"coefficients": numbers(5), "classlabels_ints": [0, 1, 2], "vectors_per_class": [1] * 3},
        ),
    ],
)
def test_attributes_that_contradict_each_other_are_named(
    operator: str, outputs: tuple[int, ...], attributes: dict[str, Any]
) -> None:
    with pytest.raises(BadInput, match=f"{operator}.*do not fit"):
        write_out(read(model_of(operator, (X,), outputs, attributes)), takes_standard)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"nodes_truenodeids": [0, 0, 0]}, "nodes that no root leads to"),
        ({"nodes_modes": ["LEAF"] * 3}, "do not have one root each"),
        ({"nodes_values": [0.5]}, "lists of different lengths"),
        ({"nodes_featureids": [-1, 0, 0]}, "the feature -1, which is not there"),
        ({"nodes_featureids": [4, 0, 0]}, "the feature 4, which is not there"),
        ({"target_ids": [0, -1]}, "the target -1, which is not there"),
    ],
)
def test_trees_that_are_none_are_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(BadInput, match=message):
        write_out(read(model_of("TreeEnsembleRegressor", (X,), (FLOAT,), TREE | change)), takes_standard)
