"""Ranges that are narrower than the minimum and maximum, and 8-bit weights with float activations."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx_ir as ir
import pytest
from ai_edge_litert.interpreter import Interpreter
from convert.backends.tensorflow.lite.writer import calibration_samples

import convert
from convert.errors import UsageError
from convert.graph import Graph
from convert.outcome.verdict import PASS
from convert.request.options import Options
from tests.backends.tensorflow.lite.test_io_dtypes import MNIST, digits
from tests.backends.tensorflow.lite.test_quantized import operators_of
from tests.support.marks import slow
from tests.support.tensorflow_lite_helper import encode, graph_of, run

pytest.importorskip("tensorflow")


def samples() -> np.ndarray:
    """Return images of small numbers, one of which has a spot far brighter than everything else."""
    images = np.random.default_rng(0).standard_normal((400, 1, 28, 28)).astype(np.float32)
    images[0, 0, 0, 0] = 25.0
    return images


def input_range(path: Path) -> tuple[float, float]:
    """Return the ends of the input's range, from the scale and zero point in the file."""
    interpreter = Interpreter(str(path))
    details = {d["name"]: d for d in interpreter.get_tensor_details()}
    scale, zero = next(d["quantization"] for d in details.values() if d["name"] == "tfl.quantize")
    return scale * (-128 - zero), scale * (127 - zero)


@pytest.mark.parametrize("method", slow(["minmax", "mse", "percentile=99", "percentile"], "mse", "percentile=99"))
def test_ranges_are_those_of_the_method(tmp_path: Path, method: str) -> None:
    images = samples()
    options = Options(quantize="int8", calibrate={"image": images}, extra={"calibration_method": method})
    low, high = input_range(encode(graph_of(MNIST), tmp_path, options))
    step = (high - low) / 255
    if method == "minmax":
        assert (low, high) == pytest.approx((images.min(), images.max()), abs=step)
    elif method == "mse":
        assert high < 22
        assert low < np.percentile(images, 0.5)
    else:
        percent = 99 if "=" in method else 99.99
        wanted = np.percentile(images, [100 - percent, percent])
        assert (low, high) == pytest.approx(tuple(wanted), abs=float(step) + 0.05)


def test_clipped_outliers_leave_the_rest_more_digits(tmp_path: Path) -> None:
    plain = digits()
    images = plain.copy()
    images[0, 0, 0, 0] = 100.0
    (exact,) = run(encode(graph_of(MNIST), tmp_path / "float"), {"image": plain}).values()
    errors = {}
    for method in ("minmax", "percentile"):
        options = Options(quantize="int8", calibrate={"image": images}, extra={"calibration_method": method})
        (found,) = run(encode(graph_of(MNIST), tmp_path / method, options), {"image": plain}).values()
        errors[method] = float(np.sqrt(np.mean((np.exp(found) - np.exp(exact)) ** 2)))
    assert errors["percentile"] < errors["minmax"] / 2


def test_a_method_without_ranges_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="without samples"):
        encode(graph_of(MNIST), tmp_path, Options(quantize="int8", extra={"calibration_method": "mse"}))


@pytest.mark.parametrize(("method", "low"), [("minmax", 1e-3), ("percentile=99.9", 1e-5), ("mse", 1e-3)])
def test_percentiles_clip_outliers_in_16_bits_too(tmp_path: Path, method: str, low: float) -> None:
    """Clipping the outlier costs more than it gains the others, so mse keeps it."""
    g = Graph()
    x = g.input("x", ir.DataType.FLOAT, [1, 40, 40])
    g.output(g.Mul(x, np.full((40,), 0.5, np.float32)), "y")
    numbers = np.random.default_rng(0).standard_normal((40, 40, 40)).astype(np.float32)
    seen = numbers.copy()
    seen[0, 0, 0] = 1e3
    options = Options(quantize="int16x8", calibrate={"x": seen}, extra={"calibration_method": method})
    path = encode(g.model(), tmp_path, options)
    (found,) = run(path, {"x": numbers[1:2]}).values()
    inside = np.abs(numbers[1:2]) < 2.5
    error = float(np.sqrt(np.mean((2 * found - numbers[1:2])[inside] ** 2)))
    assert low < error < 20 * low


@pytest.mark.slow
@pytest.mark.parametrize("method", ["mse", "percentile=99.9"])
def test_each_method_is_verified_by_its_own_ranges(tmp_path: Path, method: str) -> None:
    path, given = tmp_path / "m.tflite", {"image": digits()}
    report = convert.convert(MNIST, "tflite", path, quantize="int8", calibrate=given, calibration_method=method)
    assert report.verdict is not None
    assert report.verdict.status == PASS, report.verdict.reason


@pytest.mark.slow
def test_weights_alone_are_integers_and_nothing_else_is(tmp_path: Path) -> None:
    path = tmp_path / "m.tflite"
    report = convert.convert(MNIST, "tflite", path, quantize="int8-weights")
    assert report.verdict is not None
    assert report.verdict.status == PASS, report.verdict.reason
    assert report.verdict.stored == "weights in steps"
    rows = operators_of(path)
    assert {dtype for name, given, _ in rows if name == "DEQUANTIZE" for dtype in given} == {"int8"}
    assert {dtype for _, _, made in rows for dtype in made} == {"float32"}
    assert path.stat().st_size < 0.4 * MNIST.stat().st_size


@pytest.mark.parametrize("kept", ["Conv", "Gemm", "LogSoftmax", "*"])
def test_operators_stay_in_floats_beside_16_bits(tmp_path: Path, kept: str) -> None:
    given = {"image": digits()}
    (exact,) = run(encode(graph_of(MNIST), tmp_path / "float"), given).values()
    options = Options(quantize="int16x8", calibrate=given, extra={"keep_float": kept})
    path = encode(graph_of(MNIST), tmp_path / "wide", options)
    (found,) = run(path, given).values()
    assert np.abs(np.exp(found) - np.exp(exact)).max() < 0.02
    rows = operators_of(path)
    convolutions = {made[0] for name, _, made in rows if name == "CONV_2D"}
    assert convolutions == ({"float32"} if kept in ("Conv", "*") else {"int16"})
    layers = {made[0] for name, _, made in rows if name == "FULLY_CONNECTED"}
    assert layers == ({"float32"} if kept in ("Gemm", "*") else {"int16"})


def test_the_range_of_a_factor_is_its_own(tmp_path: Path) -> None:
    """The calibrator of TensorFlow 2.21 gives the factor the range of the product, which is written to its memory."""
    g = Graph()
    x = g.input("x", ir.DataType.FLOAT, [1, 4, 8])
    small = g.Sub(x, np.linspace(0, 0.5, 8, dtype=np.float32))
    g.output(g.Mul(small, np.linspace(200, 400, 8, dtype=np.float32)), "y")
    given = np.random.default_rng(0).random((8, 4, 8), np.float32)
    options = Options(quantize="int8", calibrate={"x": given}, extra={"io_dtype": "int8"})
    path = encode(g.model(), tmp_path, options)
    assert max(scales_of(path, "Sub")) == pytest.approx(1.5 / 255, rel=0.1)


def test_a_part_of_a_join_keeps_its_steps_elsewhere(tmp_path: Path) -> None:
    """Boxes, computed from some channels of a sigmoid, are joined with the other channels, as in YOLOv5."""
    g = Graph()
    share = g.Sigmoid(g.input("x", ir.DataType.FLOAT, [1, 6, 8]))
    first, rest = g.Split(share, np.array([2, 4]), axis=1, outputs=2)
    boxes = g.Mul(g.Mul(first, first), np.linspace(200, 400, 8, dtype=np.float32))
    g.output(g.Concat(boxes, rest, axis=1), "y")
    given = 3 * np.random.default_rng(0).standard_normal((8, 6, 8)).astype(np.float32)
    options = Options(quantize="int8", calibrate={"x": given}, extra={"io_dtype": "int8"})
    assert 1 / 256 in scales_of(encode(g.model(), tmp_path / "integers", options), "split")
    path = encode(g.model(), tmp_path, Options(quantize="int8", calibrate={"x": given}))
    (got,) = run(path, {"x": given[:1]}).values()
    wanted = (1 / (1 + np.exp(-given[:1, :2]))) ** 2 * np.linspace(200, 400, 8)
    assert np.abs(got[:, :2] - wanted).max() < 8


def scales_of(path: Path, part: str) -> list[float]:
    """Return the scales of the tensors with this part in their names."""
    details = Interpreter(str(path)).get_tensor_details()
    return [d["quantization"][0] for d in details if part in d["name"] and d["quantization"][0]]


def test_weights_alone_take_no_samples(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="need no samples"):
        convert.convert(MNIST, "tflite", tmp_path / "m.tflite", quantize="int8-weights", calibrate={"image": digits(2)})


@pytest.mark.parametrize(("fixed", "shapes"), [(1, [(1, 3)] * 6), (2, [(2, 3)] * 3), (6, [(6, 3)])])
def test_samples_of_a_fixed_batch_size_are_taken_in_turn(fixed: int, shapes: list[tuple[int, ...]]) -> None:
    array = np.arange(18, dtype=np.float32).reshape(6, 3)
    found = [sample["x"] for sample in calibration_samples(with_input([fixed, 3]), {"x": array})]
    assert [sample.shape for sample in found] == shapes
    np.testing.assert_array_equal(np.concatenate(found), array)


def test_samples_that_do_not_fill_a_fixed_batch_are_refused() -> None:
    with pytest.raises(UsageError, match="has shape"):
        list(calibration_samples(with_input([4, 3]), {"x": np.zeros((6, 3), np.float32)}))


def with_input(dims: list[int]) -> ir.Model:
    g = Graph()
    g.output(g.Relu(g.input("x", ir.DataType.FLOAT, dims)), "y")
    return g.model()
