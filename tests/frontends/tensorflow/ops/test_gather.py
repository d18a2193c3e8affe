"""The rules of `frontends/tensorflow/ops/gather.py` against TensorFlow."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest
from convert.frontends.tensorflow.rules import tf_op

from convert.errors import Unsupported
from convert.graph import Graph
from tests.frontends.tensorflow.ops.tf_support import also_with_batch, check, with_batch
from tests.support.cases import Case, boolean, case, f32, i32, params

ROWS = [
    case("Gather", f32(4, 3), np.array([2, 0], np.int32)),
    case("GatherV2", f32(4, 3, 2), np.array([[2, 0]], np.int32), 1),
    case("GatherV2", f32(4, 3, 2), np.array([[1, 0]], np.int32), np.int32(-1)).named("axis by data"),
    case("GatherV2", f32(2, 4, 3), i32(2, 5, low=0, high=4), 1, batch_dims=1).named("batch"),
    case("GatherV2", f32(2, 3, 4, 2), i32(2, 5, 6, low=0, high=4), 2, batch_dims=1).named("batch before axis"),
    *(
        case("GatherV2", f32(*dims), np.array(places, np.int32), axis, batch_dims=batch).named(
            f"{dims}, {batch} of all"
        )
        for dims, places, axis, batch in (
            ((3, 4), [1, 0, 3], 1, 1),
            ((3, 4, 2), [1, 0, 3], 1, 1),
            ((3, 4, 4), [1, 0, 3], 2, 1),
            ((2, 3, 4), [[1, 0, 3], [0, 2, 2]], 2, 2),
            ((2, 3, 4), [[1, 0, 2], [0, 2, 2]], 1, -1),
        )
    ),
    case("GatherNd", f32(4, 3), np.array([[2, 0], [3, 1]], np.int32)),
    case("ScatterNd", np.array([[1], [3], [1]], np.int32), f32(3, 2), [4, 2]),
    *(
        case(name, f32(4, 2), np.array([[1], [3]], np.int32), f32(2, 2, low=0))
        for name in ["TensorScatterUpdate", "TensorScatterAdd", "TensorScatterMax", "TensorScatterMin"]
    ),
    *(
        case("OneHot", np.array([[0, 2], [-1, 5]], np.int32), 4, np.float32(2), np.float32(-1), axis=axis)
        for axis in (-1, 1)
    ),
    case("Where", boolean(3, 4)),
    *(case("MatrixBandPart", f32(2, 4, 5), lower, upper) for lower, upper in ((1, 0), (-1, 1), (0, -1), (4, 5))),
    *(
        case("MatrixBandPart", f32(2, 4, 5), np.int32(low), np.int32(high)).named(f"by data, {low} {high}")
        for low, high in ((1, 0), (-1, 2), (2, -1))
    ),
]


@pytest.mark.parametrize("row", params(ROWS, also_with_batch))
def test_operator(row: Case) -> None:
    check(row, dynamic=False)


@pytest.mark.parametrize("row", params(with_batch(ROWS)))
def test_operator_with_dynamic_batch(row: Case) -> None:
    check(row, dynamic=True)


@pytest.mark.parametrize(("axis", "batch"), [(2**31 - 1, -(2**31)), (2, 1), (0, 1), (1, 2)])
def test_axes_that_tensorflow_refuses(axis: int, batch: int) -> None:
    """Dims of a batch below zero made a list of two billion."""
    import tensorflow as tf

    with pytest.raises((tf.errors.InvalidArgumentError, ValueError)):
        tf.raw_ops.GatherV2(params=np.ones((2, 3)), indices=[[0], [1]], axis=axis, batch_dims=batch)
    g = Graph()
    given = [g.input("x", ir.DataType.FLOAT, (2, 3)), g.input("i", ir.DataType.INT32, (2, 1))]
    with pytest.raises(Unsupported, match="which TensorFlow refuses"):
        tf_op.apply(g, "GatherV2", [*given, g.const(axis, ir.DataType.INT32)], {"batch_dims": batch})
