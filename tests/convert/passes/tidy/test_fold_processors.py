"""Constants are folded to the same bytes on every processor, and to the numbers that onnxruntime computes."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import helper, numpy_helper

from convert.graph import long_double
from convert.graph.shape_inference import infer_facts
from convert.passes.tidy.fold import fold_constants
from tests.support.processors import PROCESSORS

DTYPES = {"float16": 1e-2, "float32": 1e-5, "float64": 1e-6}
"""The dtypes, and how far onnxruntime may be away, relative to the largest number: its Gelu of float64 rounds, too."""


def numbers(*shape: int, low: float = -2.0, high: float = 2.0, step: int = 7919) -> np.ndarray:
    """Return numbers that look random, by operations that are exact to the last bit; numpy's generators use
    logarithms.
    """
    count = int(np.prod(shape))
    return (low + (high - low) * (((i := np.arange(1, count + 1)) * (i + 3) * step % 10007) / 10007)).reshape(shape)


def _functions() -> Iterator[tuple[str, list[np.ndarray], dict[str, Any]]]:
    x, positive, unit = numbers(9, 41), numbers(9, 41, low=0.1, high=9.0), numbers(9, 41, low=-0.99, high=0.99)
    for operator in ("Exp", "Sin", "Cos", "Tan", "Sinh", "Cosh", "Tanh", "Atan", "Asinh", "Erf", "Sigmoid", "Softplus",
                     "Elu", "Selu", "Celu", "Gelu", "Mish", "Softsign", "HardSigmoid", "HardSwish", "LeakyRelu",
                     "Round", "Floor", "Neg", "Abs"):  # fmt: skip
        yield operator, [x], {}
    yield "Gelu", [x], {"approximate": "tanh"}
    for operator in ("Log", "Sqrt", "Reciprocal"):
        yield operator, [positive], {}
    for operator in ("Asin", "Acos", "Atanh"):
        yield operator, [unit], {}
    yield "Acosh", [positive + 1], {}
    yield "Pow", [positive, unit], {}
    for operator in ("Softmax", "LogSoftmax"):
        yield operator, [x], {"axis": 1}
    for operator in ("Add", "Sub", "Mul", "Div"):
        yield operator, [x, positive], {}
    yield "LpNormalization", [x], {"axis": 1, "p": 1}


def _sums() -> Iterator[tuple[str, list[np.ndarray], dict[str, Any]]]:
    x = numbers(3, 8, 5, 7)
    for operator in ("ReduceSum", "ReduceMean", "ReduceL1", "ReduceL2", "ReduceLogSumExp", "ReduceSumSquare",
                     "ReduceProd"):  # fmt: skip
        yield operator, [x, np.array([1, 3])], {}
    yield "ReduceLogSum", [np.abs(x) + 0.1, np.array([2])], {}
    yield "CumSum", [x, np.array(1)], {}
    scale, shift = numbers(8, low=0.5), numbers(8, step=101)
    yield "LayerNormalization", [x, numbers(7), numbers(7, step=31)], {}
    yield "InstanceNormalization", [x, scale, shift], {}
    yield "GroupNormalization", [x, scale, shift], {"num_groups": 2}
    yield "BatchNormalization", [x, scale, shift, shift, scale], {}
    yield "LRN", [x], {"size": 3}
    yield "GlobalAveragePool", [x], {}
    yield "AveragePool", [x], {"kernel_shape": [2, 3]}
    yield "LpPool", [x], {"kernel_shape": [2, 3], "p": 3}
    yield "Resize", [x, np.array([]), np.array([1, 1, 1.6, 2.3], "f4")], {"mode": "linear"}
    yield "Resize", [x, np.array([]), np.array([1, 1, 1.6, 2.3], "f4")], {"mode": "cubic"}


def _products() -> Iterator[tuple[str, list[np.ndarray], dict[str, Any]]]:
    a, b = numbers(48, 61), numbers(61, 33, step=313)
    yield "MatMul", [a, b], {}
    yield "MatMul", [a.reshape(3, 16, 61), b], {}
    yield "MatMul", [numbers(61), b], {}
    yield "Gemm", [a, b, numbers(33)], {"alpha": 0.3, "beta": 0.7}
    yield "Gemm", [a.T, b.T], {"transA": 1, "transB": 1}
    yield "Einsum", [a, b], {"equation": "ij,jk->ki"}
    yield "Einsum", [numbers(5, 8), numbers(8, 20), numbers(20, 33)], {"equation": "hi,ij,jk->hk"}
    picture, kernel = numbers(2, 6, 9, 11), numbers(8, 3, 3, 3, step=17)
    yield "Conv", [picture, kernel, numbers(8)], {"group": 2, "pads": [1, 1, 1, 1]}
    yield "Conv", [picture, numbers(6, 1, 3, 3)], {"group": 6}
    yield "ConvTranspose", [picture, numbers(6, 4, 3, 3)], {"strides": [2, 2]}
    steps = numbers(5, 2, 7)
    for operator, gates in (("RNN", 1), ("GRU", 3), ("LSTM", 4)):
        yield operator, [steps, numbers(1, gates * 6, 7), numbers(1, gates * 6, 6, step=29)], {"hidden_size": 6}
    yield "Det", [numbers(4, 5, 5)], {}


ROWS = [*_functions(), *_sums(), *_products()]


def row_name(row: tuple[str, list[np.ndarray], dict[str, Any]]) -> str:
    operator, inputs, attributes = row
    return f"{operator} {[x.shape for x in inputs]} {attributes}"


def model_of(row: tuple[str, Sequence[np.ndarray], dict[str, Any]], dtype: str) -> onnx.ModelProto:
    """Return a model whose only node has constant inputs, with an Identity after its output, because outputs stay
    nodes.
    """
    operator, inputs, attributes = row
    names = [f"x{i}" if x.size else "" for i, x in enumerate(inputs)]
    arrays = {n: x if x.dtype != np.float64 else x.astype(dtype) for n, x in zip(names, inputs, strict=True) if n}
    made = helper.make_node(operator, names, ["h"], **attributes)
    graph = helper.make_graph(
        [made, helper.make_node("Identity", ["h"], ["y"])], "g", [],
        [helper.make_tensor_value_info("y", helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), None)],
        [numpy_helper.from_array(np.ascontiguousarray(x), n) for n, x in arrays.items()],
    )  # fmt: skip
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)], ir_version=10)


def folded(row: tuple[str, Sequence[np.ndarray], dict[str, Any]], dtype: str) -> np.ndarray | None:
    """Return the folded value of a row, or None if the node stays."""
    model = ir.serde.deserialize_model(model_of(row, dtype))
    infer_facts(model)
    fold_constants(model)
    nodes = list(model.graph)
    value = nodes[-1].inputs[0] if len(nodes) == 1 else None
    return None if value is None or value.const_value is None else value.const_value.numpy()


def digests() -> dict[str, str]:
    """Return the hash of the folded bytes of each row in each dtype."""
    found = {}
    for row in ROWS:
        for dtype in DTYPES:
            array = folded(row, dtype)
            data = b"" if array is None else str(array.dtype).encode() + np.ascontiguousarray(array).tobytes()
            found[f"{row_name(row)} {dtype}"] = hashlib.sha256(data).hexdigest() if data else ""
    return found


@pytest.fixture(scope="module")
def on_processors() -> dict[str, dict[str, str]]:
    code = f"import json; from {__name__} import digests; print(json.dumps(digests()))"
    found = {}
    for name, variables in PROCESSORS.items():
        done = subprocess.run(
            [sys.executable, "-c", code], env={**os.environ, **variables}, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr[-2000:]
        found[name] = json.loads(done.stdout.splitlines()[-1])
    return found


@pytest.mark.not_core
@pytest.mark.parametrize("name", [n for n in PROCESSORS if n != "this one"])
def test_the_same_bytes(on_processors: dict[str, dict[str, str]], name: str) -> None:
    here, there = on_processors["this one"], on_processors[name]
    assert [row for row in here if not here[row]] == []
    assert [row for row in here if here[row] != there[row]] == []


@pytest.mark.parametrize("row", ROWS, ids=row_name)
def test_what_onnxruntime_computes(row: tuple[str, list[np.ndarray], dict[str, Any]]) -> None:
    import onnxruntime
    from onnxruntime.capi.onnxruntime_pybind11_state import InvalidGraph, NotImplemented, RuntimeException

    for dtype, tolerance in DTYPES.items():
        found = folded(row, dtype)
        assert found is not None
        try:
            (wanted,) = onnxruntime.InferenceSession(model_of(row, dtype).SerializeToString()).run(None, {})
        except (NotImplemented, InvalidGraph, RuntimeException):  # it supports fewer dtypes for many operators
            if dtype == "float32":
                raise
            continue
        assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape)
        close = tolerance * max(1.0, float(np.abs(wanted.astype(np.float64)).max()))
        np.testing.assert_allclose(found.astype(np.float64), wanted.astype(np.float64), rtol=0, atol=close)


# -- long double itself -----------------------------------------------------------------------------------------------


def test_erf_of_long_double() -> None:
    from math import erf

    x = np.concatenate([np.linspace(-8, 8, 2001), [0.0, -0.0, np.inf, -np.inf, 1e-300, 6.99, 7.01]])
    np.testing.assert_allclose(long_double.erf(x).astype(np.float64), [erf(v) for v in x], rtol=1e-15)
    assert np.isnan(long_double.erf(np.nan))
    assert np.signbit(long_double.erf(-0.0))


@pytest.mark.parametrize("shape", [(0, 0), (1, 1), (3, 3), (2, 6, 6), (2, 0, 4, 4)])
def test_determinants(shape: tuple[int, ...]) -> None:
    a = numbers(*shape) if 0 not in shape else np.zeros(shape)
    np.testing.assert_allclose(long_double.determinant(a).astype(np.float64), np.linalg.det(a), rtol=1e-9, atol=1e-12)


def test_determinants_of_singular_matrices_and_of_exchanged_rows() -> None:
    assert long_double.determinant(np.zeros((3, 3))) == 0
    assert long_double.determinant(np.ones((3, 3))) == 0
    assert long_double.determinant(np.eye(4)[[1, 0, 3, 2]]) == 1
    assert long_double.determinant(np.eye(3)[[1, 0, 2]]) == -1
    assert np.isnan(long_double.determinant(np.full((2, 2), np.nan)))
