"""How a TensorFlow Lite file stores numbers is derived from most of its constants, not from one of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ai_edge_litert import schema_py_generated as schema
from convert.frontends.tensorflow.lite import runner

from convert.request.source import Source
from convert.request.stored import FULL, HALF, WEIGHTS, WIDE
from tests.frontends.tensorflow.lite.ops.lite_files import packed

F32, F16, INT8, INT16 = np.float32, np.float16, np.int8, np.int16


def file(path: Path, constants: list[tuple[type, int]], activations: type | None = None) -> Source:
    """Return a file of constants of these dtypes and sizes, and of activations; integers have scales."""
    kinds: dict[type, Any] = {F32: schema.TensorType.FLOAT32, F16: schema.TensorType.FLOAT16}
    kinds |= {INT8: schema.TensorType.INT8, INT16: schema.TensorType.INT16}
    model, graph = schema.ModelT(), schema.SubGraphT()
    model.version, model.subgraphs, model.buffers, graph.tensors = 3, [graph], [schema.BufferT()], []
    model.operatorCodes = []
    graph.operators, graph.inputs, graph.outputs = [], [], []
    for dtype, size in [*constants, *([(activations, 0)] if activations else [])]:
        tensor = schema.TensorT()
        tensor.name, tensor.type, tensor.shape = f"t{len(graph.tensors)}", kinds[dtype], [size or 4]
        if dtype in (INT8, INT16):
            tensor.quantization = schema.QuantizationParametersT()
            tensor.quantization.scale, tensor.quantization.zeroPoint = [0.5], [0]
        if size:
            buffer = schema.BufferT()
            buffer.data = np.frombuffer(np.ones(size, dtype).tobytes(), np.uint8)
            model.buffers.append(buffer)
            tensor.buffer = len(model.buffers) - 1
        graph.tensors.append(tensor)
    path.write_bytes(packed(model))
    return Source("tflite", path)


@pytest.mark.parametrize(
    ("constants", "stored"),
    [
        ([], ""),
        ([(F32, 100)], ""),
        ([(F16, 100)], HALF),
        ([(F16, 100), (F32, 700)], HALF),
        ([(F16, 100), (F32, 701)], ""),
        ([(F16, 1), (F32, 100)], ""),
        ([(INT8, 100), (F32, 700)], WEIGHTS),
        ([(INT8, 100), (F32, 7000)], ""),
        ([(INT8, 1024), (F32, 70000)], WEIGHTS),
        ([(INT8, 1), (F16, 100), (F32, 10)], HALF),
    ],
)
def test_a_few_narrow_constants_are_no_format(constants: list[tuple[type, int]], stored: str, tmp_path: Path) -> None:
    assert runner.stored(file(tmp_path / "m.tflite", constants)) == stored
    assert runner.stored(file(tmp_path / "m.tflite", constants, INT8)) == FULL
    assert runner.stored(file(tmp_path / "m.tflite", constants, INT16)) == WIDE
