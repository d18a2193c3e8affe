"""Lists for dims with more numbers than any tensor has dims are refused before a rule iterates over them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import convert
from convert.errors import ResourceLimit

tf = pytest.importorskip("tensorflow")
MANY = 20_000


def _graph(path: Path, operator: str, lists: list[np.ndarray], squeezed: int = 0, rank: int = 2) -> Path:
    graph = tf.compat.v1.GraphDef()
    float32, int32 = tf.float32.as_datatype_enum, tf.int32.as_datatype_enum
    x = graph.node.add(op="Placeholder", name="x")
    x.attr["dtype"].type = float32
    x.attr["shape"].shape.CopyFrom(tf.TensorShape([1] * rank).as_proto())
    y = graph.node.add(op=operator, name="y", input=["x", *(f"n{i}" for i in range(len(lists)))])
    y.attr["T"].type = float32
    if squeezed:
        y.attr["squeeze_dims"].list.i.extend([0] * squeezed)
    for i, content in enumerate(lists):
        held = graph.node.add(op="Const", name=f"n{i}")
        held.attr["dtype"].type = int32
        held.attr["value"].tensor.CopyFrom(tf.make_tensor_proto(content))
    path.write_bytes(graph.SerializeToString())
    return path


@pytest.mark.parametrize("operator", ["Reshape", "Pad", "Transpose", "Tile", "StridedSlice", "Sum", "Squeeze", "Neg"])
def test_long_lists(operator: str, tmp_path: Path) -> None:
    ones = np.ones(MANY, np.int32)
    lists = {"Pad": [np.zeros((MANY, 2), np.int32)], "StridedSlice": [ones] * 3, "Squeeze": [], "Neg": []}
    squeezed, rank = MANY * (operator == "Squeeze"), 300 if operator == "Neg" else 2
    path = _graph(tmp_path / "m.pb", operator, lists.get(operator, [ones]), squeezed, rank)
    with pytest.raises(
        ResourceLimit, match="dims of a tensor" if operator == "Neg" else f"{operator}, node 'y': .* numbers"
    ):
        convert.inspect(path)


@pytest.mark.parametrize("operator", ["Mul", "ConcatV2"])
def test_what_is_known_of_shapes_does_not_double_for_ever(operator: str, tmp_path: Path) -> None:
    """Sixty squares of a batch of unknown size, and a list of sizes that each Concat doubles."""
    graph = tf.compat.v1.GraphDef()
    int32 = tf.int32.as_datatype_enum
    x = graph.node.add(op="Placeholder", name="x")
    x.attr["dtype"].type = tf.float32.as_datatype_enum
    x.attr["shape"].shape.CopyFrom(tf.TensorShape([None, 3]).as_proto())
    axis = graph.node.add(op="Const", name="axis")
    axis.attr["dtype"].type = int32
    axis.attr["value"].tensor.CopyFrom(tf.make_tensor_proto(np.int32(0)))
    shape = graph.node.add(op="Shape", name="n", input=["x"])
    shape.attr["T"].type, shape.attr["out_type"].type = x.attr["dtype"].type, int32
    last = "n"
    for i in range(60):
        node = graph.node.add(op=operator, name=f"n{i}", input=[last, last, *["axis"] * (operator == "ConcatV2")])
        node.attr["T"].type = int32
        if operator == "ConcatV2":
            node.attr["N"].i, node.attr["Tidx"].type = 2, int32
        last = node.name
    (tmp_path / "m.pb").write_bytes(graph.SerializeToString())
    assert convert.inspect(tmp_path / "m.pb").outputs[0].name == last
