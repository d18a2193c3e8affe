"""`--quantize int16x8`: operators give what the float network gives in onnxruntime, up to roundings to 16 bits."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir
import pytest

import convert
from convert.graph import Graph
from convert.outcome.verdict import PASS
from convert.request.options import Options
from tests.backends.tensorflow.lite.test_networks import recurrent
from tests.backends.tensorflow.lite.test_quantized import onnxruntime_outputs, operators_of
from tests.support.tensorflow_lite_helper import encode, run

pytest.importorskip("tensorflow")
pytest.importorskip("ai_edge_litert")

F = np.float32
BINS = np.arange(8, dtype=F).reshape(1, 1, 8, 1)
FACTORS, OFFSETS = np.linspace(0.5, 2, 8, dtype=F), np.linspace(-1, 1, 8, dtype=F)
WEIGHTS = np.random.default_rng(1).integers(-127, 128, (4, 4, 3, 3)).astype(F) / 64
WEIGHTS[:, 0, 0, 0] = 127 / 64  # each channel has 8 bits without a rounding
BIAS = np.array([300, -200, 100, 50], F)


def normal(scale: float, *shape: int, mean: float = 0) -> np.ndarray:
    """Return 16 samples."""
    return (np.random.default_rng(0).standard_normal((16, *shape)) * scale + mean).astype(F)


def convolved(g: Graph, x: Any) -> Any:
    return g.Conv(x, WEIGHTS, BIAS, pads=[1] * 4)


def expected_bins(g: Graph, x: Any) -> Any:
    return g.ReduceSum(g.Mul(g.Softmax(x, axis=2), BINS), np.array([2]), keepdims=0)


VECTOR, PICTURE = (6, 8), (4, 6, 6)
ROWS: dict[str, tuple[Callable[..., Any], list[np.ndarray]]] = {
    "sum beyond the range of its terms": (lambda g, x: g.ReduceSum(x, np.array([1])), [normal(1, *VECTOR, mean=3)]),
    "expectation over bins": (expected_bins, [normal(3, 4, 8, 20)]),
    "boxes from distances": (lambda g, x: g.Mul(g.Sub(F(40), expected_bins(g, x)), F(8)), [normal(3, 4, 8, 20)]),
    "norm": (lambda g, x: g.ReduceL2(x, np.array([1])), [normal(1, *VECTOR)]),
    "layer normalization": (lambda g, x: g.LayerNormalization(x, FACTORS, OFFSETS), [normal(5, *VECTOR, mean=3)]),
    "instance normalization": (
        lambda g, x: g.InstanceNormalization(x, FACTORS[:4], OFFSETS[:4]), [normal(5, *PICTURE, mean=3)],
    ),
    "padding with a number": (lambda g, x: g.Pad(x, np.array([0, 1, 1, 0, 1, 1]), F(50)), [normal(1, *VECTOR)]),
    "error function": (lambda g, x: g.Erf(x), [normal(1, *VECTOR)]),
    "selection of two": (lambda g, x, y: g.Where(g.Greater(x, y), x, y), [normal(0.1, *VECTOR), normal(10, *VECTOR)]),
    "Mish, between powers of e": (lambda g, x: g.Mish(x), [normal(3, *VECTOR)]),
    "sum with zeros": (lambda g, x: g.Add(x, g.Mul(x, F(0))), [normal(1, *VECTOR)]),
    "input read in floats first": (lambda g, x: g.Add(g.Abs(x), g.Relu(x)), [normal(3, *VECTOR)]),
    "part": (lambda g, x: g.Pad(x, np.array([0, -1, -2, 0, 0, 0])), [normal(1, *VECTOR)]),
    "broadcast": (lambda g, x: g.Expand(x, np.array([2, 6, 8])), [normal(1, *VECTOR)]),
    "bias used at two ranges": (
        lambda g, x, y: g.Concat(convolved(g, x), convolved(g, y), axis=1), [normal(1, *PICTURE), normal(30, *PICTURE)],
    ),
}  # fmt: skip


def built(name: str) -> tuple[ir.Model, dict[str, np.ndarray]]:
    form, samples = ROWS[name]
    g, feeds = Graph(), {f"x{place}": array for place, array in enumerate(samples)}
    inputs = [g.input(key, ir.DataType.FLOAT, (1, *array.shape[1:])) for key, array in feeds.items()]
    g.output(form(g, *inputs), "y")
    return g.model(), feeds


@pytest.mark.parametrize("name", ROWS)
def test_an_operator_is_exact_to_16_bits(tmp_path: Path, name: str) -> None:
    (model, feeds), (source, _) = built(name), built(name)
    path = encode(model, tmp_path, Options(quantize="int16x8", calibrate=feeds))
    first = {key: array[:1] for key, array in feeds.items()}
    (want,) = onnxruntime_outputs(ir.to_proto(source), first)
    np.testing.assert_allclose(run(path, first)["y"], want, rtol=0, atol=8 / 2**15 * np.abs(want).max())


def test_what_has_a_kernel_is_in_16_bits(tmp_path: Path) -> None:
    model, feeds = built("expectation over bins")
    rows = operators_of(encode(model, tmp_path, Options(quantize="int16x8", calibrate=feeds)))
    made = {name: outputs for name, _, outputs in rows}
    assert made["SOFTMAX"] == made["MUL"] == ["int16"]
    assert made["SUM"] == ["float32"]


@pytest.mark.parametrize(("name", "kernel"), [("part", "SLICE"), ("broadcast", "BROADCAST_TO")])
def test_a_move_is_in_16_bits(tmp_path: Path, name: str, kernel: str) -> None:
    model, feeds = built(name)
    rows = operators_of(encode(model, tmp_path, Options(quantize="int16x8", calibrate=feeds)))
    assert [made for operator, _, made in rows if operator == kernel] == [["int16"]]


@pytest.mark.slow
@pytest.mark.parametrize("time", ["time", 7], ids=["any length", "seven steps"])
def test_recurrent_layers_are_written(time: int | str, tmp_path: Path) -> None:
    draw = np.random.default_rng(0)
    samples = {
        "x": draw.standard_normal((16, 7, 1, 5), np.float32),
        "n": np.full((16, 1), 7, np.int32),
        "h": draw.standard_normal((16, 1, 1, 6), np.float32),
    }
    report = convert.convert(recurrent(time), "tflite", tmp_path / "m.tflite", quantize="int16x8", calibrate=samples)
    assert report.verdict is not None
    assert report.verdict.status == PASS, report.verdict.reason
