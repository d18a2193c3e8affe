"""Offsets, sizes and texts of TensorFlow Lite files are checked with the schema, as by the runtime's verifier."""

from __future__ import annotations

import random
import re
from pathlib import Path
from typing import Any

import pytest
from convert.frontends.tensorflow.lite.file import parse_lite_model, schema
from convert.frontends.tensorflow.lite.layout import check_layout, table_fields

from convert import api
from convert.errors import BadInput
from tests.suites.fuzzing.flat import changed_flatbuffer
from tests.suites.hostile_files.lite_files import _model

SIZES = {"Int8": 1, "Uint8": 1, "Bool": 1, "Int16": 2, "Uint16": 2, "Int32": 4, "Uint32": 4, "Float32": 4}


def _kind(name: str, accessor: str) -> str:
    """Return the type that a generated accessor reads."""
    if "self._tab.Union(" in accessor:
        return f"U:{name}"
    made = re.search(r"obj = (\w+)\(\)", accessor)
    vector = "self._tab.Vector(" in accessor
    if made is not None:
        return ("T:" if vector else "t:") + made[1]
    if "self._tab.String(" in accessor:
        return "S" if vector else "s"
    number = re.search(r"number_types\.(\w+)Flags, [ao] \+", accessor)
    assert number is not None
    return ("v" if vector else "") + str(SIZES.get(number[1], 8))


def test_the_table_of_fields_is_that_of_the_generated_accessors() -> None:
    text = Path(schema().__file__).read_text()
    found: dict[str, list[str]] = {}
    for block in re.split(r"^class (?=\w+\(object\):)", text, flags=re.MULTILINE)[1:]:
        fields = {}
        for accessor in re.split(r"^    def ", block, flags=re.MULTILINE)[1:]:
            name, slot = accessor.partition("(")[0], re.search(r"self\._tab\.Offset\((\d+)\)", accessor)
            if slot is not None and not name.endswith(("Length", "AsNumpy", "IsNone")):
                fields[(int(slot[1]) - 4) // 2] = _kind(name, accessor)
        if "flatbuffers.table.Table(" in block:
            found[block.partition("(")[0]] = [fields.get(i, "-") for i in range(max(fields, default=-1) + 1)]
    known = table_fields()
    assert all(kinds == known[name][: len(kinds)] for name, kinds in found.items() if name in known)
    assert {"Model", "SubGraph", "Tensor", "Operator", "Conv2DOptions", "SignatureDef"} <= found.keys() & known.keys()


def test_what_the_runtime_takes_for_no_flatbuffer_is_refused() -> None:
    litert = pytest.importorskip("ai_edge_litert.interpreter", reason="it verifies files")
    good, refused = _model(), 0
    for number in range(150):
        data = changed_flatbuffer(random.Random(f"layout {number}"), good)
        try:
            litert.Interpreter(model_content=data)
        except (RuntimeError, ValueError) as error:
            if "not a valid Flatbuffer" in str(error):
                refused += 1
                with pytest.raises(BadInput):
                    parse_lite_model(memoryview(data), "m.tflite")
    assert refused > 40
    check_layout(memoryview(good), schema())


def _with_signature(output: int) -> bytes:
    def change(model: Any, schema: Any) -> None:
        found = schema.SignatureDefT()
        found.signatureKey, found.subgraphIndex, found.inputs, found.outputs = "serving_default", 0, [], []
        for side, name, number in ((found.inputs, "a", 0), (found.outputs, "b", output)):
            entry = schema.TensorMapT()
            entry.name, entry.tensorIndex = name, number
            side.append(entry)
        model.signatureDefs = [found]

    return _model(change)


def test_a_signature_gives_what_its_subgraph_gives() -> None:
    assert parse_lite_model(memoryview(_with_signature(1)), "m.tflite").signatures[0].outputs == {"b": 1}
    with pytest.raises(BadInput):
        parse_lite_model(memoryview(_with_signature(0)), "m.tflite")


def test_a_size_that_the_operators_do_not_give_is_told(tmp_path: Path) -> None:
    def change(model: Any, schema: Any) -> None:
        model.subgraphs[0].tensors[1].shape = [3]

    (tmp_path / "m.tflite").write_bytes(_model(change))
    report = api.convert(tmp_path / "m.tflite", "onnx", tmp_path / "m.onnx", verify=False)
    assert any("'y' is [3] in the file, [2] in fact" in note for note in report.notes)
