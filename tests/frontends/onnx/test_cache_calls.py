"""The sizes and integers that GroupQueryAttention binds to one another are derived from the file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto as T
from onnx import helper as h
from onnx import numpy_helper as nh

import convert
from convert.graph.metadata import DIMS_KEY, GUARDS_KEY, RANGE_KEY
from convert.graph.values import known_dims

HEADS, GROUPS, SIZE, ROWS = 4, 2, 16, 40
CACHE = ("past_key", "past_value")
rng = np.random.default_rng(0)


def decoder(lengths: str) -> onnx.ModelProto:
    """Return one attention with a cache. lengths: computed from a `mask`, or two `inputs`, as older files have them."""
    width = (HEADS + 2 * GROUPS) * SIZE
    weights = {
        "words": rng.standard_normal((9, width)).astype(np.float32),
        "one": np.array([1]),
        "place": np.array(1),
        **{name: rng.uniform(-1, 1, (ROWS, SIZE // 2)).astype(np.float32) for name in ("cos", "sin")},
    }
    inputs = [h.make_tensor_value_info("ids", T.INT64, ["batch", "new"])]
    nodes = [h.make_node("Gather", ["words", "ids"], ["x"])]
    if lengths == "mask":
        inputs.append(h.make_tensor_value_info("mask", T.INT64, ["batch", "everything"]))
        nodes += [
            h.make_node("ReduceSum", ["mask", "one"], ["count"], keepdims=0),
            h.make_node("Sub", ["count", "one"], ["last64"]),
            h.make_node("Cast", ["last64"], ["last"], to=T.INT32),
            h.make_node("Shape", ["mask"], ["dims"]),
            h.make_node("Gather", ["dims", "place"], ["all64"]),
            h.make_node("Cast", ["all64"], ["all"], to=T.INT32),
        ]
    else:
        inputs += [h.make_tensor_value_info("last", T.INT32, ["batch"]), h.make_tensor_value_info("all", T.INT32, [1])]
    inputs += [h.make_tensor_value_info(n, T.FLOAT, ["batch", GROUPS, "past", "size"]) for n in CACHE]
    nodes.append(
        h.make_node(
            "GroupQueryAttention",
            ["x", "", "", *CACHE, "last", "all", "cos", "sin"],
            ["y", "key", "value"],
            domain="com.microsoft",
            num_heads=HEADS,
            kv_num_heads=GROUPS,
            do_rotary=1,
        )
    )
    outputs = [h.make_tensor_value_info("y", T.FLOAT, ["batch", "new", HEADS * SIZE])]
    outputs += [h.make_tensor_value_info(n, T.FLOAT, ["batch", GROUPS, "everything", "size"]) for n in ("key", "value")]
    graph = h.make_graph(nodes, "g", inputs, outputs, [nh.from_array(a, n) for n, a in weights.items()])
    return h.make_model(graph, opset_imports=[h.make_opsetid("", 20), h.make_opsetid("com.microsoft", 1)], ir_version=9)


@pytest.mark.parametrize(
    ("lengths", "wanted"),
    [("mask", {"mask": [1, 1]}), ("inputs", {"last": ["past+new-1"] * 2, "all": ["past+new"] * 2})],
)
def test_it_notes_what_the_operator_needs(lengths: str, wanted: dict[str, Any]) -> None:
    model = convert.inspect(decoder(lengths)).graph
    assert model is not None
    inputs = {str(v.name): v for v in model.graph.inputs}
    assert known_dims(inputs["past_key"]) == ("batch", GROUPS, "past", SIZE)
    if lengths == "mask":
        assert known_dims(inputs["mask"]) == ("batch", "past+new")
    noted = {
        name: json.loads(v.metadata_props[RANGE_KEY]) for name, v in inputs.items() if RANGE_KEY in v.metadata_props
    }
    assert noted == wanted
    assert json.loads(model.metadata_props[DIMS_KEY]) == {"past": [0, None]}
    assert json.loads(model.metadata_props[GUARDS_KEY]) == [
        f"past + new <= {ROWS}", "batch == 1 or new == 1 or past == 0"
    ]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("lengths", ["mask", "inputs"])
def test_the_verdict_is_pass(lengths: str, tmp_path: Path) -> None:
    onnx.save(decoder(lengths), tmp_path / "m.onnx")
    report = convert.convert(tmp_path / "m.onnx", "onnx", tmp_path / "out.onnx")
    assert report.verdict is not None
    assert report.verdict.status == "PASS"
