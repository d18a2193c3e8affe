"""Resize's weights in convert/semantics, in the reference executor and in onnxruntime, over a grid of sizes."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper
from onnx.reference import ReferenceEvaluator

from convert.reference.kernels.resize import resize
from convert.semantics.interpolation import (
    Interpolation,
    keep_aspect_ratio,
    matrix_at,
    nearest_indices,
    resized_length,
    source_coordinates,
    weight_matrix,
)
from tests.support.marks import slow_but
from tests.support.onnx_support import array, info, model, run_ort

LENGTHS = range(1, 10)
SCALES = (0.3, 0.5, 0.6, 0.75, 1.0, 1.3, 1.5, 2.0, 2.6, 3.0, 3.7)
SIZES = (1, 2, 3, 4, 5, 7, 9, 13)
COORDINATES = ("half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric")
METHODS: dict[str, dict[str, Any]] = {
    **{how: {"mode": "nearest", "nearest_mode": how} for how in ("floor", "ceil")},
    **{how: {"mode": "nearest", "nearest_mode": how} for how in ("round_prefer_floor", "round_prefer_ceil")},
    "linear": {"mode": "linear"},
    "linear antialias": {"mode": "linear", "antialias": 1},
    "linear antialias excluded": {"mode": "linear", "antialias": 1, "exclude_outside": 1},
    "linear excluded": {"mode": "linear", "exclude_outside": 1},
    "cubic": {"mode": "cubic"},
    "cubic a": {"mode": "cubic", "cubic_coeff_a": -0.5},
    "cubic excluded": {"mode": "cubic", "exclude_outside": 1},
    "cubic antialias": {"mode": "cubic", "antialias": 1},
    "cubic antialias excluded": {"mode": "cubic", "antialias": 1, "exclude_outside": 1},
}
DEFAULTS: dict[str, Any] = {
    "antialias": 0,
    "axes": None,
    "coordinate_transformation_mode": "half_pixel",
    "cubic_coeff_a": -0.75,
    "exclude_outside": 0,
    "extrapolation_value": 0.0,
    "keep_aspect_ratio_policy": "stretch",
    "mode": "nearest",
    "nearest_mode": "round_prefer_floor",
}

# onnxruntime returns its input if the output has the same shape, for any scale.
COPIED = {(2, 1.3), (3, 1.3)}

# Nearest neighbours for which onnxruntime's coordinate and the float32 formula lie on two sides of a step: with
# half_pixel_symmetric, coordinates that should be whole come out slightly off.
STEPS: dict[tuple[str, str], set[tuple[int, float]]] = {
    ("half_pixel_symmetric", "floor"): {(3, 1), (3, 13), (5, 0.3), (5, 0.6), (5, 3), (6, 2), (9, 3), (9, 5)},
    ("half_pixel_symmetric", "ceil"): {(3, 3.7)},
}

# Sizes found by ONNX's shape inference; onnxruntime computes one element more.
INFERRED = {
    (5, 2.6): 12, (10, 2.6): 25, (100, 2.6): 259, (1000, 2.6): 2599, (10, 0.7): 6, (100, 0.7): 69, (1000, 0.7): 699,
}  # fmt: skip


def attributes(name: str, coordinates: str) -> dict[str, Any]:
    return {**METHODS[name], "coordinate_transformation_mode": coordinates}


def method(given: dict[str, Any]) -> Interpolation:
    every = {**DEFAULTS, **given}
    return Interpolation(
        every["mode"], every["coordinate_transformation_mode"], every["nearest_mode"], every["cubic_coeff_a"],
        bool(every["exclude_outside"]), bool(every["antialias"]), every["extrapolation_value"],
    )  # fmt: skip


def grid() -> list[tuple[int, float, int]]:
    """Return the length, the scale (a float) or the size (an int) of a node, and the size of the output."""
    scaled = [(n, s, resized_length(n, s)) for n in LENGTHS for s in SCALES]
    return [row for row in scaled if row[2]] + [(n, size, size) for n in LENGTHS for size in SIZES]


def scale_of(length: int, given: float) -> float:
    """Return a scale as float32, or the scale of a size."""
    return given / length if isinstance(given, int) else float(np.float32(given))


def kernel_weights(length: int, given: float, every: dict[str, Any], roi: np.ndarray | None = None) -> np.ndarray:
    """Return [size, length] by the reference executor."""
    scales, sizes = (None, np.array([given])) if isinstance(given, int) else (np.array([given], np.float32), None)
    return resize(1, np.eye(length), roi, scales, sizes, **{**DEFAULTS, **every, "axes": [0]})


def ort_weights(rows: list[tuple[int, float, int]], every: dict[str, Any], opset: int = 19) -> list[np.ndarray]:
    """Return [size, length] of each row by onnxruntime, in one model: the identity matrix with its rows resized."""
    nodes, constants = [], []
    for i, (length, given, _) in enumerate(rows):
        whole = isinstance(given, int)
        constants.append(array(f"s{i}", [length if whole else 1, given], np.int64 if whole else np.float32))
        names = [f"x{length}", "", "", f"s{i}"] if whole else [f"x{length}", "", f"s{i}"]
        nodes.append(helper.make_node("Resize", names, [f"y{i}"], **every))
    lengths = sorted({length for length, _, _ in rows})
    proto = model(
        nodes,
        [info(f"x{n}", [n, n]) for n in lengths],
        [info(f"y{i}", None) for i in range(len(rows))],
        constants,
        opset=opset,
    )
    return [y.T for y in run_ort(proto, {f"x{n}": np.eye(n, dtype=np.float32) for n in lengths})]


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("coordinates", slow_but(COORDINATES, "half_pixel", "align_corners"))
def test_weights(coordinates: str, name: str) -> None:
    every, rows = attributes(name, coordinates), grid()
    ours = [weight_matrix(n, size, scale_of(n, given), method(every)) for n, given, size in rows]
    for (n, given, size), own in zip(rows, ours, strict=True):
        assert own.shape == (size, n)
        np.testing.assert_allclose(own.sum(1), 1)
        np.testing.assert_allclose(kernel_weights(n, given, every), own, atol=1e-12, err_msg=f"{n} by {given}")
    if name == "linear excluded":  # the same as without it, and onnxruntime supports exclude_outside with cubic only
        with pytest.raises(Exception, match="exclude_outside"):
            ort_weights(rows[:1], every)
        rows, every = [], attributes("linear", coordinates)
        for (n, given, size), own in zip(grid(), ours, strict=True):
            np.testing.assert_allclose(own, weight_matrix(n, size, scale_of(n, given), method(every)), atol=1e-12)
        return
    found = ort_weights(rows, every)
    apart = {
        (n, given)
        for (n, given, _), own, theirs in zip(rows, ours, found, strict=True)
        if theirs.shape != own.shape or not np.allclose(theirs, own, atol=2e-5)
    }
    copied = {
        (n, given) for (n, given, size), own in zip(rows, ours, strict=True)
        if (n, given) in COPIED and not np.array_equal(own, np.eye(n))
    }  # fmt: skip
    assert apart == copied | STEPS.get((coordinates, name), set())


@pytest.mark.parametrize(
    ("mode", "coordinates", "given", "last", "reference"),
    [
        ("linear", "align_corners", 1.5, 17.0, 1 + 4 * 6 * 4 / 6.5),  # 7 outputs, 7.5 apart
        ("linear", "align_corners", 7, 17.0, 17.0),
        ("linear", "pytorch_half_pixel", 1, 1.0, 1.0),
        ("cubic", "pytorch_half_pixel", 1, 1.0, 0.625),  # the midpoint at the edge and the ones before it
        ("linear", "tf_crop_and_resize", 1.5, 17.0, 1 + 4 * 6 * 4 / 6.5),
        ("linear", "asymmetric", 2.6, 17.0, 17.0),
    ],
)
def test_where_the_reference_implementation_departs(
    mode: str, coordinates: str, given: float, last: float, reference: float
) -> None:
    x = np.array([[1, 5, 9, 13, 17]], np.float32)
    every = {"mode": mode, "coordinate_transformation_mode": coordinates}
    proto = one_node([1, 5], given, every, (0.0, 1.0))
    size = given if isinstance(given, int) else resized_length(5, given)
    scale = scale_of(5, given)
    ours = matrix_at(source_coordinates(5, size, scale, method(every), (0.0, 1.0)), 5, scale, method(every)) @ x[0]
    (theirs,) = run_ort(proto, {"x": x})
    (python,) = ReferenceEvaluator(proto).run(None, {"x": x})
    np.testing.assert_allclose([ours[-1], theirs[0, -1], python[0, -1]], [last, last, reference], rtol=1e-6)
    assert (len(ours), theirs.shape[1]) == (size, size)


def one_node(shape: list[int], given: float, every: dict[str, Any], region: tuple[float, float]) -> onnx.ModelProto:
    """A Resize of the second axis of `x`."""
    constants = [array("roi", [0, region[0], 1, region[1]])]
    if isinstance(given, int):
        names = ["x", "roi", "", "s"]
        constants.append(array("s", [shape[0], given], np.int64))
    else:
        names = ["x", "roi", "s"]
        constants.append(array("s", [1, given]))
    node = helper.make_node("Resize", names, ["y"], **every)
    return model([node], [info("x", shape)], [info("y", None)], constants, opset=19)


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
@pytest.mark.parametrize("region", [(0.0, 1.0), (0.25, 0.75), (-0.5, 1.5), (0.9, 0.1), (0.3, 0.3)])
def test_regions(mode: str, region: tuple[float, float]) -> None:
    every = {"mode": mode, "coordinate_transformation_mode": "tf_crop_and_resize", "extrapolation_value": -3.0}
    start, end = (float(np.float32(edge)) for edge in region)
    roi = np.array([start, end], np.float32)
    for n, given, size in [row for row in grid() if row[0] in (1, 4, 5)]:
        scale = scale_of(n, given)
        where = source_coordinates(n, size, scale, method(every), (start, end))
        own = matrix_at(where, n, scale, method(every))
        own[(where < 0) | (where > n - 1)] = -3
        np.testing.assert_allclose(kernel_weights(n, given, every, roi), own, atol=1e-12)
        (theirs,) = run_ort(one_node([n, n], given, every, region), {"x": np.eye(n, dtype=np.float32)})
        if size == n:  # copied, for any region
            np.testing.assert_array_equal(theirs, np.eye(n))
        else:
            np.testing.assert_allclose(theirs.T, own, atol=2e-5, err_msg=f"{n} by {given}")


@pytest.mark.parametrize("policy", ["not_larger", "not_smaller"])
@pytest.mark.parametrize("lengths", [(4, 6), (5, 3), (1, 9), (7, 7)])
@pytest.mark.parametrize("wanted", [(8, 3), (2, 13), (5, 5), (1, 1)])
def test_aspect_ratio(policy: str, lengths: tuple[int, int], wanted: tuple[int, int]) -> None:
    scale, sizes = keep_aspect_ratio(lengths, wanted, policy)
    every = {"mode": "linear", "keep_aspect_ratio_policy": policy}
    node = helper.make_node("Resize", ["x", "", "", "s"], ["y"], **every)
    proto = model([node], [info("x", lengths)], [info("y", None)], [array("s", wanted, np.int64)], opset=19)
    x = np.random.default_rng(0).normal(size=lengths)
    (theirs,) = run_ort(proto, {"x": x.astype(np.float32)})
    assert theirs.shape == tuple(sizes)
    rows, columns = (
        weight_matrix(n, size, scale, Interpolation("linear", "half_pixel"))
        for n, size in zip(lengths, sizes, strict=True)
    )
    own = rows @ x @ columns.T
    np.testing.assert_allclose(resize(1, x, None, None, np.array(wanted), **{**DEFAULTS, **every}), own, atol=1e-12)
    np.testing.assert_allclose(theirs, own, atol=1e-5)


def test_lengths_are_those_of_onnxruntime() -> None:
    """ONNX's shape inference and its reference implementation multiply in float64 instead."""
    rows = [(n, s) for n in (1, 3, 5, 7, 10, 100, 1000) for s in (0.1, 0.3, 0.6, 0.7, 1.1, 2.6, 3.7)]
    rows = [row for row in rows if resized_length(*row)]
    nodes = [helper.make_node("Resize", [f"x{n}", "", f"s{i}"], [f"y{i}"]) for i, (n, _) in enumerate(rows)]
    constants = [array(f"s{i}", [s]) for i, (_, s) in enumerate(rows)]
    lengths = sorted({n for n, _ in rows})
    proto = model(
        nodes, [info(f"x{n}", [n]) for n in lengths], [info(f"y{i}", None) for i in range(len(rows))], constants
    )
    made = run_ort(proto, {f"x{n}": np.zeros(n, np.float32) for n in lengths})
    assert [len(y) for y in made] == [resized_length(n, s) for n, s in rows]
    inferred = onnx.shape_inference.infer_shapes(proto).graph.output
    sizes = {row: y.type.tensor_type.shape.dim[0].dim_value for row, y in zip(rows, inferred, strict=True)}
    assert {row: size for row, size in sizes.items() if size != resized_length(*row)} == INFERRED


@pytest.mark.parametrize("how", ["round_prefer_floor", "round_prefer_ceil"])
@pytest.mark.parametrize("coordinates", ["half_pixel", "asymmetric", "align_corners"])
def test_middles_are_those_of_onnxruntime(coordinates: str, how: str) -> None:
    """Every length up to 16 and size up to 23: exact midpoints may not be midpoints in float32."""
    node = helper.make_node(
        "Resize", ["x", "", "", "s"], ["y"], coordinate_transformation_mode=coordinates, nearest_mode=how
    )
    proto = model([node], [info("x", ["n"]), info("s", [1], onnx.TensorProto.INT64)], [info("y", None)], opset=18)
    session = onnxruntime.InferenceSession(proto.SerializeToString())
    method = Interpolation(mode="nearest", coordinates=coordinates, nearest=how)
    for length, size in itertools.product(range(1, 17), range(1, 24)):
        x = np.arange(length, dtype=np.float32)
        (wanted,) = session.run(None, {"x": x, "s": np.array([size], np.int64)})
        found = nearest_indices(source_coordinates(length, size, size / length, method), length, how)
        np.testing.assert_array_equal(found, wanted, err_msg=f"{length} to {size}")
        kernel = resize(
            1, x, None, None, np.array([size]), mode="nearest", coordinate_transformation_mode=coordinates, axes=None,
            antialias=0, cubic_coeff_a=-0.75, exclude_outside=0, extrapolation_value=0.0, nearest_mode=how,
            keep_aspect_ratio_policy="stretch",
        )  # fmt: skip
        np.testing.assert_array_equal(kernel, wanted, err_msg=f"the reference, {length} to {size}")
