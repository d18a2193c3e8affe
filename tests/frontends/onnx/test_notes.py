"""This tool's own notes in an ONNX file, which anybody may write, are read as written, or refused."""

from __future__ import annotations

import json
from pathlib import Path

import onnx
import pytest
from onnx import TensorProto, helper

from convert import api
from convert.errors import BadInput
from convert.graph.metadata import DIMS_KEY, GUARDS_KEY, RANGE_KEY, STATE_KEY

OF_MODEL = (DIMS_KEY, GUARDS_KEY, STATE_KEY)


def written(folder: Path, key: str, text: str) -> Path:
    info = helper.make_tensor_value_info
    ends = [info("i", TensorProto.INT64, ["n"])], [info("y", TensorProto.FLOAT, ["n"])]
    graph = helper.make_graph([helper.make_node("Cast", ["i"], ["y"], to=1)], "g", *ends)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    model.metadata_props.add(key=key, value=text)
    model.graph.input[0].metadata_props.add(key=key, value=text)
    onnx.save(model, folder / "m.onnx")
    return folder / "m.onnx"


@pytest.mark.parametrize("key", [*OF_MODEL, RANGE_KEY])
@pytest.mark.parametrize("text", ["[" * 50_000, "7", "x", "null", '"\\u202e"'])
def test_what_is_no_note(tmp_path: Path, key: str, text: str) -> None:
    with pytest.raises(BadInput, match=f"the note {key} in the file is damaged"):
        api.inspect(written(tmp_path, key, text))


@pytest.mark.parametrize(
    ("key", "text"),
    [
        (DIMS_KEY, '{"n": 3}'),
        (DIMS_KEY, '{"n": [5, 2]}'),
        (DIMS_KEY, '{"n": [1e400, null]}'),
        (GUARDS_KEY, "[7]"),
        (GUARDS_KEY, '["' + "(" * 3000 + '"]'),
        (GUARDS_KEY, json.dumps(["n % 8 == 0"] * 1001)),
        (RANGE_KEY, "[0]"),
        (RANGE_KEY, '[0, "m"]'),
        (RANGE_KEY, '[0, "n", "up"]'),
        (RANGE_KEY, "[0, 1e400]"),
        (RANGE_KEY, "[0, 99999999999999999999999]"),
    ],
)
def test_a_note_of_another_form(tmp_path: Path, key: str, text: str) -> None:
    with pytest.raises(BadInput, match="in the file is damaged"):
        api.inspect(written(tmp_path, key, text))


@pytest.mark.parametrize(
    ("key", "text"),
    [
        (DIMS_KEY, '{"n": [1, null]}'),
        (DIMS_KEY, '{"n": [2, 64]}'),
        (GUARDS_KEY, '["n % 8 == 0"]'),
        (RANGE_KEY, '[1, "n - 1", "descending"]'),
        (RANGE_KEY, '[-4, "max(n, 3)"]'),
    ],
)
def test_notes_are_taken(tmp_path: Path, key: str, text: str) -> None:
    assert api.inspect(written(tmp_path, key, text))
