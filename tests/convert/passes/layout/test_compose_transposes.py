"""The pass that makes one Transpose of several with Reshapes between them: the same elements, for all shapes."""

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
from convert.passes.layout.compose_transposes import compose_transposes
from convert.passes.tidy.clean import clean

Step = list[int]
"""A permutation (of 0, 1 …), or the shape of a Reshape, with −1 for the rest."""


def chain(shape: list, steps: list[Step]) -> onnx.ModelProto:
    nodes, weights, value = [], [], "x"
    for i, step in enumerate(steps):
        made = "y" if i == len(steps) - 1 else f"v{i}"
        if sorted(step) == list(range(len(step))):
            nodes.append(helper.make_node("Transpose", [value], [made], perm=step))
        else:
            weights.append(onnx.numpy_helper.from_array(np.array(step, np.int64), f"shape{i}"))
            nodes.append(helper.make_node("Reshape", [value, f"shape{i}"], [made]))
        value = made
    ends = [helper.make_tensor_value_info("x", 1, shape), helper.make_tensor_value_info("y", 1, None)]
    graph = helper.make_graph(nodes, "chain", ends[:1], ends[1:], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)


def composed(proto: onnx.ModelProto) -> onnx.ModelProto:
    model = ir.from_proto(proto)
    infer_facts(model)
    compose_transposes(model)
    clean(model)
    return ir.to_proto(model)


def transposes(proto: onnx.ModelProto) -> int:
    return Counter(node.op_type for node in proto.graph.node)["Transpose"]


def assert_same(proto: onnx.ModelProto, new: onnx.ModelProto, shape: list[int]) -> None:
    x = np.arange(math.prod(shape), dtype=np.float32).reshape(shape)
    want, got = (ReferenceEvaluator(m).run(None, {"x": x})[0] for m in (proto, new))
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize(
    ("shape", "steps", "left"),
    [
        pytest.param(
            ["n", 8, 8, 6], [[0, 3, 1, 2], [-1, 2, 4, 2], [0, 2, 1, 3], [-1, 6, 16, 4], [0, 3, 2, 1], [-1, 16, 6]], 1,
            id="patches of MobileViT",
        ),
        pytest.param(
            [None, 6],
            [[-1, 16, 6], [-1, 4, 16, 6], [0, 3, 2, 1], [-1, 4, 2, 2], [0, 2, 1, 3], [-1, 6, 8, 8], [0, 2, 3, 1]], 1,
            id="and back, out of a product with the batch",
        ),
        pytest.param(
            [None, 6], [[-1, 4, 16, 6], [0, 3, 2, 1], [-1, 4, 2, 2], [0, 2, 1, 3], [-1, 6, 8, 8], [0, 2, 3, 1]], 1,
            id="and back by one Reshape",
        ),
        pytest.param(["n", 4, 6], [[0, 2, 1], [0, 6, 2, 2], [0, 2, 3, 1], [-1, 24]], 0, id="there and back"),
        pytest.param(["n", "m", 4], [[0, 2, 1], [1, 0, 2]], 1, id="two names"),
        pytest.param([2, 6, 6], [[0, 2, 1], [2, 4, 9], [0, 2, 1]], 2, id="dims that cross"),
    ],
)  # fmt: skip
def test_transposes_left(shape: list, steps: list[Step], left: int) -> None:
    proto = chain(shape, steps)
    new = composed(proto)
    assert transposes(new) == left
    for batch in (3, 1):
        assert_same(proto, new, [{"n": batch, "m": 5, None: 64 * batch}.get(d, d) for d in shape])


def test_what_others_read_stays() -> None:
    proto = chain(["n", 8, 6], [[0, 2, 1], [-1, 3, 2, 8], [0, 3, 1, 2]])
    proto.graph.output.append(helper.make_tensor_value_info("v1", 1, None))
    assert transposes(composed(proto)) == 2


def test_a_row_is_replaced_as_a_whole() -> None:
    """Nothing is left for the clean-up, and intermediate values have the shapes that they declare."""
    model = ir.from_proto(chain(["n", 8, 6], [[0, 2, 1], [-1, 3, 2, 8], [0, 3, 1, 2], [0, 2, 3, 1]]))
    infer_facts(model)
    assert compose_transposes(model) is True
    assert all(v.uses() or v.is_graph_output() for n in model.graph for v in n.outputs)
    assert compose_transposes(model) is False
    assert model.graph.outputs[0].name == "y"


def regrouped(shape: tuple[int, ...], draw: np.random.Generator) -> list[int]:
    """Return another shape with the same number of elements."""
    factors = []
    for d in shape:
        while d > 1 and draw.random() < 0.6:
            prime = next(p for p in (2, 3, 5, d) if d % p == 0)
            factors.append(prime)
            d //= prime
        factors.append(d)
    found = [factors.pop(0)]
    for factor in factors:
        if draw.random() < 0.5:
            found.append(factor)
        else:
            found[-1] *= factor
    return found


@pytest.mark.parametrize("batch", [False, True])
def test_at_random(batch: bool) -> None:
    draw, fewer = np.random.default_rng(int(batch)), 0
    for _ in range(120):
        shape = [int(n) for n in draw.choice([1, 2, 3, 4, 6], draw.integers(2, 5))]
        real = ([5] if batch else []) + shape
        now, steps = real, []
        for _ in range(draw.integers(2, 6)):
            if draw.random() < 0.5:
                steps.append([int(i) for i in draw.permutation(len(now))])
                now = [now[i] for i in steps[-1]]
            else:
                now = regrouped(tuple(now), draw)
                if sorted(now) == list(range(len(now))):  # this would be read as a permutation
                    now = [1, *now]
                unknown = next((i for i, n in enumerate(now) if batch and n % 5 == 0), None)
                steps.append([-1 if i == unknown else n for i, n in enumerate(now)])
        proto = chain((["n"] if batch else []) + shape, steps)
        new = composed(proto)
        assert transposes(new) <= transposes(proto)
        fewer += transposes(new) < transposes(proto)
        assert_same(proto, new, real)
    assert fewer > 25


def test_a_reshape_at_the_end_stays_what_it_is() -> None:
    model = ir.from_proto(chain([2, 3, 4], [[1, 0, 2], [3, 8], [1, 0], [4, 2, 3]]))
    infer_facts(model)
    last = model.graph[-1]
    model.graph[0].metadata_props["from"] = "the first"
    assert compose_transposes(model)
    assert model.graph[-1] is last
    assert {node.metadata_props.get("from") for node in list(model.graph)[:-1]} == {"the first"}
    assert [node.op_type for node in model.graph].count("Transpose") == 1
