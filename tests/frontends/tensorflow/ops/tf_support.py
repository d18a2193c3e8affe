"""Runs one case of the TensorFlow frontend: the operator in a function, read, run by onnxruntime, and by TensorFlow."""

from __future__ import annotations

import inspect
import os
from collections.abc import Iterable
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime
import pytest
from convert.frontends import tensorflow as frontend
from convert.frontends.tensorflow.graph import opdefs

from convert.outcome.report import Report
from convert.request.options import Options
from convert.request.source import Source
from tests.support import eigen_kernels
from tests.support.cases import Case

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
tf = pytest.importorskip("tensorflow", reason="TensorFlow is the oracle")

# `tf.raw_ops` has other names for some arguments than the operator's schema.
OF_COMPLEX = {"Real", "Imag", "Angle", "ComplexAbs", "Conj", "ConjugateTranspose", "FFT", "IFFT", "FFT2D", "IFFT2D",
              "FFT3D", "IFFT3D", "IRFFT", "IRFFT2D", "IRFFT3D"}  # fmt: skip
DTYPES = {"dtype", "DstT", "out_type", "output_type", "Tout", "out_idx", "Targmax", "output_idx_type", "Tsplits", "T",
          "type"}  # fmt: skip
OF_STORED = {"Dequantize", "QuantizeDownAndShrinkRange", "Requantize", "RequantizationRange"} | {
    "Quantized" + name
    for name in "Add AvgPool BiasAdd Concat Conv2D MatMul MaxPool Mul Relu Relu6 Reshape".split()  # noqa: SIM905
}
STORES = {"input", "filter", "bias", "a", "b", "x", "y", "tensor", "values", "features"}
STORED = {"int8": "qint8", "uint8": "quint8", "int16": "qint16", "uint16": "quint16", "int32": "qint32"}
RENAMED = {"reduction_indices": "axis", "dim": "axis", "split_dim": "axis", "squeeze_dims": "axis", "t": "x", "e": "y",
           "input": "condition"}  # fmt: skip


RANK_UNKNOWN = {("Squeeze", ""), ("Reshape", "dynamic"), ("BroadcastArgs", ""), ("SparseReshape", ""),
                ("MatrixSetDiagV2", ""), ("MatrixSetDiagV3", ""), ("TensorStridedSliceUpdate", ""),
                ("TensorStridedSliceUpdate", "row"), ("StridedSlice", "every 2"),
                ("StridedSlice", "every -3"), ("SpaceToBatchND", "blocks by data"),
                ("BatchToSpaceND", "blocks by data"),
                ("MatrixSetDiagV3", "by data, LEFT_LEFT"), ("MatrixSetDiagV3", "by data, LEFT_RIGHT"),
                ("MatrixSetDiagV3", "by data, RIGHT_LEFT"),
                ("MatrixSetDiagV3", "by data, RIGHT_RIGHT")}  # fmt: skip
"""Rows (operator, label) that have no form with an open batch.

The rank that Squeeze without dims gives, and what takes a shape of unknown length, nobody knows beforehand. TensorFlow
itself refuses MatrixSetDiag with several diagonals and an open batch; a part is written to by places in a static shape.
"""


def with_batch(rows: Iterable[Case]) -> list[Case]:
    """Return the rows that are also read with a dynamic batch."""
    return [row for row in rows if also_with_batch(row)]


def also_with_batch(row: Case) -> bool:
    """Return whether a row is no gap, has a batch, and keeps a known rank; such rows are slow tests with static
    sizes.
    """
    return not row.reason and any(map(has_array, row.inputs)) and (row.operator, row.label) not in RANK_UNKNOWN


def check(row: Case, *, dynamic: bool) -> None:
    """Assert that the read graph gives TensorFlow's results; `dynamic` makes the first dim of every input dynamic."""
    concrete, arrays = concrete_of(row, dynamic=dynamic)
    if row.operator in eigen_kernels.DEPARTING:
        expected = eigen_kernels.computed(concrete, list(arrays.values()))
    else:
        expected = {name: value.numpy() for name, value in concrete(*map(tf.constant, arrays.values())).items()}
    model = frontend.read(Source("tf-function-object", model=concrete), Options(), Report("convert"))
    got = run(model, arrays)
    assert list(got) == list(expected)
    for value, (name, result) in zip(model.graph.outputs, got.items(), strict=True):
        same(result, expected[name])
        agrees(value, result)


def concrete_of(row: Case, *, dynamic: bool, number: Any = np.float32) -> tuple[Any, dict[str, Any]]:
    """Return the operator in a function, and its inputs by name; floating constants have the dtype `number`."""
    names = [a.name for a in opdefs.find(row.operator).inputs]  # type: ignore[union-attr]
    arrays = {f"x{i}": a for i, a in enumerate(_flat(row.inputs)) if isinstance(a, (np.ndarray, np.generic))}
    fixed = [id(a) for n, a in zip(names, row.inputs, strict=True) if n in ("filter", "weights") or not dynamic]
    specs = [tf.TensorSpec(_dims(a, id(a) not in fixed), _dtype(a), name=n) for n, a in arrays.items()]

    @tf.function(input_signature=specs, autograph=False)
    def function(*tensors: Any) -> Any:
        left = iter(tensors)
        given = {n: _given(value, left, number) for n, value in zip(names, row.inputs, strict=True)}
        if row.operator in OF_COMPLEX:
            given |= {names[0]: tf.complex(given[names[0]], tf.cos(given[names[0]]))}
        if row.operator in OF_STORED:
            given |= {n: _stored(given[n]) for n in STORES & given.keys()}
        results = [p for r in tf.nest.flatten(_raw(row.operator, given | _attributes(row))) for p in _real(r)]
        return {f"y{i}": tf.identity(r) for i, r in enumerate(results[: _meant(row)])}

    return function.get_concrete_function(), arrays


def _stored(tensors: Any) -> Any:
    """Return integers in TensorFlow's dtypes for quantized integers."""
    if isinstance(tensors, list):
        return [_stored(t) for t in tensors]
    return tf.bitcast(tensors, STORED[tensors.dtype.name])


def _real(result: Any) -> list[Any]:
    """Return a result as real tensors of dtypes that numpy has."""
    if result.dtype.is_quantized:
        return [tf.bitcast(result, {q: i for i, q in STORED.items()}[result.dtype.name])]
    return [tf.math.real(result), tf.math.imag(result)] if result.dtype.is_complex else [result]


def _dtype(array: Any) -> Any:
    return tf.string if array.dtype.kind == "O" else array.dtype


def _raw(operator: str, arguments: dict[str, Any]) -> Any:
    """Return the argument's name in `tf.raw_ops`, which differs from the operator's schema for some."""
    function = getattr(tf.raw_ops, operator)
    taken = inspect.signature(function).parameters
    return function(**{name if name in taken else RENAMED[name]: value for name, value in arguments.items()})


def _meant(row: Case) -> int:
    """Return the number of outputs to compare, without outputs for gradients of a batch normalization, and without
    vectors that are not requested.
    """
    if row.attributes.get("compute_uv", row.attributes.get("compute_v", True)) is False:
        return 1
    return (3 if row.attributes["is_training"] else 1) if row.operator.startswith("FusedBatchNorm") else 99


def _attributes(row: Case) -> dict[str, Any]:
    if row.operator == "Const":
        value = tf.make_tensor_proto(row.attributes["value"])
        return {"value": value, "dtype": tf.float32}
    return {k: tf.as_dtype(v) if k in DTYPES else v for k, v in row.attributes.items()}


def _dims(array: np.ndarray, dynamic: bool) -> list[int | None]:
    return [None, *array.shape[1:]] if dynamic and array.ndim else list(array.shape)


def _flat(values: Any) -> list[Any]:
    return [v for value in values for v in (_flat(value) if _is_list(value) else [value])]


def _given(value: Any, left: Any, number: Any) -> Any:
    if isinstance(value, (np.ndarray, np.generic)):
        return next(left)
    if _is_list(value):
        return [_given(v, left, number) for v in value]
    array = np.array(value)
    if array.dtype.kind in "Ub":
        return tf.constant(value)
    return tf.constant(array.astype(number if array.dtype.kind == "f" and array.size else np.int32))


def _is_list(value: Any) -> bool:
    """Return whether an input is a list of tensors."""
    return isinstance(value, list) and any(isinstance(v, (np.ndarray, np.generic)) for v in value)


def run(model: ir.Model, feeds: dict[str, Any]) -> dict[str, np.ndarray]:
    """Run the graph in onnxruntime as it was read, without passes; first the checker, which requires shapes,
    sees it.
    """
    proto = ir.serde.serialize_model(model)
    if all(value.shape is not None for value in model.graph.outputs):
        onnx.checker.check_model(proto, full_check=True)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"])
    names = [o.name for o in session.get_outputs()]
    return dict(zip(names, session.run(None, {n: np.asarray(a) for n, a in feeds.items()}), strict=True))


def same(got: np.ndarray, expected: np.ndarray) -> None:
    """Assert equal dtype and shape; integers and booleans exact, floats to a few roundings of the largest."""
    assert got.shape == expected.shape
    if expected.dtype.kind == "O":
        assert [s.encode() for s in got.ravel()] == list(expected.ravel())
        return
    assert got.dtype == expected.dtype
    if got.dtype.kind not in "fc":
        np.testing.assert_array_equal(got, expected)
        return
    finite = expected[np.isfinite(expected)].astype(np.float64)
    largest = float(np.abs(finite).max(initial=0.0))
    np.testing.assert_allclose(got, expected, rtol=2e-5, atol=4e-6 * largest if largest < 1e4 else 0)


def agrees(value: ir.Value, result: np.ndarray) -> None:
    """Assert that the output has the dtype and shape that the graph declares."""
    assert value.dtype is not None
    assert value.dtype == ir.DataType.STRING or value.dtype.numpy() == result.dtype
    if value.shape is not None:
        assert len(value.shape) == result.ndim
        assert all(d == n for d, n in zip(value.shape, result.shape, strict=True) if isinstance(d, int))


def has_array(value: Any) -> bool:
    """Return whether an input, or one of a list of them, has a first dim that may vary."""
    if isinstance(value, list):
        return any(map(has_array, value))
    return isinstance(value, np.ndarray) and value.ndim > 0


def some_bytes(*shape: int, step: int = 37) -> np.ndarray:
    """Return bytes that take all levels in turn."""
    return (np.arange(np.prod(shape)) * step % 256).astype(np.uint8).reshape(shape)
