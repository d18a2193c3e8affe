"""Folded constants are the numbers that the runtime would compute."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest
import torch

from convert.graph import Graph
from convert.passes.tidy.fold import fold_constants
from tests.support.onnx_support import assert_same, data_of, info, model, node_tests

FRACTIONS = {f"test_resize_downsample_scales_{mode}_align_corners" for mode in ("linear", "cubic")}
"""The expected numbers are of ONNX's own implementation; onnxruntime counts whole outputs, as the kernel does."""

RNG = np.random.default_rng(3)


def constants_of(case: Any) -> tuple[ir.Model, list[Any]]:
    """Return an official case with its inputs as initializers, and its expected output."""
    inputs, outputs = data_of(case)
    proto = onnx.ModelProto()
    proto.CopyFrom(case.model)
    names = [v.name for v in proto.graph.input]
    del proto.graph.input[:]
    proto.graph.initializer.extend(onnx.numpy_helper.from_array(a, n) for n, a in zip(names, inputs, strict=True))
    # The producer of an output is not folded.
    for value in proto.graph.output:
        proto.graph.node.add(op_type="Identity", input=[value.name], output=[f"{value.name}.out"])
        value.name += ".out"
    return ir.serde.deserialize_model(onnx.shape_inference.infer_shapes(proto)), outputs


def folded_number(g: Graph, y: ir.Value) -> np.ndarray:
    """Return the folded value of y; an input is added to y so that one node remains."""
    g.output(g.Add(y, g.input("z", ir.DataType.FLOAT, [1])), "y")
    model = g.model()
    fold_constants(model)
    (add,) = model.graph
    assert add.inputs[0] is not None
    assert add.inputs[0].const_value is not None
    return add.inputs[0].const_value.numpy()


@pytest.mark.slow
def test_official_cases() -> None:
    folded = 0
    for name, case in node_tests().items():
        inputs, outputs = data_of(case)
        if (
            name in FRACTIONS
            or not all(isinstance(a, np.ndarray) for a in (*inputs, *outputs))
            or not case.model.graph.input
        ):
            continue
        if (
            all(i.domain for i in case.model.opset_import)
            or any(a.dtype.kind in "OSU" for a in inputs)
            or "training_dropout" in name
        ):
            continue
        constant, wanted = constants_of(case)
        fold_constants(constant)
        for value, want in zip(constant.graph.outputs, wanted, strict=True):
            identity = value.producer()
            tensor = identity.inputs[0].const_value if identity is not None and identity.inputs[0] is not None else None
            if tensor is not None:
                assert_same(tensor.numpy(), want, case.rtol)
                folded += 1
    assert folded > 800


@pytest.mark.parametrize("outputs", [1, 2])
@pytest.mark.parametrize(("axis", "shape"), [(None, [6]), (None, [2, 3]), (0, [6, 1]), (1, [1, 6])])
def test_unique_elements_in_their_own_order(axis: int | None, shape: list[int], outputs: int) -> None:
    """ONNX's own implementation sorts them, or returns other elements."""
    x = np.array([3, 1, 3, 2, 0, 1], np.float32).reshape(shape)
    g = Graph()
    found = g.Unique(x, sorted=0, axis=axis, outputs=outputs)
    y = found[0] if outputs > 1 else found
    folded = folded_number(g, y)
    assert folded.ravel().tolist() == [3, 1, 2, 0]


@pytest.mark.parametrize("groups", [1, 2, 3])
@pytest.mark.parametrize("bias", [False, True])
def test_transposed_convolutions(groups: int, bias: bool) -> None:
    """ONNX's own implementation adds the bias wrongly if there are groups."""
    x, w, b = (RNG.standard_normal(s).astype(np.float32) for s in ((1, 6, 4, 3), (6, 2, 2, 3), (2 * groups,)))
    g = Graph()
    y = g.ConvTranspose(x, w, *([b] if bias else []), strides=[2, 1], group=groups)
    folded = folded_number(g, y)
    want = torch.conv_transpose2d(
        torch.tensor(x), torch.tensor(w), torch.tensor(b) if bias else None, (2, 1), groups=groups
    )
    np.testing.assert_allclose(folded, want.numpy(), rtol=1e-5, atol=1e-5)


ONE = np.ones(1000, np.float32)
PICTURE = np.ones((1, 1, 4, 4), np.float32)
ENDLESS: dict[str, tuple[str, list[Any], dict[str, Any]]] = {
    "a sum over five labels": ("Einsum", [ONE] * 5, {"equation": "a,b,c,d,e->"}),
    "samples": (
        "RoiAlign",
        [PICTURE, np.array([[0, 0, 3, 3]], np.float32), np.zeros(1, np.int64)],
        {"sampling_ratio": 1 << 20},
    ),
    "a window": ("AveragePool", [PICTURE], {"kernel_shape": [4, 4], "pads": [1 << 29] * 4, "strides": [1 << 30] * 2}),
    "steps": ("ConvTranspose", [PICTURE, PICTURE], {"strides": [1 << 28, 1], "pads": [3 << 27, 0, 3 << 27, 0]}),
    "channels": ("LRN", [PICTURE], {"size": 1 << 40}),
    "a pattern": ("RegexFullMatch", [np.array(["a" * 60], object)], {"pattern": "(a+)+b"}),
    "a picture": ("ImageDecoder", [np.frombuffer(b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 8 8\n", np.uint8)], {}),
}


@pytest.mark.parametrize("name", ENDLESS)
def test_what_lasts_for_ever_is_left_to_a_runtime(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """This holds although all inputs and outputs are small, because a file is read without a time limit in Python."""
    operator, inputs, attributes = ENDLESS[name]
    monkeypatch.setattr("convert.reference.executor.evaluate_node", lambda *given: pytest.fail("it was begun"))
    names = [f"x{i}" for i in range(len(inputs))]
    node = onnx.helper.make_node(operator, names, ["y"], **attributes)
    held = [onnx.numpy_helper.from_array(array, n) for array, n in zip(inputs, names, strict=True)]
    nodes = [node, onnx.helper.make_node("Identity", ["y"], ["z"])]
    proto = model(nodes, [], [info("z", None, 1)], held, opset=20)
    folded = ir.serde.deserialize_model(proto)
    assert not fold_constants(folded)
    assert [n.op_type for n in folded.graph] == [operator, "Identity"]


def test_a_weight_that_is_computed_keeps_its_digits_behind_a_view() -> None:
    """If floats are left to the runtime, a view of them is no reason to round them."""
    g = Graph()
    x = g.input("x", ir.DataType.FLOAT, (3, 4))
    computed = g.Exp(g.const(np.arange(3, dtype=np.float32)))
    g.output(g.Mul(x, g.Unsqueeze(computed, [1])), "y")
    graph = g.model()
    fold_constants(graph, sizes_only=True)
    assert [node.op_type for node in graph.graph] == ["Exp", "Unsqueeze", "Mul"]


def test_a_float_that_a_condition_depends_on_stays_computed_for_others() -> None:
    """The rounded float decides the condition. A run in float64 computes the missing digits for other nodes."""
    g = Graph()
    x = g.input("x", ir.DataType.FLOAT, ["n"])
    weight = g.initializer("w", ir.Tensor(np.array([48.0], np.float32)))
    root = g.Sqrt(weight)
    flat = g.Unsqueeze(root, [0])
    large = g.Greater(root, g.const(np.array([2.0], np.float32)))
    g.output(g.Where(large, g.Mul(x, g.Squeeze(flat, [0])), x), "y")
    graph = g.model()
    assert fold_constants(graph, sizes_only=True)
    operators = [node.op_type for node in graph.graph]
    assert "Greater" not in operators
    assert operators == ["Sqrt", "Unsqueeze", "Squeeze", "Mul", "Where"]
    assert all(node.outputs[0].const_value is None for node in graph.graph)
