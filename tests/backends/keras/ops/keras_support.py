"""Runs rows of operator cases through the Keras backend, many to a file: written, loaded by Keras alone, and called."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir

from convert.graph.shape_inference import infer_facts
from convert.options import Options
from convert.report import Report
from tests.backends.tensorflow.ops.onnx_cases import Const
from tests.backends.tensorflow.ops.support import model_of
from tests.support.cases import Case
from tests.support.merged_cases import merged


def dynamic(model: onnx.ModelProto) -> onnx.ModelProto:
    """The first dim of every input of two dims or more is unknown, inputs of the same length having the same one."""
    for value in model.graph.input:
        shape = value.type.tensor_type.shape
        if len(shape.dim) > 1:
            shape.dim[0].dim_param = f"n{shape.dim[0].dim_value}"
    for value in model.graph.output:
        value.type.tensor_type.ClearField("shape")
    del model.graph.value_info[:]
    return onnx.shape_inference.infer_shapes(model, data_prop=True)


def shared(proto: onnx.ModelProto) -> ir.Model:
    """As the ONNX frontend hands it over."""
    model = ir.from_proto(proto)
    infer_facts(model)
    return model


def check(proto: onnx.ModelProto) -> None:
    """Raise what the backend says it cannot write."""
    from convert.backends import keras as room

    room.check(shared(proto), "keras", Options())


def run_together(rows: Sequence[Case], folder: Path, *, batch: bool) -> list[list[np.ndarray]]:
    """The outputs of each row: all rows of one opset are one model, which is written, loaded and called."""
    found: dict[int, list[np.ndarray]] = {}
    by_opset: dict[int, list[tuple[int, onnx.ModelProto]]] = {}
    for i, row in enumerate(rows):
        model = dynamic(model_of(row)) if batch else model_of(row)
        by_opset.setdefault(model.opset_import[0].version, []).append((i, model))
    for opset, members in by_opset.items():
        outputs = _run(merged(members, opset), _feeds(rows, members), folder / f"{opset}.keras")
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


def _run(proto: onnx.ModelProto, feeds: dict[str, np.ndarray], path: Path) -> dict[str, np.ndarray]:
    import keras
    from convert.backends import keras as room

    room.write(shared(proto), path, "keras", Options(), Report("convert"))
    model = keras.saving.load_model(path)
    outputs = keras.tree.flatten(model(feeds, training=False))
    return dict(zip(model.output_names, map(np.asarray, outputs), strict=True))
