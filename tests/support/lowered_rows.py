"""The rows of ONNX operators that backends share, with each operator replaced by its lowering."""

from __future__ import annotations

from collections.abc import Iterator

import ml_dtypes
import numpy as np
import onnx
import onnx_ir as ir

from convert.graph.shape_inference import infer_facts
from convert.legalize.table import LEARNERS, LOWERINGS
from convert.legalize.write_out import write_out
from tests.backends.tensorflow.ops.onnx_cases import Const
from tests.backends.tensorflow.ops.support import model_of
from tests.support.cases import Case, case, f32, i64, rows_of_package

_FOLD = Const(np.array([4, 5])), Const(np.array([2, 3]))
_STEPS, _TABLE = f32(2, 5, 3), f32(2, 5, 2)


def _layer(operator: str, gates: int) -> Case:
    """Return a row of a recurrent layer of four units with the batch first."""
    weights = Const(f32(1, 4 * gates, 3)), Const(f32(1, 4 * gates, 4))
    return case(operator, _STEPS, *weights, hidden_size=4, layout=1, _outputs=2)


ROWS = [
    case("Col2Im", f32(2, 12, 9), *_FOLD),
    case("Col2Im", f32(1, 6, 8), *_FOLD, pads=[0, 1, 1, 0], strides=[2, 1]),
    case("Col2Im", f32(1, 8, 5), Const(np.array([6])), Const(np.array([2]))),
    case("CenterCropPad", f32(5, 6), Const(np.array([3, 8]))),
    case("CenterCropPad", f32(2, 5, 6), Const(np.array([7, 3])), axes=[1, -1]),
    case("RotaryEmbedding", f32(2, 3, 5, 4), _TABLE, f32(2, 5, 2, low=-1)),
    case("RotaryEmbedding", f32(2, 5, 12), _TABLE, f32(2, 5, 2, low=-1), num_heads=3, interleaved=1),
    case("RotaryEmbedding", f32(2, 3, 5, 6), f32(9, 2), f32(9, 2, low=-1), i64(2, 5, low=0, high=9),
         rotary_embedding_dim=4),
    case("AffineGrid", f32(2, 2, 3), Const(np.array([2, 3, 4, 5]))),
    case("AffineGrid", f32(2, 2, 3), Const(np.array([2, 3, 4, 5])), align_corners=1),
    case("AffineGrid", f32(1, 3, 4), Const(np.array([1, 2, 3, 4, 2])), align_corners=1),
    case("DFT", f32(2, 8, 1), Const(np.array(8)), Const(np.array(1))),
    case("DFT", f32(2, 6, 2), None, Const(np.array(1)), inverse=1),
    case("STFT", f32(2, 16, 1), Const(np.array(4)), Const(f32(8, low=0.5)), Const(np.array(8))),
    _layer("LSTM", 4),
    _layer("GRU", 3),
    _layer("RNN", 1),
    case("Equal", f32(4, 3), np.round(f32(4, 3))),
    case("Equal", *np.array([[0, -0.0, np.nan, np.inf, 1], [-0.0, 0, np.nan, np.inf, 2]], np.float32)),
    case("DequantizeLinear", i64(4, 6).astype(np.int8), f32(4, 2, low=0.1), axis=1, block_size=3),
    case("QuantizeLinear", f32(4, 6, low=-9, high=9), f32(2, 6, low=0.1), axis=0, block_size=2),
    case("QuantizeLinear", f32(4, 6, low=-9, high=9), f32(1, low=0.9), Const(np.array([3], np.int16))),
    *(
        case("QuantizeLinear", f32(4, 6, low=-9, high=9), f32(6, low=0.9), Const(np.arange(6).astype(dtype)))
        for dtype in (ml_dtypes.int4, ml_dtypes.uint4, np.uint16)
    ),
    *(
        case("DequantizeLinear", np.arange(6).astype(dtype), f32(6, low=0.9), axis=0)
        for dtype in (ml_dtypes.int4, ml_dtypes.uint4, np.int16, ml_dtypes.float8_e5m2)
    ),
    case("DequantizeLinear", i64(4, 6, low=-32768, high=32767).astype(np.int16), f32(6).astype(np.float16),
         Const(np.arange(6).astype(np.int16))),
]  # fmt: skip
"""Rows that the shared tables lack: operators without a rule in some backend, and constant sizes."""


def lowered_rows() -> Iterator[tuple[Case, onnx.ModelProto]]:
    """Return each row that a lowering accepts, with its lowered one-node model."""
    for row in (*rows_of_package("tests.backends.tensorflow.ops"), *ROWS):
        if row.operator in LOWERINGS and row.operator not in LEARNERS:
            model = lowered(row)
            if model is not None:
                yield row, model


def lowered(row: Case) -> onnx.ModelProto | None:
    """Return the model of a row with its node lowered, or None if the lowering does not accept it."""
    model = ir.from_proto(model_of(row))
    infer_facts(model)
    (node,) = model.graph
    if not write_out(model, lambda one: one is not node) or node.graph is not None:
        return None
    return ir.to_proto(model)
