"""Each rule of the Keras backend against onnxruntime: written into a file, loaded by Keras alone, and called."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto

pytest.importorskip("keras", reason="the Keras backend writes with Keras")
from convert.backends import keras as room
from convert.backends.keras import ops  # noqa: F401
from convert.backends.keras.limits import declared_reasons
from convert.backends.keras.rules import onnx_op as table

from convert.errors import Unsupported
from tests.backends.keras.ops.keras_support import check, dynamic, run_together
from tests.backends.tensorflow.ops.onnx_cases import const
from tests.backends.tensorflow.ops.support import assert_same, expected, model_of
from tests.support.cases import Case, case, f32, i64, params, rows_of_package

room.operators("keras")
CASES = rows_of_package("tests.backends.tensorflow.ops")

MORE = [
    case(
        "LSTM", f32(5, 3, 4), const(f32(1, 24, 4)), const(f32(1, 24, 6)), hidden_size=6, direction="reverse", _outputs=3
    ),
    case("GRU", f32(3, 5, 4), const(f32(1, 18, 4)), const(f32(1, 18, 6)), hidden_size=6, layout=1, _outputs=2),
    case(
        "RNN", f32(5, 3, 4), const(f32(1, 6, 4)), const(f32(1, 6, 6)), hidden_size=6, activations=["Relu"], _outputs=2
    ),
    case("PRelu", f32(2, 3, 4, 5), const(f32(3, 1, 1))),
    case("Clip", f32(2, 9), const(np.array(0, np.float32)), const(np.array(6, np.float32))),
    case("BatchNormalization", f32(2, 3, 4, 5), *(const(f32(3, low=0.5)) for _ in range(4))),
    case("GroupNormalization", f32(2, 6, 4, 5), const(f32(6)), const(f32(6)), num_groups=3),
    case("InstanceNormalization", f32(2, 3, 4, 5), const(f32(3)), const(f32(3)), epsilon=1e-3),
    case("LayerNormalization", f32(2, 3, 8), const(f32(8)), const(f32(8))),
    case("RMSNormalization", f32(2, 3, 8), const(f32(8))),
    case("Range", *(const(n, np.int64) for n in (10, 3, -2))),
    case("Compress", f32(3, 4), const(np.array([True, False, True])), axis=0),
    case("DynamicQuantizeLinear", f32(3, 4), _outputs=3),
    case("OneHot", i64(2, 3), const(np.array(6)), const(np.array([0.5, 2], np.float32)), axis=-2).named("axis -2"),
    *(case("Trilu", f32(4, 5), const(np.array(n)), upper=u).named(f"{n} {u}") for n in (-5, 6) for u in (0, 1)),
    case("Gather", const(f32(7, 4)), i64(2, 3, low=-7, high=7)).named("embedding"),
    case("Add", f32(2, 3, 5), const(f32(3, 5))).named("parameter"),
    case("Conv", f32(2, 4, 7, 8), f32(6, 2, 3, 3), f32(6), group=2, pads=[1, 0, 1, 2]).named("computed kernel"),
]
ROWS = params([*(row for row in CASES if row.operator in table), *MORE])

NUMBERS: dict[str, tuple[int, ...]] = {
    "Compress": (1,),
    "ConstantOfShape": (0,),
    "CumSum": (1,),
    "Expand": (1,),
    "LSTM": (1, 2),
    "OneHot": (1,),
    "Pad": (1, 2, 3),
    "Range": (0, 1, 2),
    "ReduceSum": (1,),
    "Reshape": (1,),
    "Resize": (2, 3),
    "Slice": (1, 2, 3, 4),
    "Split": (1,),
    "Squeeze": (1,),
    "Tile": (1,),
    "TopK": (1,),
    "Trilu": (1,),
    "Unsqueeze": (1,),
}
"""Inputs that Keras takes as numbers, not as tensors: axes, shapes, counts. Rows that compute them are refused."""
WITHOUT_LAYER: dict[str, Callable[[Case], Any]] = {
    "Cast": lambda row: row.attributes["to"] == TensorProto.STRING or row.inputs[0].dtype.kind == "U",
    "ConvTranspose": lambda row: isinstance(row.inputs[1], np.ndarray),
    "DequantizeLinear": lambda row: "block_size" in row.attributes,
    "GatherND": lambda row: "batch_dims" in row.attributes,
    "GRU": lambda row: "HardSigmoid" in row.attributes.get("activations", ()),
    "LSTM": lambda row: {"clip", "input_forget"} & set(row.attributes) or row.inputs[7:] not in ((), (None,)),
    "LayerNormalization": lambda row: "_outputs" in row.attributes,
    "LpPool": lambda row: row.attributes.get("auto_pad") == "SAME_UPPER",
    "MaxPool": lambda row: "_outputs" in row.attributes,
    "RNN": lambda row: "activation_alpha" in row.attributes,
    "Resize": lambda row: row.attributes.get("coordinate_transformation_mode") == "tf_crop_and_resize",
    "Shrink": lambda row: row.inputs[0].dtype.kind == "i",
}
"""What no layer and no operation has: clipped cells, indices of a MaxPool, blocks of scales …"""
LENGTH_UNKNOWN: dict[str, Callable[[Case], Any]] = {
    "Resize": lambda row: row.inputs[3:] not in ((), (None,)) and "axes" not in row.attributes,
    "ReverseSequence": lambda row: row.attributes["time_axis"] == 0,
    "ScatterElements": lambda row: row.inputs[0].ndim > 1,
}
"""What needs the length of a dim as a number."""


def refused(row: Case, batch: bool) -> bool:
    """Whether the backend must say that Keras has no form for this row."""
    if any(isinstance(row.inputs[i], np.ndarray) for i in NUMBERS.get(row.operator, ()) if i < len(row.inputs)):
        return True
    tables = (WITHOUT_LAYER, LENGTH_UNKNOWN) if batch else (WITHOUT_LAYER,)
    return any(bool(t[row.operator](row)) for t in tables if row.operator in t)


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, bool], list[np.ndarray]]:
    """What Keras makes of every row with static and with dynamic lengths: files of many rows are quick to load."""
    found = {}
    for batch in (False, True):
        rows = [p for p in ROWS if not refused(p.values[0], batch)]
        outputs = run_together([p.values[0] for p in rows], tmp_path_factory.mktemp("keras"), batch=batch)
        found.update({(str(p.id), batch): y for p, y in zip(rows, outputs, strict=True)})
    return found


@pytest.mark.parametrize("row", ROWS)
def test_operator(row: Case, request: pytest.FixtureRequest, outcomes: dict) -> None:
    name = request.node.callspec.id
    for batch in (False, True):
        if refused(row, batch):
            with pytest.raises(Unsupported) as caught:
                check(dynamic(model_of(row)) if batch else model_of(row))
            assert declared_reasons((p.at.operator, p.why) for p in caught.value.problems), caught.value
        else:
            assert_same(outcomes[name, batch], expected(row))


@pytest.mark.parametrize("row", params([row for row in CASES if row.operator in table.gaps]))
def test_gaps_are_refused_by_name(row: Case) -> None:
    with pytest.raises(Unsupported) as caught:
        check(model_of(row))
    assert table.gaps[row.operator] in str(caught.value) or "STRING" in str(caught.value)


def test_every_rule_has_a_case() -> None:
    rules = {operator for operator in table.entries if not operator.startswith("convert.")}
    assert rules - {p.values[0].operator for p in ROWS if not refused(p.values[0], False)} == set()
    assert len(rules) >= 140


@pytest.mark.parametrize("shapes", [((4, 4), (4, 1)), ((1, 4), (4, 1)), ((3, 4, 4), (1, 4, 1)), ((2, 4, 4, 6), (4, 1))])
def test_sums_whose_second_operand_keras_would_take_for_a_bias(shapes: tuple, tmp_path) -> None:
    row = case("Add", *(f32(*shape) for shape in shapes))
    for batch in (False, True):
        folder = tmp_path / str(batch)
        folder.mkdir()
        (got,) = run_together([row], folder, batch=batch)
        assert_same(got, expected(row))
