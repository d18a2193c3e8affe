"""Runs rows of ONNX operators, shared by the tests of several backends, as one-node models in onnxruntime."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import helper

from tests.backends.tensorflow.ops.onnx_cases import Const
from tests.support.cases import Case

OPSET = 23
# Kernels sum in different orders.
RTOL, ATOL = 2e-5, 2e-6

STATIC, DYNAMIC, CONSTANT = range(3)
"""Variants of a case: inputs at run time with known dims, with unknown dims, or as initializers."""


def model_of(row: Case, variant: int = STATIC, *, opset: int = OPSET) -> onnx.ModelProto:
    """Return a model of one node."""
    attributes = dict(row.attributes)
    outputs = [f"y{i}" for i in range(attributes.pop("_outputs", 1))]
    names, inputs, initializers = [], [], []
    for i, content in enumerate(row.inputs):
        names.append("" if content is None else f"x{i}")
        if content is None:
            continue
        if isinstance(content, Const) or variant == CONSTANT:
            array = content.array if isinstance(content, Const) else content
            initializers.append(onnx.numpy_helper.from_array(array, names[-1]))
        else:
            shape = [f"d{i}_{axis}" for axis in range(content.ndim)] if variant == DYNAMIC else content.shape
            kind = helper.np_dtype_to_tensor_dtype(content.dtype)
            inputs.append(helper.make_tensor_value_info(names[-1], kind, shape))
    node = helper.make_node(row.operator, names, outputs, name="the_node", **attributes)
    graph = helper.make_graph([node], "case", inputs, [onnx.ValueInfoProto(name=y) for y in outputs], initializers)
    if not onnx.defs.has(row.operator, opset, ""):
        opset = onnx.defs.get_schema(row.operator).since_version
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)
    first = row.inputs[0].array if row.inputs and isinstance(row.inputs[0], Const) else next(iter(row.inputs), None)
    halves = first is not None and first.dtype == np.float16
    return _with_types(model, onnx.TensorProto.FLOAT16 if halves else onnx.TensorProto.FLOAT)


def _with_types(model: onnx.ModelProto, default: int) -> onnx.ModelProto:
    """Return the model with inferred types; inference lacks those of a GroupNormalization, which are those of its
    input.
    """
    inferred = onnx.shape_inference.infer_shapes(model, data_prop=True)
    for value in inferred.graph.output:
        if not value.type.tensor_type.elem_type:
            value.type.tensor_type.elem_type = default
    return inferred


def feeds_of(row: Case) -> dict[str, np.ndarray]:
    """Return the run-time inputs by name."""
    return {f"x{i}": x for i, x in enumerate(row.inputs) if x is not None and not isinstance(x, Const)}


def expected(row: Case) -> list[np.ndarray]:
    """Return onnxruntime's outputs, at an older opset if it lacks a kernel, else the reference evaluator's."""
    import onnxruntime
    from onnx.reference import ReferenceEvaluator

    if row.operator == "Gelu" and row.inputs[0].dtype == np.float64:
        return _gelu(row.inputs[0], row.attributes.get("approximate", "none"))
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.add_session_config_entry("session.x64quantprecision", "1")  # AVX2 alone saturates sums of two products
    for opset in (OPSET, 20):
        model = model_of(row, opset=opset).SerializeToString()
        try:
            return onnxruntime.InferenceSession(model, options, ["CPUExecutionProvider"]).run(None, feeds_of(row))
        except Exception as error:
            refused = error
    try:
        return ReferenceEvaluator(model_of(row)).run(None, feeds_of(row))
    except Exception as error:
        raise AssertionError(f"no oracle runs this: {refused}") from error


def _gelu(x: np.ndarray, approximate: str) -> list[np.ndarray]:
    """Return PyTorch's gelu: onnxruntime has no kernel for float64, and ONNX's evaluator rounds to float32."""
    import torch

    return [torch.nn.functional.gelu(torch.from_numpy(x), approximate=approximate).numpy()]


def assert_same(got: list[np.ndarray], want: list[np.ndarray]) -> None:
    """Assert that dtypes, shapes and integers are equal, and floats up to a few roundings of the largest element."""
    assert len(got) == len(want)
    for a, b in zip(got, want, strict=True):
        a, b = np.asarray(a), np.asarray(b)
        if b.dtype.kind in "OUS":
            assert a.shape == b.shape
            assert [x.decode() if isinstance(x, bytes) else x for x in a.ravel()] == list(b.ravel())
            continue
        assert a.dtype == b.dtype
        assert a.shape == b.shape
        if b.dtype.kind == "f":
            wide = {2: 1e-3, 4: RTOL, 8: 1e-12}[b.dtype.itemsize]
            finite = np.abs(b[np.isfinite(b)])
            atol = (ATOL if b.dtype.itemsize == 4 else wide / 10) * (finite.max() if finite.size else 0)
            np.testing.assert_allclose(a, b, rtol=wide, atol=atol)
        else:
            np.testing.assert_array_equal(a, b)
