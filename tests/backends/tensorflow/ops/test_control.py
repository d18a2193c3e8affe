"""The rules of `backends/tensorflow/ops/control.py` against onnxruntime."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto, helper

from tests.backends.tensorflow.ops.onnx_cases import number
from tests.backends.tensorflow.ops.worker import Workers, check, on_both_kernel_sets
from tests.support.cases import Case, case, f32, params


def graph(name: str, nodes: list, inputs: list, outputs: list):
    """A subgraph."""
    return helper.make_graph(nodes, name, inputs, outputs)


def value(name: str, shape: list | None = None, dtype: int = TensorProto.FLOAT):
    return helper.make_tensor_value_info(name, dtype, shape)


ROWS = [
    case(
        "Scan",
        f32(3),
        f32(5, 3),
        num_scan_inputs=1,
        _outputs=2,
        body=graph(
            "body",
            [helper.make_node("Add", ["s", "x"], ["s2"]), helper.make_node("Relu", ["s2"], ["y"])],
            [value("s", [3]), value("x", [3])],
            [value("s2", [3]), value("y", [3])],
        ),
    ),
    *(
        case(
            "If",
            number(flag, np.bool_),
            then_branch=graph(
                "then", [helper.make_node("Constant", [], ["a"], value_floats=[1.0, 2.0])], [], [value("a", [2])]
            ),
            else_branch=graph(
                "else", [helper.make_node("Constant", [], ["b"], value_floats=[3.0, 4.0, 5.0])], [], [value("b", [3])]
            ),
        ).named(str(flag))
        for flag in (True, False)
    ),
    *(
        case(
            "Loop",
            trips,
            going,
            f32(2, 3),
            body=graph(
                "body",
                [
                    helper.make_node("Identity", ["c"], ["c2"]),
                    helper.make_node("Add", ["v", "v"], ["v2"]),
                    helper.make_node("Relu", ["v2"], ["s"]),
                ],
                [value("i", [], TensorProto.INT64), value("c", [], TensorProto.BOOL), value("v", [2, 3])],
                [value("c2", [], TensorProto.BOOL), value("v2", [2, 3]), value("s", [2, 3])],
            ),
            _outputs=2,
        ).named(label)
        for label, trips, going in (
            ("three", number(3, np.int64), None),
            ("none", number(0, np.int64), number(True, np.bool_)),
        )
    ),
]


@on_both_kernel_sets
@pytest.mark.parametrize("row", params(ROWS))
def test_operator(row: Case, onednn: str, variants: tuple[int, ...], workers: Workers) -> None:
    check(row, workers[onednn], variants)
