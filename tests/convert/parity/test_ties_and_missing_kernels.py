"""Differences that do not make a target FAIL: ties between selected scores, and kernels that a runtime lacks."""

from __future__ import annotations

from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import TensorProto, helper

import convert
from convert import plugin
from convert.errors import ConvertError, ResourceLimit, Unsupported
from convert.graph import Graph
from convert.outcome.report import Report
from convert.outcome.verdict import FAIL, INCONCLUSIVE, PASS
from convert.parity.compare.outputs import argmax_agreement, compare
from convert.parity.evidence import RunOutputs
from convert.parity.explain.picks import count_flips, worst_elements
from convert.parity.inputs.feeds import Feed
from convert.parity.method import VerifyMethod
from convert.parity.verify import failed_run_verdict
from convert.request.options import Options
from convert.request.source import Source
from tests.support.verdict_on import verdict_on


def picking(operator: str, places: int = 5) -> ir.Model:
    """Return scores 3·x, and the indices that ArgMax or TopK picks among them."""
    nodes = [helper.make_node("Mul", ["x", "three"], ["scores"])]
    weights = [helper.make_tensor("three", TensorProto.FLOAT, [], [3.0])]
    if operator == "TopK":
        nodes.append(helper.make_node("TopK", ["scores", "k"], ["top", "places"], axis=-1))
        weights.append(helper.make_tensor("k", TensorProto.INT64, [1], [2]))
        shape: list[str | int] = ["batch", 2]
    else:
        nodes += [
            helper.make_node("ArgMax", ["scores"], ["best"], axis=-1, keepdims=0),
            helper.make_node("Cast", ["best"], ["places"], to=TensorProto.INT64),
        ]
        shape = ["batch"]
    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", places])],
        [helper.make_tensor_value_info("places", TensorProto.INT64, shape)],
        weights,
    )
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)], ir_version=10)
    return plugin.frontends()["onnx"].read(Source("onnx-object", model=proto), Options(), Report("read"))


def judged(model: ir.Model, x: np.ndarray, right: np.ndarray, picked: np.ndarray) -> str:
    feeds = [Feed("one", {"x": x})]
    source = [{"places": right}]
    runs = RunOutputs({"float32": source, "float64": source}, [{"places": picked}], source)
    return verdict_on(model, feeds, runs, VerifyMethod()).status


def test_a_source_without_float64_that_is_far_from_the_graph_proves_nothing() -> None:
    """The graph is then its own reference, and a source that was read wrong would only raise the noise floor."""
    g = Graph()
    g.output(g.Identity(g.input("x", ir.DataType.FLOAT, [10])), "places")
    model = g.model()
    exact = np.linspace(-1, 1, 10)
    near, wrong = exact.astype(np.float32) * (1 + np.float32(2e-7)), exact.astype(np.float32) * np.float32(1.1)
    for source, status in ((near, PASS), (wrong, FAIL)):
        outputs = {"float32": [{"places": source}], "float64": Unsupported("no double")}
        runs = RunOutputs(outputs, [{"places": near}], [{"places": exact}])
        found = verdict_on(model, [Feed("one", {"x": exact})], runs, VerifyMethod())
        assert found.status == status, found


# Two scores that are a rounding apart, and two that are clearly apart, next to others.
TIED = np.array([[0.1, 0.7, np.nextafter(np.float32(0.7), np.float32(0)), 0.2, 0.3]] * 2, np.float32)
APART = np.array([[0.1, 0.7, 0.6999, 0.2, 0.3]] * 2, np.float32)


@pytest.mark.parametrize(("x", "status"), [(TIED, PASS), (APART, FAIL)])
def test_the_largest_may_be_another_one_only_within_the_noise(x: np.ndarray, status: str) -> None:
    assert judged(picking("ArgMax"), np.vstack([x, x[:1, ::-1]]), np.array([1, 1, 3]), np.array([1, 2, 3])) == status


@pytest.mark.parametrize(("x", "status"), [(TIED, PASS), (APART, FAIL)])
def test_the_order_of_the_top_may_change_only_within_the_noise(x: np.ndarray, status: str) -> None:
    assert judged(picking("TopK"), x, np.array([[1, 2], [1, 2]]), np.array([[2, 1], [1, 2]])) == status


def deciding(*operators: str) -> ir.Model:
    """3·x, compared with 1 or rounded."""
    kinds = {"Greater": ["scores", "one"], "Cast": ["made" if len(operators) > 1 else "scores"]}
    nodes = [helper.make_node("Mul", ["x", "three"], ["scores"])]
    for operator in operators:
        last = operator == operators[-1]
        attributes = {"to": TensorProto.INT64} if operator == "Cast" else {}
        inputs, out = kinds.get(operator, ["scores"]), "places" if last else "made"
        nodes.append(helper.make_node(operator, inputs, [out], **attributes))
    weights = [helper.make_tensor(n, TensorProto.FLOAT, [], [v]) for n, v in (("three", 3.0), ("one", 1.0))]
    kind = TensorProto.BOOL if operators[-1] == "Greater" else TensorProto.INT64
    ends = [[helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n"])],
            [helper.make_tensor_value_info("places", kind, ["n"])]]  # fmt: skip
    graph = helper.make_graph(nodes, "net", *ends, weights)
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)], ir_version=10)
    return plugin.frontends()["onnx"].read(Source("onnx-object", model=proto), Options(), Report("read"))


@pytest.mark.parametrize(
    ("operators", "near", "far"),
    [
        (("Greater",), 1 / 3, 0.34),
        (("Cast",), 2 / 3, 0.7),
        (("Floor", "Cast"), 2 / 3, 0.7),
        (("Round", "Cast"), 0.50000006, 0.5),
    ],
)
def test_what_is_decided_by_less_than_the_noise_may_be_either(
    operators: tuple[str, ...], near: float, far: float
) -> None:
    """Three times the number lies at the threshold, or next to it: another decision of the target is noise, or a
    defect.
    """
    for number, status in ((near, PASS), (far, FAIL)):
        x = np.array([0.1, number, 0.9], np.float32)
        exact = 3 * x.astype(np.float64)
        made = {"Greater": exact > 1, "Round": np.rint(exact)}.get(operators[0], np.floor(exact))
        right = made if operators[0] == "Greater" else made.astype(np.int64)
        other = right.copy()
        other[1] = not right[1] if operators[0] == "Greater" else right[1] - 1
        assert judged(deciding(*operators), x, right, other) == status


@pytest.mark.parametrize("picked", [[[1, 1], [1, 2]], [[2, 7], [1, 2]], [[-1, 2], [1, 2]], [[1, 3], [1, 2]]])
def test_places_twice_outside_or_wrong_are_no_ties(picked: list[list[int]]) -> None:
    assert judged(picking("TopK"), TIED, np.array([[1, 2], [1, 2]]), np.array(picked)) == FAIL


def test_flips_count_only_beyond_the_noise() -> None:
    reference = np.array([[1.0, 0.999999, 0.0], [1.0, 0.5, 0.0]])
    target = np.array([[0.9, 1.0, 0.0], [0.4, 0.5, 0.0]])
    assert count_flips(reference, target, 1e-5) == (1, 2)
    assert count_flips(reference, target, 1e-7) == (2, 2)
    assert argmax_agreement([reference], [target], 1e-5) == 0.5
    assert argmax_agreement([reference], [target]) == 0.0


def test_worst_elements_put_a_nan_first() -> None:
    reference = np.array([[1.0, -2.0], [3.0, np.nan]])
    target = np.array([[1.0, -2.5], [np.nan, np.nan]])
    found = worst_elements([reference], [target], ["inputs"])
    assert [e.index for e in found] == [(1, 0), (0, 1)]
    assert found[1].error == pytest.approx(0.5 / np.sqrt(2.5))
    assert worst_elements([reference], [reference], ["inputs"]) == []


@pytest.mark.not_core
def test_a_runtime_without_kernels_for_bfloat16_is_inconclusive(tmp_path: Path) -> None:
    """onnxruntime's CPU provider has no Softplus in bfloat16; the file is right nevertheless."""
    graph = helper.make_graph(
        [helper.make_node("Softplus", ["x"], ["y"])],
        "net",
        [helper.make_tensor_value_info("x", TensorProto.BFLOAT16, [2, 3])],
        [helper.make_tensor_value_info("y", TensorProto.BFLOAT16, [2, 3])],
    )
    path = tmp_path / "half.onnx"
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)], ir_version=10)
    onnx.save(proto, path)
    verdict = convert.verify(path, path, inputs={"x": np.ones((2, 3), ml_dtypes.bfloat16)}).verdict
    assert verdict is not None
    assert (verdict.status, verdict.at_fault) == (INCONCLUSIVE, "")
    assert "bfloat16" in verdict.reason


@pytest.mark.parametrize(
    ("error", "dtype", "status"),
    [
        (Unsupported("no kernel"), TensorProto.FLOAT, FAIL),
        (ConvertError("the process died"), TensorProto.BFLOAT16, FAIL),
        (ResourceLimit("out of memory"), TensorProto.BFLOAT16, FAIL),
        (Unsupported("no kernel"), TensorProto.BFLOAT16, INCONCLUSIVE),
    ],
)
def test_only_a_lack_of_kernels_for_its_dtypes_excuses_a_target(error: ConvertError, dtype: int, status: str) -> None:
    graph = helper.make_graph(
        [helper.make_node("Neg", ["x"], ["y"])],
        "net",
        [helper.make_tensor_value_info("x", dtype, [2])],
        [helper.make_tensor_value_info("y", dtype, [2])],
    )
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)], ir_version=10)
    model = plugin.frontends()["onnx"].read(Source("onnx-object", model=proto), Options(), Report("read"))
    assert failed_run_verdict(error, model, []).status == status


def test_numbers_that_stand_beside_each_other_are_of_one_set_of_inputs() -> None:
    """A set with much noise must not lend its floor to the error of another: 27 times is not 0.99 times."""
    exact = np.linspace(-1, 1, 4096)
    quiet = (exact * (1 + 1e-7)).astype(np.float32)
    loud = (exact * (1 + 1e-3)).astype(np.float32)
    off = (exact * (1 + 3e-5)).astype(np.float32)
    for order in ([0, 1], [1, 0]):
        sources, targets = [[loud, quiet][i] for i in order], [[loud, off][i] for i in order]
        row = compare("y", [exact, exact], sources, targets)
        assert row.status == FAIL
        assert f"{row.error / row.floor:.1f} times" in row.reason
        assert row.error / row.floor > 20
    half = 0.5 * exact
    passed = compare(
        "y", [exact, half], [loud, half.astype(np.float32)], [loud, (half * (1 + 2e-7)).astype(np.float32)]
    )
    assert passed.status == PASS
    assert passed.error / passed.floor == max(s.ratio for s in passed.sets) < 4
    assert passed.noise == pytest.approx(1e-3, rel=1e-3)
