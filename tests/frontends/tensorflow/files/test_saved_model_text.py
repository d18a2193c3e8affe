"""SavedModels whose message is text: read like binary ones, and refused if they are damaged or hostile."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from convert.frontends import tensorflow as frontend
from convert.frontends.tensorflow.graph.saved_model_message import parse_saved_model

from convert.errors import BadInput, UnsafeInput
from convert.files.sniff import sniff
from convert.outcome.report import Report
from convert.reference.executor import run
from convert.request.options import Options
from convert.request.source import Source

tf = pytest.importorskip("tensorflow", reason="TensorFlow writes the text, and runs the model")
from google.protobuf import text_format  # noqa: E402
from tensorflow.core.framework import types_pb2  # noqa: E402
from tensorflow.core.protobuf import saved_model_pb2  # noqa: E402

FIXTURE = Path(__file__).parents[4] / "fixtures" / "mnist_cnn.savedmodel"


def as_text(folder: Path, change: Callable[[str], str] = str) -> Path:
    """Return the fixture with its message as text."""
    shutil.copytree(FIXTURE, folder)
    message = saved_model_pb2.SavedModel.FromString((folder / "saved_model.pb").read_bytes())
    (folder / "saved_model.pb").unlink()
    (folder / "saved_model.pbtxt").write_text(change(text_format.MessageToString(message)))
    return folder


@pytest.mark.slow
def test_a_message_in_text_is_read(tmp_path: Path) -> None:
    folder = as_text(tmp_path / "m")
    assert sniff(folder) == "savedmodel"
    model = frontend.read(Source("savedmodel", folder), Options(), Report("convert"))
    loaded = tf.saved_model.load(str(folder)).signatures["serving_default"]
    ((name, spec),) = loaded.structured_input_signature[1].items()
    x = np.random.default_rng(0).standard_normal([d or 2 for d in spec.shape]).astype(np.float32)
    (want,) = loaded(**{name: tf.constant(x)}).values()
    (got,) = run(model, {str(model.graph.inputs[0].name): x}).values()
    np.testing.assert_allclose(got, want.numpy(), rtol=1e-4, atol=1e-5)


def test_every_dtype_has_the_name_that_text_gives_it(tmp_path: Path) -> None:
    names = types_pb2.DataType.keys()
    lines = [f'node {{ name: "{n}" attr {{ key: "T" value {{ type: {n} }} }} }}' for n in names]
    (tmp_path / "saved_model.pbtxt").write_text("meta_graphs { graph_def { " + " ".join(lines) + " } }")
    nodes = parse_saved_model(tmp_path)[1].meta_graphs[0].graph_def.node
    assert {node.name: node.attr["T"].type for node in nodes} == dict(types_pb2.DataType.items())


NESTED = "meta_graphs { graph_def { node {" + ' attr { key: "a" value { func {' * 9999


@pytest.mark.parametrize(
    "text", ["zz {" * 50_000, NESTED, 'saved_model_schema_version: "x"', "\0\1", '"', "{"],
    ids=["unknown", "nested", "number", "noise", "quote", "brace"],
)  # fmt: skip
def test_what_is_no_message_is_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / "saved_model.pbtxt").write_text(text)
    with pytest.raises(BadInput, match="is not a SavedModel"):
        parse_saved_model(tmp_path)


def test_operators_in_text_are_held_to_the_list(tmp_path: Path) -> None:
    def change(text: str) -> str:
        return text.replace("graph_def {", 'graph_def { node { name: "w" op: "WriteFile" }', 1)

    folder = as_text(tmp_path / "m", change)
    with pytest.raises(UnsafeInput, match="WriteFile"):
        frontend.read(Source("savedmodel", folder), Options(), Report("convert"))


def test_the_file_does_not_say_where_tensors_are_left(tmp_path: Path) -> None:
    """The fields that locate tensors are the frontend's own, with random numbers in every process."""
    from convert.frontends.tensorflow.graph.protos import MESSAGES

    fields = MESSAGES["TensorProto"].DESCRIPTOR.fields_by_name
    assert min(fields[name].number for name in ("far_offset", "far_size")) > 1 << 26


@pytest.mark.parametrize("name", ["fingerprint.pb", "debug/saved_model_debug_info.pb", "assets/words.txt"])
def test_a_pipe_beside_the_graph_is_refused(name: str, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(FIXTURE, tmp_path / "m"))
    (folder / name).parent.mkdir(exist_ok=True)
    (folder / name).unlink(missing_ok=True)
    os.mkfifo(folder / name)
    with pytest.raises(BadInput, match="is not a file"):
        sniff(folder)
