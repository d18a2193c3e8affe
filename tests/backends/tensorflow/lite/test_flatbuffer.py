"""A file without equal buffers is left as the converter wrote it; in others TensorFlow shares equal buffers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import helper

pytest.importorskip("tensorflow")
pytest.importorskip("ai_edge_litert")

from convert.backends.tensorflow.lite import converter_process
from convert.backends.tensorflow.lite.flatbuffer import repeated_bytes

from tests.support.cases import f32
from tests.support.tensorflow_lite_helper import encode, run


@pytest.mark.parametrize(
    ("contents", "repeated"),
    [
        ([b"", b"", b"abcd", b"abce"], 0),
        ([b"", b"abcd", b"ab", b"abcd", b"ab", b"abcd"], 4 + 2 + 4),
        ([b"", b"abcd" * 100, b"efgh", b"abcd" * 100], 400),
    ],
)
def test_repeated_bytes_are_counted(contents: list[bytes], repeated: int) -> None:
    from tensorflow.lite.python import schema_py_generated as schema
    from tensorflow.lite.tools import flatbuffer_utils

    model = schema.ModelT()
    model.buffers = [schema.BufferT() for _ in contents]
    for buffer, content in zip(model.buffers, contents, strict=True):
        buffer.data = np.frombuffer(content, np.uint8)
    assert repeated_bytes(bytes(flatbuffer_utils.convert_object_to_bytearray(model))) == repeated


@pytest.mark.parametrize("shared", [True, False])
def test_it_computes_the_same_either_way(shared: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tensorflow.lite.python import lite

    rewritten = []
    own = lite._deduplicate_readonly_buffers
    monkeypatch.setattr(lite, "_deduplicate_readonly_buffers", lambda model: rewritten.append(model) or own(model))
    if shared:
        monkeypatch.setattr(converter_process, "_WORTH_SHARING", -1.0)
    weight, x = f32(16, 8), f32(3, 16)
    x_info = helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, list(x.shape))
    y_info = helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [3, 8])
    node, constant = helper.make_node("MatMul", ["x", "w"], ["y"]), onnx.numpy_helper.from_array(weight, "w")
    graph = helper.make_graph([node], "product", [x_info], [y_info], [constant])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)], ir_version=10)
    path = encode(ir.from_proto(model), tmp_path)
    assert len(rewritten) == shared
    np.testing.assert_allclose(run(path, {"x": x})["y"], x @ weight, rtol=1e-5, atol=1e-5)
