"""Rows of the TensorFlow backend's table: products, attention, recurrent and quantised layers, control flow."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import TensorProto, helper

from tests.backends.tensorflow.ops.onnx_cases import HALVES, const, number
from tests.support.cases import boolean, case, f32, f64, i32, i64

LINALG = [
    case("MatMul", f32(2, 3), f32(3, 4)),
    case("MatMul", f32(3), f32(3, 4)),
    case("MatMul", f32(2, 3), f32(3)),
    case("MatMul", f32(3), f32(3)),
    case("MatMul", f32(2, 1, 3, 4), f32(5, 4, 2)),
    case("MatMul", i32(2, 3), i32(3, 4)),
    case("MatMul", f32(2, 5, 3), const(f32(3, 4))),
    case("MatMul", f64(2, 3), f64(3, 4)),
    case("Gemm", f32(2, 3), f32(3, 4)),
    case("Gemm", f32(2, 3), const(f32(4, 3)), const(f32(4)), transB=1),
    case("Gemm", f32(3, 2), f32(4, 3), f32(1, 4), transA=1, transB=1, alpha=0.5, beta=2.0),
    case("Gemm", f32(3, 2), const(f32(3, 4)), const(f32(1, 4)), transA=1),
    case("Gemm", f32(2, 3), f32(3, 4), f32(2, 1)),
    case("Gemm", f32(3, 2), const(f32(3, 4)), const(f32(4)), transA=1),
    case("Gemm", f32(2, 3), f32(3, 4), number(2)),
    case("Einsum", f32(2, 3, 4), f32(2, 4, 5), equation="bij, bjk -> bik"),
    case("Einsum", f32(3, 3), equation="ii->i"),
    case("Einsum", f32(2, 3, 4), f32(3, 4), equation="...ij,ij->...i"),
    *(case("Attention", f32(2, 3, 4, 8), f32(2, 3, 6, 8), f32(2, 3, 6, 5), is_causal=c) for c in (0, 1)),
    case("Attention", f32(2, 4, 24), f32(2, 6, 12), f32(2, 6, 8), q_num_heads=4, kv_num_heads=2, scale=0.3),
    case("Attention", f32(2, 3, 4, 8), f32(2, 3, 6, 8), f32(2, 3, 6, 5), f32(4, 6)),
    case("Attention", f32(2, 3, 4, 8), f32(2, 3, 6, 8), f32(2, 3, 6, 5), boolean(2, 1, 4, 6), softcap=2.0),
    case(
        "Attention",
        f32(1, 2, 3, 8),
        f32(1, 2, 3, 8),
        f32(1, 2, 3, 8),
        None,
        f32(1, 2, 4, 8),
        f32(1, 2, 4, 8),
        is_causal=1,
        _outputs=3,
    ),
]

QUANTIZE = [
    case("QuantizeLinear", f32(2, 3, low=-9, high=9), number(0.05), number(3, np.uint8)),
    case("QuantizeLinear", HALVES, number(1.0), number(0, np.int8)),
    case("QuantizeLinear", f32(2, 3, 4), f32(3, low=0.01), const(np.zeros(3, np.int8)), axis=1),
    case("QuantizeLinear", f32(2, 3), number(0.05)),
    case("DequantizeLinear", i64(2, 3, low=0, high=255).astype(np.uint8), number(0.05), number(128, np.uint8)),
    case("DequantizeLinear", i32(2, 3), number(0.05)),
    case(
        "DequantizeLinear", i64(2, 3, 4).astype(np.int8), f32(3, low=0.01), const(np.array([1, 2, 3], np.int8)), axis=1
    ),
    case("DequantizeLinear", i64(6, 4).astype(np.int8), f32(3, 4, low=0.01), axis=0, block_size=2),
]


def rnn(
    operator: str,
    gates: int,
    directions: int = 1,
    layout: int = 0,
    peepholes: bool = False,
    lengths: bool = False,
    **attributes: Any,
):
    """A recurrent layer over 5 steps of 3 sequences of 4 numbers, with 6 hidden ones."""
    x = f32(3, 5, 4) if layout else f32(5, 3, 4)
    state = f32(3, directions, 6) if layout else f32(directions, 3, 6)
    inputs = [
        x,
        const(f32(directions, gates * 6, 4)),
        const(f32(directions, gates * 6, 6)),
        const(f32(directions, gates * 12)),
        np.array([5, 2, 3], np.int32) if lengths else None,
        state,
    ]
    if operator == "LSTM":
        inputs += [state, const(f32(directions, 18)) if peepholes else None]
    return case(
        operator,
        *inputs,
        hidden_size=6,
        direction="bidirectional" if directions == 2 else "forward",
        layout=layout,
        _outputs=3 if operator == "LSTM" else 2,
        **attributes,
    )


RECURRENT = [
    *(
        rnn(name, gates, directions, lengths=lengths)
        for name, gates in (("RNN", 1), ("GRU", 3), ("LSTM", 4))
        for directions, lengths in ((1, False), (2, True))
    ),
    rnn("LSTM", 4, peepholes=True),
    rnn("LSTM", 4, 2, clip=0.5),
    rnn("GRU", 3, linear_before_reset=1),
    rnn("LSTM", 4, input_forget=1),
    case("LSTM", f32(5, 3, 4), f32(1, 24, 4), const(f32(1, 24, 6)), hidden_size=6, direction="reverse", _outputs=3),
    rnn("RNN", 1, activations=["LeakyRelu"], activation_alpha=[0.2]),
    rnn("GRU", 3, activations=["HardSigmoid", "Softsign"]),
]


def graph(name: str, nodes: list, inputs: list, outputs: list):
    """A subgraph."""
    return helper.make_graph(nodes, name, inputs, outputs)


def value(name: str, shape: list | None = None, dtype: int = TensorProto.FLOAT):
    return helper.make_tensor_value_info(name, dtype, shape)


u8 = i64(2, 4, 5, 5, low=0, high=255).astype(np.uint8)
QUANTIZED = [
    case(
        "MatMulInteger",
        i64(3, 4, low=0, high=255).astype(np.uint8),
        i64(4, 5).astype(np.int8),
        number(7, np.uint8),
        number(1, np.int8),
    ),
    case(
        "MatMulInteger", i64(3, 4, low=0, high=255).astype(np.uint8), const(i64(4, 5, low=0, high=255).astype(np.uint8))
    ),
    case(
        "ConvInteger",
        u8,
        const(i64(3, 4, 3, 3, low=0, high=9).astype(np.uint8)),
        number(3, np.uint8),
        pads=[1, 1, 1, 1],
    ),
    case(
        "QLinearMatMul",
        i64(3, 4, low=0, high=255).astype(np.uint8),
        number(0.02),
        number(9, np.uint8),
        i64(4, 5, low=0, high=255).astype(np.uint8),
        number(0.03),
        number(100, np.uint8),
        number(0.5),
        number(99, np.uint8),
    ),
    case(
        "QLinearConv",
        u8,
        number(0.02),
        number(9, np.uint8),
        const(i64(3, 4, 3, 3, low=0, high=255).astype(np.uint8)),
        number(0.03),
        const(number(100, np.uint8)),
        number(0.5),
        number(99, np.uint8),
        const(i32(3)),
        strides=[2, 2],
    ),
]

SAMPLING = [
    *(
        case(
            "GridSample",
            f32(2, 3, 4, 5),
            f32(2, 3, 6, 2, low=-1.4, high=1.4),
            mode=mode,
            padding_mode=padding,
            align_corners=align,
        )
        for mode in ("linear", "nearest", "cubic")
        for padding in ("zeros", "border", "reflection")
        for align in (0, 1)
    ),
    case("GridSample", f32(1, 2, 3, 4, 5), f32(1, 2, 3, 2, 3, low=-1.2, high=1.2)),
    case(
        "NonMaxSuppression",
        f32(2, 6, 4, low=0, high=1),
        f32(2, 3, 6, low=0, high=1),
        number(3, np.int64),
        number(0.2),
        number(0.1),
    ),
    case(
        "NonMaxSuppression",
        f32(1, 6, 4, low=0.2, high=1),
        f32(1, 2, 6, low=0, high=1),
        const([9]),
        const(np.array([0.3], np.float32)),
        center_point_box=1,
    ),
]

CONTROL = [
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

CASES = [*LINALG, *QUANTIZE, *RECURRENT, *QUANTIZED, *SAMPLING, *CONTROL]
