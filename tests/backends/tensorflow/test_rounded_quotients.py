"""Rounded quotients by constants, which TensorFlow's optimizer turns into products with a reciprocal."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import parser

import convert
from tests.support.marks import slow
from tests.support.run_targets import SUFFIXES, run_target

TARGETS = ("tf", "tf-frozen", "keras", "tflite")
# Each of these changes at some of the first 4,000 integers, or at midpoints between steps, if a quotient is off by its
# last bit.
ROUNDED = """
    q = Div (x, c)
    floor = Floor (q)
    ceil = Ceil (q)
    integers = Cast <to = 6> (q)
    negative = Neg (q)
    flat = Reshape (negative, s)
    behind = Floor (flat)
    compared = Equal (q, floor)
    p = Div (x, d)
    several = Floor (p)
    u = QuantizeLinear (x, k, z)
    steps = DequantizeLinear (u, k, z)
"""
OUTPUTS = {"floor": "float", "ceil": "float", "integers": "int32", "behind": "float", "compared": "bool",
           "several": "float", "steps": "float"}  # fmt: skip
CONSTANTS = (
    "float c = {41}, float[2] d = {41, 0.0039}, int64[2] s = {-1, 2}, uint8 z = {3}, float k = {0.0039}, "
    "float[4] scales = {1, 1, 7, 3}"
)


def model_of(head: str, body: str) -> onnx.ModelProto:
    return parser.parse_model(f'<ir_version: 9, opset_import: ["" : 20]> net ({head}) <{CONSTANTS}> {{ {body} }}')


def outputs(model: onnx.ModelProto, target: str, x: np.ndarray, folder: Path) -> dict[str, tuple[np.ndarray, ...]]:
    """Return what the target and onnxruntime compute for an input, by the output's name."""
    session = onnxruntime.InferenceSession(model.SerializeToString())
    names = [output.name for output in session.get_outputs()]
    expected = session.run(names, {"x": x})
    path = folder / f"net.{SUFFIXES[target]}"
    convert.convert(model, target, path, verify=False)
    (got,) = run_target(target, path, [{"x": x}])
    return {name: (got[name], want) for name, want in zip(names, expected, strict=True)}


def compared(model: onnx.ModelProto, target: str, x: np.ndarray, folder: Path) -> None:
    for name, (got, want) in outputs(model, target, x, folder).items():
        np.testing.assert_array_equal(got, want, err_msg=name)


@pytest.mark.parametrize("target", slow(TARGETS, "tflite"))
def test_what_is_rounded_is_divided(target: str, tmp_path: Path) -> None:
    """The quotient is rounded as in float32. With a reciprocal, 29 of 41 multiples would be off by one, and 93 of 250
    midpoints.
    """
    integers = np.arange(1, 4001, dtype=np.float32)
    middles = ((np.arange(250) + 0.5) * np.float64(np.float32(0.0039))).astype(np.float32)
    made = ", ".join(f"{kind}[N, 2] {name}" for name, kind in OUTPUTS.items())
    model = model_of(f"float[N, 2] x) => ({made}", ROUNDED)
    made_of = outputs(model, target, np.concatenate([integers, middles]).reshape(-1, 2), tmp_path)
    if target == "tflite":
        # QuantizeLinear becomes QUANTIZE, whose kernel multiplies by the reciprocal of the scale. At an exact midpoint
        # of two steps, either step is right.
        got, want = (steps.reshape(-1) for steps in made_of.pop("steps"))
        np.testing.assert_array_equal(got[: len(integers)], want[: len(integers)])
        np.testing.assert_allclose(np.abs(middles - got[len(integers) :]), 0.0039 / 2, rtol=1e-4)
    for name, (got, want) in made_of.items():
        np.testing.assert_array_equal(got, want, err_msg=name)


@pytest.mark.parametrize("target", slow(["tf", "tf-frozen", "tflite"], "tflite"))
def test_places_of_the_nearest_element_of_sizes_that_the_run_tells(target: str, tmp_path: Path) -> None:
    made, body = [], ""
    for coordinates in ("asymmetric", "half_pixel"):
        for mode in ("floor", "round_prefer_ceil"):
            made.append(f"float[1, 1, I, J] {coordinates}_{mode}")
            how = f'mode = "nearest", coordinate_transformation_mode = "{coordinates}", nearest_mode = "{mode}"'
            body += f"{coordinates}_{mode} = Resize <{how}> (x, , scales)\n"
    model = model_of(f"float[1, 1, H, W] x) => ({', '.join(made)}", body)
    compared(model, target, np.arange(60 * 50, dtype=np.float32).reshape(1, 1, 60, 50), tmp_path)


@pytest.mark.parametrize("target", slow(["tf", "tf-frozen", "tflite"], "tflite"))
def test_a_size_that_is_known_beside_a_batch_that_is_not(target: str, tmp_path: Path) -> None:
    """5 elements from 6: the third coordinate lies midway between two elements."""
    resize = 'mode = "nearest", coordinate_transformation_mode = "half_pixel", nearest_mode = "round_prefer_ceil"'
    sizes = "b = Shape <start = 0, end = 2> (x) e = Constant <value = int64[2] {5, 7}> () n = Concat <axis = 0> (b, e)"
    model = model_of("float[N, 2, 6, 3] x) => (float[N, 2, 5, 7] y", f"{sizes} y = Resize <{resize}> (x, , , n)")
    compared(model, target, np.arange(2 * 2 * 18, dtype=np.float32).reshape(2, 2, 6, 3), tmp_path)


@pytest.mark.parametrize("target", slow(TARGETS, "tflite"))
def test_the_scale_of_dynamic_steps_is_a_quotient(target: str, tmp_path: Path) -> None:
    """The scale is the 255th part of a range. For numbers such as 0, 1.5 and 3, the second lies midway between two
    steps.
    """
    made = "uint8[N] y, float size, uint8 zero"
    model = model_of(f"float[N] x) => ({made}", "y, size, zero = DynamicQuantizeLinear (x)")
    convert.convert(model, target, tmp_path / f"net.{SUFFIXES[target]}", verify=False)
    feeds = [{"x": np.array([-low, high / 2, high], np.float32)} for high in range(1, 30) for low in range(3)]
    session = onnxruntime.InferenceSession(model.SerializeToString())
    for feed, got in zip(feeds, run_target(target, tmp_path / f"net.{SUFFIXES[target]}", feeds), strict=True):
        np.testing.assert_array_equal(got["y"], session.run(["y"], feed)[0], err_msg=str(feed))
