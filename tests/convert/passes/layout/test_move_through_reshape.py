"""The pass that joins two transposes around a Reshape: fewer transposes, the same numbers."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import helper
from onnx.reference import ReferenceEvaluator

from convert.graph.shape_inference import infer_facts
from convert.passes.layout.move_through_reshape import dim_groups, join_transposes
from convert.passes.tidy.clean import clean


def chain(shape: list, one: list[int], target: list[int], two: list[int]) -> onnx.ModelProto:
    """Transpose, Reshape, Transpose."""
    nodes = [
        helper.make_node("Transpose", ["x"], ["a"], perm=one),
        helper.make_node("Reshape", ["a", "target"], ["b"]),
        helper.make_node("Transpose", ["b"], ["y"], perm=two),
    ]
    inputs = [helper.make_tensor_value_info("x", 1, shape)]
    outputs = [helper.make_tensor_value_info("y", 1, None)]
    weights = [onnx.numpy_helper.from_array(np.array(target, np.int64), "target")]
    graph = helper.make_graph(nodes, "chain", inputs, outputs, weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)


def joined(proto: onnx.ModelProto) -> onnx.ModelProto:
    model = ir.from_proto(proto)
    infer_facts(model)
    join_transposes(model)
    clean(model)
    return ir.to_proto(model)


def assert_same(proto: onnx.ModelProto, new: onnx.ModelProto, x: np.ndarray) -> None:
    want, got = (ReferenceEvaluator(m).run(None, {"x": x})[0] for m in (proto, new))
    np.testing.assert_array_equal(got, want)


def counts(proto: onnx.ModelProto) -> Counter[str]:
    return Counter(node.op_type for node in proto.graph.node)


@pytest.mark.parametrize(
    ("shape", "one", "target", "two", "left"),
    [
        pytest.param(["n", 4, 5, 12], [0, 3, 1, 2], [-1, 3, 4, 4, 5], [0, 3, 4, 1, 2], 0, id="head of boxes"),
        pytest.param(["n", 4, 5, 12], [0, 3, 1, 2], [-1, 3, 4, 4, 5], [0, 1, 3, 4, 2], 1, id="anchors first"),
        pytest.param(["n", "h", 5, 12], [0, 3, 1, 2], [0, 12, -1], [0, 2, 1], 2, id="rows of unknown number"),
        pytest.param(["n", 4, 5, 12], [0, 3, 1, 2], [0, 12, 20], [0, 2, 1], 0, id="tokens"),
        pytest.param(["n", 3, 4, 6, 6], [0, 2, 1, 3, 4], [0, 12, 6, 6], [0, 2, 3, 1], 1, id="shuffled channels"),
        pytest.param([8, 6, "n"], [2, 0, 1], [-1, 2, 4, 6], [1, 2, 3, 0], 0, id="batch last"),
        pytest.param([8, "n", 6], [1, 0, 2], [-1, 2, 4, 6], [1, 0, 2, 3], 1, id="batch in the middle"),
        pytest.param([2, 6, 6], [0, 2, 1], [2, 4, 9], [0, 2, 1], 2, id="dims that cross"),
        pytest.param([6, 2], [1, 0], [3, 4], [1, 0], 2, id="split and merged"),
    ],
)
def test_transposes_left(shape: list, one: list[int], target: list[int], two: list[int], left: int) -> None:
    proto = chain(shape, one, target, two)
    new = joined(proto)
    assert counts(new)["Transpose"] == left
    assert counts(new)["Reshape"] == 1
    sizes = [{"n": 2, "h": 3}.get(d, d) for d in shape]
    assert_same(proto, new, np.arange(math.prod(sizes), dtype=np.float32).reshape(sizes))


def test_at_random() -> None:
    rng = np.random.default_rng(0)
    fewer = 0
    for _ in range(150):
        parts = [[int(n) for n in rng.integers(1, 4, rng.integers(1, 4))] for _ in range(rng.integers(1, 4))]
        split, merged = [n for part in parts for n in part], [math.prod(part) for part in parts]
        before, after = (merged, split) if rng.random() < 0.5 else (split, merged)
        one, two = rng.permutation(len(before)).tolist(), rng.permutation(len(after)).tolist()
        proto = chain([before[one.index(a)] for a in range(len(one))], one, after, two)
        new = joined(proto)
        fewer += counts(new)["Transpose"] < counts(proto)["Transpose"]
        shape = [before[one.index(a)] for a in range(len(one))]
        assert_same(proto, new, rng.random(shape, np.float32))
    assert fewer > 100


def test_what_others_use_stays() -> None:
    proto = chain(["n", 4, 5, 12], [0, 3, 1, 2], [-1, 3, 4, 4, 5], [0, 3, 4, 1, 2])
    proto.graph.output.append(helper.make_tensor_value_info("a", 1, None))
    assert counts(joined(proto))["Transpose"] == 2


def test_groups() -> None:
    assert dim_groups(("n", 12, 5), ("n", 3, 4, 5)) == [((0,), (0,)), ((1,), (1, 2)), ((2,), (3,))]
    assert dim_groups((2, 6, 6), (2, 4, 9)) == [((0,), (0,)), ((1, 2), (1, 2))]
    assert dim_groups(("n", "h", 5), ("n", None)) is None
    assert dim_groups((4,), (4, 1)) is None
