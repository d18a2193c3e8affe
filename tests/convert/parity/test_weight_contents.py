"""Constants of two graphs are compared by content: a change is found even if names and layouts differ."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import helper, numpy_helper

import convert
from convert import plugin
from convert.legalize.write_out import write_out
from convert.outcome.verdict import INCONCLUSIVE, PASS
from convert.parity.pairing.weight_contents import compare_weight_contents
from tests.convert.parity.test_weights import holding

RNG = np.random.default_rng(5)
TABLE = RNG.standard_normal((50, 8)).astype(np.float32)
WEIGHT = RNG.standard_normal((8, 6)).astype(np.float32)
LABELS = np.arange(100, 140)


def changed(array: np.ndarray, change: str) -> np.ndarray:
    """Return the array with one row changed."""
    other = array.copy()
    other[17] = {"negative": -other[17], "swapped": other[17][::-1].copy(), "other": other[17] + 1}[change]
    return other


@pytest.mark.parametrize(
    "right",
    [
        {"table": TABLE, "weight": WEIGHT},
        {"a": WEIGHT.T.copy(), "b": TABLE.reshape(-1)},
        {"a": WEIGHT.T.copy(), "b": TABLE.astype(np.float64), "more": np.ones(40, np.float32)},
    ],
)
def test_the_same_in_any_order(right: dict[str, np.ndarray]) -> None:
    found = compare_weight_contents(holding(table=TABLE, weight=WEIGHT), holding(**right))
    assert str(found) == "same weights (all 2 compared)"


@pytest.mark.parametrize("change", ["negative", "other"])
@pytest.mark.parametrize("name", ["table", "elsewhere"])
@pytest.mark.parametrize("turned", [False, True])
def test_a_changed_row(change: str, name: str, turned: bool) -> None:
    other = changed(TABLE, change)
    right = holding(**{name: other.T.copy() if turned else other, "weight": WEIGHT})
    found = compare_weight_contents(holding(table=TABLE, weight=WEIGHT), right)
    assert [(each.name, each.size, each.missing) for each in found.changed] == [("table", 400, 8)]
    assert "differ in places: 1 of 2 tensors" in str(found)


def test_weights_that_no_node_reads_do_not_count() -> None:
    """The kernels of a recurrent layer stay in the graph beside W and R, which were made of them."""
    kernel = RNG.standard_normal((12, 12)).astype(np.float32)
    left = holding(whole=kernel, top=kernel[:6])
    left.graph.outputs[:] = [left.graph.initializers["top"]]
    assert str(compare_weight_contents(left, holding(w=kernel[:6].T.copy()))) == "same weights (all 1 compared)"


def test_rows_in_another_order_differ_where_names_and_shapes_are_the_same() -> None:
    """A permutation of elements is not a change of content; the outputs show it."""
    found = compare_weight_contents(holding(table=TABLE), holding(table=changed(TABLE, "swapped")))
    assert found.changed == ()


def test_roundings_and_folded_scales_are_no_changes() -> None:
    rounded = compare_weight_contents(holding(table=TABLE), holding(table=TABLE * np.float32(1 + 1e-6)))
    assert (rounded.changed, rounded.folded) == ((), 0)
    folded = compare_weight_contents(holding(table=TABLE), holding(table=TABLE * np.float32(1.5)))
    assert (folded.changed, folded.folded) == ((), 1)
    joined = compare_weight_contents(holding(a=TABLE, b=TABLE + 1), holding(ab=np.concatenate([TABLE, TABLE + 1], 1)))
    assert (joined.changed, joined.folded) == ((), 0)


def test_integers_words_and_tables() -> None:
    left, right = holding(labels=LABELS), holding(labels=np.where(LABELS == 117, 7, LABELS))
    assert [each.missing for each in compare_weight_contents(left, right).changed] == [1]

    def encoder(*words: str) -> ir.Model:
        x, y = (helper.make_tensor_value_info(n, t, ["n"]) for n, t in (("x", 7), ("y", 8)))
        node = helper.make_node("LabelEncoder", ["x"], ["y"], domain="ai.onnx.ml", name="names",
                                keys_int64s=list(range(len(words))), values_strings=list(words))  # fmt: skip
        return ir.from_proto(helper.make_model(helper.make_graph([node], "g", [x], [y])))

    words = [f"class {i}" for i in range(20)]
    found = compare_weight_contents(encoder(*words), encoder(*words[:-1], "class x"))
    assert [(each.name, each.missing) for each in found.changed] == [("names.values_strings", 1)]


def forest(leaf: float = 0.25) -> ir.Model:
    """Return twelve trees of one test and two leaves; the last leaf of the last tree is `leaf`."""
    trees, rng = 12, np.random.default_rng(1)
    weights = [*rng.standard_normal(2 * trees - 1).tolist(), leaf]
    node = helper.make_node(
        "TreeEnsembleRegressor", ["x"], ["y"], domain="ai.onnx.ml", name="forest", n_targets=1,
        nodes_treeids=np.repeat(np.arange(trees), 3).tolist(), nodes_nodeids=[0, 1, 2] * trees,
        nodes_featureids=[n for tree in range(trees) for n in (tree % 4, 0, 0)],
        nodes_modes=["BRANCH_LEQ", "LEAF", "LEAF"] * trees,
        nodes_values=[n for value in rng.standard_normal(trees).tolist() for n in (value, 0.0, 0.0)],
        nodes_truenodeids=[1, 0, 0] * trees, nodes_falsenodeids=[2, 0, 0] * trees,
        target_treeids=np.repeat(np.arange(trees), 2).tolist(), target_nodeids=[1, 2] * trees,
        target_ids=[0] * 2 * trees, target_weights=weights,
    )  # fmt: skip
    x, y = helper.make_tensor_value_info("x", 1, ["n", 4]), helper.make_tensor_value_info("y", 1, ["n", 1])
    opsets = [helper.make_opsetid("", 20), helper.make_opsetid("ai.onnx.ml", 3)]
    return ir.from_proto(helper.make_model(helper.make_graph([node], "g", [x], [y]), opset_imports=opsets))


@pytest.mark.parametrize(("leaf", "changed"), [(0.25, []), (0.5, ["forest.target_weights"])])
def test_trees_in_another_form_have_other_numbers_of_nodes(leaf: float, changed: list[str]) -> None:
    """Numbers of nodes are links, and thresholds of leaves mean nothing; the weight of a leaf is content."""
    other = forest(leaf)
    write_out(other, lambda node: node.domain != "ai.onnx.ml")
    assert not any(node.op_type.startswith("Tree") for node in other.graph)
    assert [each.name for each in compare_weight_contents(forest(), other).changed] == changed


def dequantized(raw: np.ndarray, scale: np.ndarray, axis: int) -> ir.Model:
    """Return a graph that dequantizes int8 weights."""
    graph = helper.make_graph(
        [helper.make_node("DequantizeLinear", ["raw", "scale"], ["y"], axis=axis)],
        "g",
        [],
        [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, raw.shape)],
        [numpy_helper.from_array(raw, "raw"), numpy_helper.from_array(scale, "scale")],
    )
    return ir.from_proto(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)]))


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("change", ["", "negative"])
@pytest.mark.parametrize("narrow_target", [False, True])
def test_weights_that_are_kept_as_integers_with_scales(axis: int, change: str, narrow_target: bool) -> None:
    """Quantized weights are compared as real numbers, and their scales do not count as weights."""
    raw = RNG.integers(-127, 128, (50, 40)).astype(np.int8)
    scale = RNG.uniform(0.01, 0.1, raw.shape[axis]).astype(np.float32)
    numbers = raw * np.expand_dims(scale, 1 - axis)
    narrow, wide = dequantized(raw, scale, axis), holding(weight=changed(numbers, change) if change else numbers)
    found = compare_weight_contents(wide, narrow) if narrow_target else compare_weight_contents(narrow, wide)
    assert found.tensors == 1
    assert [each.size for each in found.changed] == ([2000] if change else [])


def embedding(path: Path, table: np.ndarray) -> Path:
    graph = helper.make_graph(
        [helper.make_node("Gather", ["table", "ids"], ["y"])],
        "g",
        [helper.make_tensor_value_info("ids", onnx.TensorProto.INT64, ["n", "t"])],
        [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, ["n", "t", table.shape[1]])],
        [numpy_helper.from_array(table, "table")],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9), path)
    return path


@pytest.mark.parametrize(("change", "status"), [("", PASS), ("negative", INCONCLUSIVE)])
def test_what_a_backend_wrote_is_read_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: str, status: str
) -> None:
    """The backend changes row 31,234 of 50,000, which no sampled input reads."""
    table = RNG.standard_normal((50_000, 8)).astype(np.float32)
    backend = plugin.backend_for("onnx")
    write = backend.write

    def write_wrongly(model: ir.Model, path: Path, *rest: Any) -> None:
        write(model, path, *rest)
        written = onnx.load(path)
        rows = numpy_helper.to_array(written.graph.initializer[0]).copy()
        rows[31_234] *= -1 if change else 1
        written.graph.initializer[0].CopyFrom(numpy_helper.from_array(rows, written.graph.initializer[0].name))
        onnx.save(written, path)

    monkeypatch.setattr(backend, "write", write_wrongly)
    report = convert.convert(embedding(tmp_path / "a.onnx", table), "onnx", tmp_path / "b.onnx")
    assert report.verdict is not None
    assert report.verdict.status == status, report.verdict.reason
    assert report.verdict.weights_summary == (
        "weights differ in places: 1 of 1 tensors" if change else "same weights (all 1 compared)"
    )


@pytest.mark.parametrize(("change", "status"), [("", PASS), ("negative", INCONCLUSIVE)])
def test_a_changed_row_of_an_embedding_is_never_a_pass(tmp_path: Path, change: str, status: str) -> None:
    """No sampled input reads row 31,234 of 50,000."""
    table = RNG.standard_normal((50_000, 8)).astype(np.float32)
    other = table.copy()
    if change:
        other[31_234] *= -1

    verdict = convert.verify(embedding(tmp_path / "a.onnx", table), embedding(tmp_path / "b.onnx", other)).verdict
    assert verdict is not None
    assert verdict.status == status, verdict.reason
    assert verdict.weights_summary == (
        "weights differ in places: 1 of 1 tensors" if change else "same weights (all 1 compared)"
    )
