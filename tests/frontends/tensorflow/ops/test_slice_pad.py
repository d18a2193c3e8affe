"""The rules of `frontends/tensorflow/ops/slice_pad.py` against TensorFlow."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest
from convert.frontends.tensorflow.rules import tf_op

from convert.errors import Unsupported
from convert.graph import Graph
from tests.frontends.tensorflow.ops.tf_support import also_with_batch, check, with_batch
from tests.support.cases import Case, case, f32, params

SELDOM = {"begin_mask": 0, "end_mask": 0, "ellipsis_mask": 0, "new_axis_mask": 0, "shrink_axis_mask": 0}
MASKS = {"begin_mask": 0, "end_mask": 0, "ellipsis_mask": 0, "new_axis_mask": 0, "shrink_axis_mask": 0}

ROWS = [
    case("Slice", f32(4, 5), [1, 0], [2, -1]),
    case("Slice", f32(4, 5), np.array([1, 2], np.int32), np.array([2, -1], np.int32)).named("dynamic"),
    case("Pad", f32(2, 3), [[1, 0], [0, 2]]),
    case("Pad", f32(2, 3), np.array([[1, 0], [0, 2]], np.int32)).named("dynamic"),
    case("PadV2", f32(2, 3), [[1, 0], [0, 2]], np.float32(3.5)),
    *(case("MirrorPad", f32(3, 4), [[2, 1], [0, 2]], mode=mode) for mode in ("REFLECT", "SYMMETRIC")),
    case("StridedSlice", f32(4, 5, 6), [1, 0, 0], [3, 5, -1], [1, 2, 1], **SELDOM),
    case("StridedSlice", f32(4, 5, 6), [-1, 4], [-4, 0], [-1, -2], **SELDOM).named("backwards"),
    # For these bounds ONNX's Slice would begin with the first element.
    *(
        case(
            "StridedSlice",
            f32(3, 5),
            np.array(start, np.int32) if kind else start,
            [0, stop],
            [-1, -2],
            **SELDOM | {"end_mask": 1},
        ).named(f"backwards from {start} to {stop}{kind}")
        for start in ([-9, -2], [-3, -7])
        for stop in (-4, -7, 1)
        for kind in ("", ", dynamic")
    ),
    case("StridedSlice", f32(4, 5, 6), [2, 0], [0, 0], [1, 1], **SELDOM | {"begin_mask": 2, "end_mask": 3}).named(
        "open"
    ),
    case("StridedSlice", f32(4, 5, 6), [0, 0], [0, 0], [-1, 1], **SELDOM | {"begin_mask": 3, "end_mask": 3}).named(
        "reversed"
    ),
    case("StridedSlice", f32(4, 5, 6), [-1, 1], [0, 3], [1, 1], **SELDOM | {"shrink_axis_mask": 1}).named("shrink"),
    case(
        "StridedSlice",
        f32(4, 5, 6),
        [1, 0, 0, 2],
        [2, 0, 0, 3],
        [1, 1, 1, 1],
        **SELDOM | {"ellipsis_mask": 2, "new_axis_mask": 4, "shrink_axis_mask": 9},
    ).named("ellipsis"),
    case("StridedSlice", f32(4, 5), np.array([1, 0], np.int32), np.array([3, 4], np.int32), [1, 2], **SELDOM).named(
        "dynamic"
    ),
    case(
        "StridedSlice",
        f32(4, 5),
        np.array([-1, 0], np.int32),
        np.array([3, 4], np.int32),
        [1, 2],
        **SELDOM | {"shrink_axis_mask": 1},
    ).named("dynamic shrink"),
    *(
        case(
            "StridedSlice",
            f32(3, 7),
            [0, 0],
            [3, 7],
            np.array([1, step], np.int32),
            **MASKS | {"begin_mask": 3, "end_mask": 3},
        ).named(f"every {step}")
        for step in (2, -3)
    ),
]


@pytest.mark.parametrize("row", params(ROWS, also_with_batch))
def test_operator(row: Case) -> None:
    check(row, dynamic=False)


@pytest.mark.parametrize("row", params(with_batch(ROWS)))
def test_operator_with_dynamic_batch(row: Case) -> None:
    check(row, dynamic=True)


@pytest.mark.parametrize(
    ("operator", "lists"),
    [
        ("Slice", ([-1, 0], [1, 1])),
        ("Slice", ([0, 0], [-2, 1])),
        ("Slice", ([0, 1], [2, 9])),
        ("Slice", ([0, 4], [2, -1])),
        ("Slice", ([1], [1])),
        ("Pad", ([[-1, 0], [0, 0]],)),
    ],
)
def test_what_tensorflow_refuses_and_onnx_does_not(operator: str, lists: tuple[list[object], ...]) -> None:
    import tensorflow as tf

    with pytest.raises((tf.errors.InvalidArgumentError, ValueError)):
        getattr(tf, operator.lower())(np.ones((2, 3), np.float32), *lists)
    g = Graph()
    values = [g.const(np.array(content), ir.DataType.INT32) for content in lists]
    with pytest.raises(Unsupported, match=f"{operator}.*, which TensorFlow refuses"):
        tf_op.apply(g, operator, [g.input("x", ir.DataType.FLOAT, (2, 3)), *values])
