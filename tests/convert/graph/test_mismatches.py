"""Contradictions that ONNX's inference misses are found, and models that onnxruntime runs are accepted."""

from __future__ import annotations

import re
from typing import Any, TypeAlias

import numpy as np
import onnx_ir as ir
import onnxruntime
import pytest

from convert.graph import Graph
from convert.graph.mismatches import first_mismatch

F = np.float32
Row: TypeAlias = "tuple[str, tuple[int, ...], list[Any], dict[str, Any], list[Any], str]"
ROWS: dict[str, Row] = {
    # operator, shape of x, operands that do not fit, attributes, operands that fit, words of the message
    "channels": ("Conv", (1, 3, 8, 8), [np.ones((4, 5, 3, 3), F)], {}, [np.ones((4, 3, 3, 3), F)], "3 channels"),
    "groups": ("Conv", (1, 4, 8), [np.ones((4, 4, 3), F)], {"group": 2}, [np.ones((4, 2, 3), F)], "weights for 8"),
    "bias": ("Conv", (1, 3, 8), [np.ones((4, 3, 3), F), np.ones(3, F)], {}, [np.ones((4, 3, 3), F), np.ones(4, F)],
             "a bias of 3"),
    "transposed": ("ConvTranspose", (1, 3, 8), [np.ones((4, 3, 3), F)], {}, [np.ones((3, 4, 3), F)], "weights for 4"),
    "places": ("Gather", (3, 5), [np.array([0, 3])], {}, [np.array([-3, 2])], "places 0 to 3 of 3"),
    "columns": ("Gemm", (2, 3), [np.ones((3, 5), F), np.ones(4, F)], {}, [np.ones((3, 5), F), np.ones(5, F)],
                "columns, and a bias of 4"),
    "columns transposed": ("Gemm", (2, 3), [np.ones((5, 3), F), np.ones(3, F)], {"transB": 1},
                           [np.ones((5, 3), F), np.ones(1, F)], "a bias of 3"),
    "layer": ("LayerNormalization", (2, 3), [np.ones(5, F)], {}, [np.ones(3, F)], "3 elements, and weights for 5"),
    "features": ("LSTM", (2, 1, 3), [np.ones((1, 16, 7), F), np.ones((1, 16, 4), F)], {"hidden_size": 4},
                 [np.ones((1, 16, 3), F), np.ones((1, 16, 4), F)], "3 features, and weights for 7"),
    "an axis": ("CumSum", (2, 3), [np.int64(-3)], {}, [np.int64(-2)], "axis -3 of 2 dims"),
    "no step": ("STFT", (1, 16, 1), [np.int64(0), np.ones(8, F)], {}, [np.int64(1), np.ones(8, F)], "a step of 0"),
    "frames": ("STFT", (1, 16, 1), [np.int64(4), np.ones(17, F)], {}, [np.int64(4), np.ones(16, F)],
               "16 samples, and frames of 17"),
    "frames by a number": ("STFT", (1, 16, 1), [np.int64(4), None, np.int64(17)], {},
                           [np.int64(4), None, np.int64(16)], "16 samples, and frames of 17"),
    "elements": ("Reshape", (2, 3), [np.array([5, 7])], {}, [np.array([0, -1])], r"6 elements, and the shape \[5, 7\]"),
}  # fmt: skip


def _model(operator: str, shape: tuple[Any, ...], more: list[Any], attributes: dict[str, Any]) -> ir.Model:
    g = Graph()
    x = g.input("x", ir.DataType.FLOAT, shape)
    g.output(g.node(operator, [x, *more], attributes), "y")
    return g.model()


def _runs(model: ir.Model, shape: tuple[int, ...]) -> bool:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    model.graph.outputs[0].shape = None
    proto = ir.serde.serialize_model(model)
    proto.ir_version = 10
    try:
        session = onnxruntime.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"])
        session.run(None, {"x": np.ones(shape, F)})
    except Exception:
        return False
    return True


@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS)
def test_what_onnxruntime_does_not_run(row: Row) -> None:
    operator, shape, wrong, attributes, right, reason = row
    model = _model(operator, shape, wrong, attributes)
    assert re.search(reason, first_mismatch(model))
    assert not _runs(model, shape)
    model = _model(operator, shape, right, attributes)
    assert not first_mismatch(model)
    assert _runs(model, shape)


@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS)
def test_what_is_open_may_fit(row: Row) -> None:
    operator, shape, wrong, attributes, _, reason = row
    if not any(word in reason for word in ("columns", "bias", "axis", "step")):
        assert not first_mismatch(_model(operator, tuple(f"d{i}" for i in range(len(shape))), wrong, attributes))


@pytest.mark.parametrize("rank", [2, 4])
def test_a_signal_has_three_dims(rank: int) -> None:
    """onnxruntime also runs a signal of two dims, for which ONNX's specification defines no meaning."""
    found = first_mismatch(_model("STFT", (16,) * rank, [np.int64(4), np.ones(8, F)], {}))
    assert f"a signal of {rank} dims" in found


@pytest.mark.parametrize("axes", [{"time_axis": 7}, {"batch_axis": 0}, {"time_axis": 1}])
def test_sequences_are_reversed_along_the_first_two_axes(axes: dict[str, int]) -> None:
    model = _model("ReverseSequence", (4, 4), [np.array([4, 3, 2, 1])], axes)
    assert "the axis of batches" in first_mismatch(model)
    assert not _runs(model, (4, 4))
    assert not first_mismatch(_model("ReverseSequence", (4, 4), [np.array([4, 3, 2, 1])], {}))
