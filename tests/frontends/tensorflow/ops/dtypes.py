"""Runs cases of the TensorFlow frontend in other dtypes: float16, bfloat16, float64 and int64 are kept."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import ml_dtypes
import numpy as np
import onnx_ir as ir
from convert.frontends import tensorflow as frontend

from convert.outcome.report import Report
from convert.reference import executor
from convert.request.options import Options
from convert.request.source import Source
from tests.frontends.tensorflow.ops.tf_support import OF_STORED, concrete_of, tf
from tests.support.cases import Case

KINDS: dict[str, Any] = {
    "float16": np.float16, "bfloat16": ml_dtypes.bfloat16, "float64": np.float64, "int64": np.int64,
}  # fmt: skip
NARROW = (ir.DataType.FLOAT, ir.DataType.FLOAT16, ir.DataType.BFLOAT16)


OTHERWISE = {
    "LeakyRelu",  # a float32 attribute, whose 0.3 is read as the number that was written
    "Bitcast",  # another size would be another operation
    *OF_STORED,  # the integers are quantized ones, which do not exist in 64 bits
}


REFUSED = {("MaxPoolWithArgmax", "int64")}
"""Cases without a form: ONNX has no pool for int64, and no floating dtype represents every int64."""


def check_dtype(row: Case, kind: str) -> bool:
    """Return whether TensorFlow accepts the case in `kind`; if so, assert that the graph gives the same dtypes.

    In float64, no intermediate may be narrower, and the numbers agree to 1e-9.
    """
    before, after = (np.int32 if kind == "int64" else np.float32), KINDS[kind]
    if (row.operator, kind) in REFUSED or row.operator in OTHERWISE or not any(_holds(v, before) for v in row.inputs):
        return False
    moved = replace(row, inputs=tuple(_moved(v, before, after) for v in row.inputs))
    try:
        concrete, arrays = concrete_of(moved, dynamic=False, number=np.float32 if kind == "int64" else after)
        expected = {name: value.numpy() for name, value in concrete(*map(tf.constant, arrays.values())).items()}
    except (TypeError, ValueError, tf.errors.OpError):
        return False
    model = frontend.read(Source("tf-function-object", model=concrete), Options(), Report("convert"))
    dtypes = {v.name: v.dtype for v in model.graph.outputs}
    assert {n: d for n, d in dtypes.items() if d != ir.DataType.STRING} == {
        n: ir.DataType.from_numpy(e.dtype) for n, e in expected.items() if e.dtype.kind != "O"
    }
    if kind == "float64":
        values = [v for n in model.graph.all_nodes() for v in n.outputs]
        if not any(d in NARROW for d in dtypes.values()):
            assert not [v.name for v in values if v.dtype in NARROW], "narrower on the way"
        for name, got in executor.run(model, arrays).items():
            close(got, expected[name])
    return True


def close(got: Any, expected: np.ndarray) -> None:
    """Assert equality to the digits of the expected dtype; integers, booleans and strings exactly."""
    if expected.dtype.kind == "O":
        assert [s.encode() for s in got.ravel()] == list(expected.ravel())
        return
    if expected.dtype.kind != "f":
        np.testing.assert_array_equal(got, expected)
        return
    finite = float(np.abs(expected[np.isfinite(expected)].astype(np.float64)).max(initial=0.0))
    digits = 1e-9 if expected.dtype == np.float64 else 2e-5  # some give float32 for float64
    np.testing.assert_allclose(got, expected, rtol=digits, atol=digits * finite / 100)


def _holds(value: Any, dtype: Any) -> bool:
    if isinstance(value, list):
        return any(_holds(v, dtype) for v in value)
    return isinstance(value, (np.ndarray, np.generic)) and value.dtype == dtype


def _moved(value: Any, before: Any, after: Any) -> Any:
    if isinstance(value, list):
        return [_moved(v, before, after) for v in value]
    if isinstance(value, (np.ndarray, np.generic)) and value.dtype == before:
        return value.astype(after)
    return value
