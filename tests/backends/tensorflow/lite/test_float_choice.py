"""Models in 8 bits whose normalizations and softmaxes compute in floats, because 8 bits are slower and less exact."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir
import pytest

import convert
from convert.graph import Graph
from convert.request.options import Options
from tests.backends.tensorflow.lite.test_quantized import operators_of
from tests.support.cases import f32
from tests.support.tensorflow_lite_helper import encode, run

pytest.importorskip("tensorflow")
pytest.importorskip("ai_edge_litert")


def attention() -> ir.Model:
    """A layer of attention with one head, a normalization and a sum, over 64 steps of 64 numbers."""
    g, rng = Graph(), np.random.default_rng(5)
    x = g.input("x", ir.DataType.FLOAT, (1, 64, 64))
    weights = [rng.standard_normal((64, 64)).astype(np.float32) / 8 for _ in range(4)]
    y = g.LayerNormalization(x, np.ones(64, np.float32), f32(64), axis=-1)
    query, key, value = (g.MatMul(y, weight) for weight in weights[:3])
    shares = g.Softmax(g.MatMul(query, g.Transpose(key, perm=[0, 2, 1])), axis=-1)
    g.output(g.Add(x, g.MatMul(g.MatMul(shares, value), weights[3])), "y")
    return g.model()


def residual() -> ir.Model:
    """Two convolutions with a sum around the second one."""
    g, weights = Graph(), [f32(8, 8, 3, 3) / 8 for _ in range(3)]
    x = g.Conv(g.input("x", ir.DataType.FLOAT, (1, 8, 32, 32)), weights[0], pads=[1] * 4)
    y = g.Add(x, g.Conv(x, weights[1], pads=[1] * 4))
    g.output(g.Conv(y, weights[2], pads=[1] * 4), "y")
    return g.model()


def written(model: ir.Model, folder: Path, samples: np.ndarray, **extra: Any) -> tuple[Path, dict[str, set[str]]]:
    """Return the file in 8 bits, and the dtypes of the results of each kind of operator."""
    path = encode(model, folder, Options(quantize="int8", calibrate={"x": samples}, extra=extra))
    found: dict[str, set[str]] = {}
    for name, _, made in operators_of(path):
        found.setdefault(name, set()).update(made)
    return path, found


def test_layers_with_weights_alone_compute_in_eight_bits(tmp_path: Path) -> None:
    samples = f32(20, 64, 64)
    _, dtypes = written(attention(), tmp_path, samples)
    assert dtypes["FULLY_CONNECTED"] == {"int8"}
    assert {dtypes[name].pop() for name in ("ADD", "MEAN", "RSQRT", "SOFTMAX", "SUB")} == {"float32"}


def test_devices_without_floats_get_none(tmp_path: Path) -> None:
    _, dtypes = written(attention(), tmp_path, f32(20, 64, 64), io_dtype="int8")
    assert set.union(*dtypes.values()) == {"int8"}


def test_floats_are_more_exact(tmp_path: Path) -> None:
    samples = f32(20, 64, 64)
    (exact,) = run(encode(attention(), tmp_path / "float"), {"x": samples[:1]}).values()
    errors = []
    for dtype in ("float32", "int8"):
        path, _ = written(attention(), tmp_path / dtype, samples, io_dtype=dtype)
        (got,) = run(path, {"x": samples[:1]}).values()
        errors.append(np.sqrt(np.mean((got - exact) ** 2)))
    assert errors[0] < errors[1] / 2


def test_a_sum_between_convolutions_stays_in_eight_bits(tmp_path: Path) -> None:
    _, dtypes = written(residual(), tmp_path, f32(8, 8, 32, 32))
    assert dtypes["ADD"] == dtypes["CONV_2D"] == {"int8"}


@pytest.mark.slow
def test_choices_are_noted(tmp_path: Path) -> None:
    file = tmp_path / "m.onnx"
    ir.save(attention(), file)
    given: dict[str, Any] = {"quantize": "int8", "calibrate": {"x": f32(20, 64, 64)}, "verify": False}
    report = convert.convert(file, "tflite", tmp_path / "m.tflite", **given)
    (note,) = (note for note in report.notes if note.code == "chosen-floats")
    assert "RSQRT" in str(note)
    assert "FULLY_CONNECTED" not in str(note)
