"""Runs rows of operators through the Keras backend, many to a file: written, loaded by Keras alone, and called."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import TensorProto

pytest.importorskip("keras", reason="the Keras backend writes with Keras")
from convert.backends import keras as backend
from convert.backends.keras.emitter import IN_32_BITS
from convert.backends.keras.limits import declared_reasons
from convert.backends.keras.rules import onnx_op as table

from convert.errors import Unsupported
from convert.graph.shape_inference import infer_facts
from convert.outcome.report import Report
from convert.request.options import Options
from tests.backends.tensorflow.ops.onnx_cases import Const
from tests.backends.tensorflow.ops.support import assert_same, expected, model_of
from tests.support.cases import Case, rows_of_package
from tests.support.merged_cases import merged

backend.operators("keras")

NUMBERS: dict[str, tuple[int, ...]] = {
    "Compress": (1,),
    "CumSum": (1,),
    "LSTM": (1, 2),
    "OneHot": (1,),
    "Pad": (1, 2, 3),
    "ReduceSum": (1,),
    "Slice": (3, 4),
    "Split": (1,),
    "Squeeze": (1,),
    "Tile": (1,),
    "TopK": (1,),
    "Trilu": (1,),
    "Unsqueeze": (1,),
}
"""Inputs that Keras takes as numbers, not as tensors: axes, pads, counts. Rows that compute them are refused."""
WITHOUT_LAYER: dict[str, Callable[[Case], Any]] = {
    "Cast": lambda row: row.attributes["to"] == TensorProto.STRING or row.inputs[0].dtype.kind == "U",
    "ConvTranspose": lambda row: isinstance(row.inputs[1], np.ndarray),
    "MaxPool": lambda row: "_outputs" in row.attributes,
    "ReduceMax": lambda row: row.inputs[0].size == 0,
    "ReduceMin": lambda row: row.inputs[0].size == 0,
}
"""Cases that no layer and no operation of Keras covers: indices of a MaxPool, blocks of scales …"""
LENGTH_UNKNOWN: dict[str, Callable[[Case], Any]] = {
    "RNN": lambda row: "activation_alpha" in row.attributes,
    "LSTM": lambda row: {"clip", "input_forget"} & set(row.attributes) or row.inputs[7:] not in ((), (None,)),
    "GRU": lambda row: "HardSigmoid" in row.attributes.get("activations", ()),
    "GatherElements": lambda row: row.attributes.get("axis") and len(row.inputs[0]) != len(row.inputs[1]),
    "ReverseSequence": lambda row: row.attributes["time_axis"] == 0,
    "ScatterElements": lambda row: row.inputs[0].ndim > 1,
}
"""Cases that need the length of a dim as a number."""


def refused(row: Case, batch: bool) -> bool:
    """Return whether the backend must report that Keras has no form for this row."""
    if any(isinstance(row.inputs[i], np.ndarray) for i in NUMBERS.get(row.operator, ()) if i < len(row.inputs)):
        return True
    if row.operator in IN_32_BITS and any(isinstance(x, np.ndarray) and x.dtype == np.uint64 for x in row.inputs):
        return True
    tables = (WITHOUT_LAYER, LENGTH_UNKNOWN) if batch else (WITHOUT_LAYER,)
    return any(bool(t[row.operator](row)) for t in tables if row.operator in t)


@dataclass(frozen=True)
class Outcomes:
    """Keras's outputs by the id of a row. batch: whether the first dims of the rows are unknown."""

    batch: bool
    found: dict[int, list[np.ndarray]]


def shared_rows(test_module: str) -> list[Case]:
    """Return the rows of ONNX operators whose rules are in the module that corresponds to a test module."""
    rules = f"convert.backends.keras.ops.{test_module.rpartition('.test_')[2]}"
    rows = rows_of_package("tests.backends.tensorflow.ops")
    return [row for row in rows if row.operator in table and table.entries[row.operator].rule.__module__ == rules]


def check(row: Case, outcomes: Outcomes) -> None:
    """Assert that Keras returns what onnxruntime returns, or that the row is refused."""
    if refused(row, outcomes.batch):
        with pytest.raises(Unsupported) as caught:
            check_model(dynamic(model_of(row)) if outcomes.batch else model_of(row))
        assert declared_reasons((p.at.operator, p.why) for p in caught.value.problems), caught.value
    else:
        assert_same(outcomes.found[id(row)], expected(row))


def dynamic(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return the model with an unknown first dim of every input of two dims or more; inputs of equal length share its
    name.
    """
    for value in model.graph.input:
        shape = value.type.tensor_type.shape
        if len(shape.dim) > 1:
            shape.dim[0].dim_param = f"n{shape.dim[0].dim_value}"
    for value in model.graph.output:
        value.type.tensor_type.ClearField("shape")
    del model.graph.value_info[:]
    return onnx.shape_inference.infer_shapes(model, data_prop=True)


def _without_made_names(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return the model without inferred names of dims, because another row may use the same name for another size."""
    for value in (*model.graph.value_info, *model.graph.output):
        for dim in value.type.tensor_type.shape.dim:
            if dim.dim_param.startswith("unk__"):
                dim.ClearField("dim_param")
    return model


def shared(proto: onnx.ModelProto) -> ir.Model:
    """Return the model as the ONNX frontend reads it."""
    model = ir.from_proto(proto)
    infer_facts(model)
    return model


def check_model(proto: onnx.ModelProto) -> None:
    """Raise the backend's error for operators that it cannot write."""
    backend.check(shared(proto), "keras", Options())


def run_together(rows: Sequence[Case], folder: Path, *, batch: bool, as_graph: bool = False) -> list[list[np.ndarray]]:
    """Return the outputs of each row: all rows of one opset become one model, which is written, loaded and called."""
    found: dict[int, list[np.ndarray]] = {}
    by_opset: dict[int, list[tuple[int, onnx.ModelProto]]] = {}
    for i, row in enumerate(rows):
        model = _without_made_names(dynamic(model_of(row)) if batch else model_of(row))
        by_opset.setdefault(model.opset_import[0].version, []).append((i, model))
    for opset, members in by_opset.items():
        outputs = _run(
            merged(members, opset), _feeds(rows, members), folder / f"{opset}.keras", as_graph=batch or as_graph
        )
        for i, model in members:
            found[i] = [outputs[f"c{i}_{y.name}"] for y in model.graph.output]
    return [found[i] for i in range(len(rows))]


def _feeds(rows: Sequence[Case], members: Sequence[tuple[int, onnx.ModelProto]]) -> dict[str, np.ndarray]:
    return {
        f"c{i}_x{place}": x
        for i, _ in members
        for place, x in enumerate(rows[i].inputs)
        if x is not None and not isinstance(x, Const)
    }


def _run(proto: onnx.ModelProto, feeds: dict[str, np.ndarray], path: Path, *, as_graph: bool) -> dict[str, np.ndarray]:
    """Run the model. as_graph: traced with the declared dims, as `predict` does, so that unknown dims have no
    number.
    """
    import keras
    import tensorflow as tf

    backend.write(shared(proto), path, "keras", Options(), Report("convert"))
    model = keras.saving.load_model(path)
    signature = {i.name: tf.TensorSpec(i.shape, i.dtype, i.name) for i in model.inputs}
    call = tf.function(model, input_signature=[signature]) if as_graph else model
    outputs = keras.tree.flatten(call(feeds))
    return dict(zip(model.output_names, map(np.asarray, outputs), strict=True))
