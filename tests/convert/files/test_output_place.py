"""Outputs that would hit what is read, or what this tool has not written: refused, with or without --force."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import convert
from convert import plugin
from convert.errors import UsageError
from convert.files.output import atomic_replacement
from convert.files.output_place import check_apart, check_replaceable

FIXTURES = Path(__file__).parents[3] / "fixtures"


def content(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


PLACES = {
    "itself": "zoo/m.onnx",
    "by another way": "zoo/../zoo/m.onnx",
    "by a link": "link.onnx",
    "by a hard link": "hard.onnx",
    "around it": "zoo",
    "around that": ".",
}


@pytest.mark.parametrize("to", ["onnx", "tf"])
@pytest.mark.parametrize("place", PLACES.values(), ids=PLACES)
def test_the_source_is_never_replaced(tmp_path: Path, place: str, to: str) -> None:
    source = tmp_path / "zoo" / "m.onnx"
    source.parent.mkdir()
    shutil.copy(FIXTURES / "mnist_cnn.onnx", source)
    (tmp_path / "link.onnx").symlink_to(source)
    os.link(source, tmp_path / "hard.onnx")
    before = content(tmp_path)
    with pytest.raises(UsageError) as caught:
        convert.convert(source, to, tmp_path / place, force=True, verify=False)
    assert caught.value.exit_code == 2
    assert content(tmp_path) == before


@pytest.mark.not_core
@pytest.mark.parametrize("place", ["", "saved_model.pb", "variables", "variables/m.onnx", "assets/new/m.onnx", ".."])
def test_a_source_that_is_a_folder_is_never_written_into(tmp_path: Path, place: str) -> None:
    source = tmp_path / "m.savedmodel"
    shutil.copytree(FIXTURES / "mnist_cnn.savedmodel", source)
    before = content(tmp_path)
    with pytest.raises(UsageError, match=r"is the source itself|inside of the source|holds the source"):
        convert.convert(source, "onnx", source / place, force=True, verify=False)
    assert content(tmp_path) == before


def external(folder: Path, location: str) -> Path:
    """A model whose weights are in the file `location` beside it."""
    w = numpy_helper.from_array(np.arange(6, dtype=np.float32).reshape(2, 3), "w")
    onnx.external_data_helper.set_external_data(w, location)
    (folder / location).write_bytes(w.raw_data)
    w.ClearField("raw_data")
    w.data_location = onnx.TensorProto.EXTERNAL
    ends = [helper.make_tensor_value_info(n, 1, s) for n, s in (("x", [1, 2]), ("y", [1, 3]))]
    graph = helper.make_graph([helper.make_node("MatMul", ["x", "w"], ["y"])], "g", ends[:1], ends[1:], [w])
    path = folder / "m.onnx"
    path.write_bytes(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)]).SerializeToString())
    return path


def test_the_weights_of_the_source_are_never_replaced(tmp_path: Path) -> None:
    source = external(tmp_path, "b.onnx")
    before = content(tmp_path)
    with pytest.raises(UsageError, match="is the source itself"):
        convert.convert(source, "onnx", tmp_path / "b.onnx", force=True, verify=False)
    assert content(tmp_path) == before


def test_nor_by_a_file_beside_the_output(tmp_path: Path) -> None:
    data = tmp_path / "b.onnx.data"
    data.write_bytes(b"weights")

    def write() -> None:
        with atomic_replacement(tmp_path / "b.onnx", force=False, read=[data]) as temporary:
            temporary.write_bytes(b"graph")
            temporary.with_name("b.onnx.data").write_bytes(b"other")

    with pytest.raises(UsageError, match="is the source itself"):
        write()
    assert content(tmp_path) == {"b.onnx.data": b"weights"}


def test_places_apart_are_taken(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    check_apart(tmp_path / "a.onnx", [tmp_path / "a", tmp_path / "b.onnx"])
    check_apart(tmp_path / "a" / "m.onnx", [tmp_path / "a" / "m.pt"])


FORMS = list(plugin.formats().values())


@pytest.mark.parametrize(
    ("name", "held"),
    [("thesis.tex", b"years"), ("notes", b"text"), ("data.npz", b"PK\x03\x04"), (".bashrc", b"alias")],
)
def test_files_of_other_kinds_are_not_replaced(tmp_path: Path, name: str, held: bytes) -> None:
    (tmp_path / name).write_bytes(held)
    with pytest.raises(UsageError, match="neither named like a model nor one"):
        convert.convert(FIXTURES / "mnist_cnn.onnx", "onnx", tmp_path / name, force=True, verify=False)
    assert (tmp_path / name).read_bytes() == held


def test_folders_that_hold_more_are_not_replaced(tmp_path: Path) -> None:
    for name in ("saved_model.pb", "variables", "notes.md"):
        (tmp_path / name).write_text("")
    with pytest.raises(UsageError, match=r"such as notes\.md"):
        check_replaceable(tmp_path, FORMS)
    (tmp_path / "notes.md").unlink()
    check_replaceable(tmp_path, FORMS)


def test_models_and_what_is_empty_are_replaced(tmp_path: Path) -> None:
    for name, held in (("a.onnx", b"old"), ("b.tflite", b""), ("c", b""), ("d", FIXTURES / "mnist_cnn.onnx")):
        (tmp_path / name).write_bytes(held if isinstance(held, bytes) else held.read_bytes())
        check_replaceable(tmp_path / name, FORMS)
    (tmp_path / "empty").mkdir()
    check_replaceable(tmp_path / "empty", FORMS)
    check_replaceable(tmp_path / "none", FORMS)
