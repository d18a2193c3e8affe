"""Models with a large weight, in the file or beside it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import helper

from convert.request.options import Options, parse_input
from tests.support.onnx_support import array, info, model


def weighted(size: int = 4000) -> onnx.ModelProto:
    """Return y = x·w with a weight that is not small."""
    w = np.random.default_rng(1).normal(size=(size, 2)).astype(np.float32)
    return model(
        [helper.make_node("MatMul", ["x", "w"], ["y"], name="product")],
        [info("x", ["batch", size])],
        [info("y", ["batch", 2])],
        [array("w", w)],
    )


def external(tmp_path: Path, location: str = "w.bin", **changes: Any) -> Path:
    """Return a model whose weight is in a file beside it; `changes` are external data entries to write instead."""
    proto = weighted()
    tensor = proto.graph.initializer[0]
    data = tensor.raw_data
    tensor.ClearField("raw_data")
    tensor.data_location = onnx.TensorProto.EXTERNAL
    for key, value in {"location": location, "offset": 0, "length": len(data), **changes}.items():
        if value is not None:
            tensor.external_data.add(key=key, value=str(value))
    (tmp_path / "w.bin").write_bytes(data)
    path = tmp_path / "m.onnx"
    path.write_bytes(proto.SerializeToString())
    return path


def specs(*texts: str) -> Options:
    return Options(inputs=tuple(parse_input(t) for t in texts))
