"""The rules of `frontends/tensorflow/ops/reduce.py` against TensorFlow."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest
from convert.frontends.tensorflow.rules import tf_op

from convert.errors import Unsupported
from convert.graph import Graph
from tests.frontends.tensorflow.ops.tf_support import also_with_batch, check, with_batch
from tests.support.cases import Case, boolean, case, f32, i32, params

WHOLE = np.array([[-7, 2, 0], [100, 100, 101], [-1, -1, 0]])

ROWS = [
    *(
        case(name, f32(2, 3, 4), [0, -1], keep_dims=keep).named(f"keep {keep}")
        for keep in (False, True)
        for name in ["Sum", "Prod", "Max", "Min", "Mean", "EuclideanNorm"]
    ),
    *(case(name, boolean(3, 4), [1]) for name in ("All", "Any")),
    case("Sum", i32(2, 3), 1).named("int32"),
    *(case(name, np.zeros((3, 0), bool), [1]).named("no elements") for name in ("All", "Any")),
    *(case("Cumprod", np.zeros(n, np.float32), a).named(f"{n} along {a}") for n in ((3, 0), (0, 4)) for a in (0, 1)),
    case("Mean", f32(2, 3), np.zeros(0, np.int32).tolist()).named("none"),
    *(
        case(name, f32(3, 5), -1, output_type=kind).named(kind)
        for name in ("ArgMax", "ArgMin")
        for kind in ("int32", "int64")
    ),
    *(case(name, boolean(3, 5), 1, output_type="int64").named("bool") for name in ("ArgMax", "ArgMin")),
    case("TopKV2", f32(3, 5), 2),
    *(case("NthElement", f32(3, 5), np.int32(1), reverse=r).named(f"reverse {r}") for r in (False, True)),
    case("NthElement", f32(3, 5), 4).named("the last"),
    *(case("Cumprod", f32(3, 5), 1, exclusive=e, reverse=r) for e in (False, True) for r in (False, True)),
    case("InTopKV2", f32(3, 5), np.array([0, 3, 9], np.int32), 2),
    *(
        case("InTopKV2", np.float32([[odd, 1, 2], [3, 1, 2], [1, 2, odd]]), np.array([2, 0, 1], np.int32), 1).named(
            f"beside {odd}"
        )
        for odd in (-np.inf, np.inf, np.nan)
    ),
    *(case("Cumsum", f32(3, 5), 1, exclusive=e, reverse=r) for e in (False, True) for r in (False, True)),
    *(
        case("Cumsum", np.array([[100, 100, 100]], kind), 1, exclusive=e).named(f"{np.dtype(kind).name} {e}")
        for kind in (np.uint8, np.int8, np.int16, np.uint16)
        for e in (False, True)
    ),
    case("CumulativeLogsumexp", f32(2, 4, 3), 1),
    case("CumulativeLogsumexp", f32(2, 4, 3, low=-80, high=80), 1, reverse=True),
    case("CumulativeLogsumexp", f32(2, 4), 1, exclusive=True),
    *(
        case("Mean", WHOLE.astype(kind), [1], keep_dims=False).named(np.dtype(kind).name)
        for kind in (np.int32, np.int64, np.int8, np.uint8, np.int16)
    ),
    case("Mean", np.int32([[2_000_000_000, 2_000_000_000], [1, 3]]), [1]).named("int32, whose sum runs over"),
    case("Sum", i32(2, 3, 4), np.int32(1), keep_dims=False).named("axis by data"),
    *(
        case(name, f32(2, 3, 4), np.array(axes, np.int32), keep_dims=True).named(f"{axes} by data")
        for name in ("Sum", "Prod", "Max", "Min", "Mean", "EuclideanNorm")
        for axes in ([], [-1, 0])
    ),
    case("ArgMax", f32(2, 3, 4), np.int32(1)).named("axis by data"),
    case("ArgMin", f32(2, 3, 4), np.int32(-1)).named("axis by data"),
    case("Cumprod", f32(3, 5), np.int32(0), reverse=True).named("axis by data"),
    case("CumulativeLogsumexp", f32(3, 5), np.int32(0), exclusive=True, reverse=True).named("axis by data"),
    case("Max", f32(2, 3, 4), np.array([0, 2], np.int32), keep_dims=True).named("axes by data"),
    case("Sum", WHOLE.astype(np.int8), [1], keep_dims=False).named("int8, which runs over"),
]


@pytest.mark.parametrize("row", params(ROWS, also_with_batch))
def test_operator(row: Case) -> None:
    check(row, dynamic=False)


@pytest.mark.parametrize("row", params(with_batch(ROWS)))
def test_operator_with_dynamic_batch(row: Case) -> None:
    check(row, dynamic=True)


@pytest.mark.parametrize("axes", [[1, 1], [1, -2]])
@pytest.mark.parametrize("operator", ["Sum", "Mean", "Max"])
def test_an_axis_that_is_named_twice_is_refused_as_by_tensorflow(operator: str, axes: list[int]) -> None:
    import tensorflow as tf

    with pytest.raises(tf.errors.InvalidArgumentError, match="duplicate"):
        getattr(tf.raw_ops, operator)(input=np.ones((2, 3, 4), np.float32), axis=axes)
    g = Graph()
    given = [g.input("x", ir.DataType.FLOAT, (2, 3, 4)), g.const(np.array(axes), ir.DataType.INT32)]
    with pytest.raises(Unsupported, match="which TensorFlow refuses"):
        tf_op.apply(g, operator, given, {"keep_dims": False})
