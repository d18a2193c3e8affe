"""Tables filled from files among the assets, or by a session: in the graph, and when the source is run."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import convert
from convert import limits
from convert.errors import BadInput, Unsupported
from convert.request.source import Source
from tests.frontends.tensorflow.ops.tf_support import run
from tests.support.tensorflow_helper import read

tf = pytest.importorskip("tensorflow", reason="TensorFlow is the oracle")
v1 = tf.compat.v1
LINE, NUMBER = tf.lookup.TextFileIndex.WHOLE_LINE, tf.lookup.TextFileIndex.LINE_NUMBER
STRING, INT64, FLOAT = tf.string, tf.int64, tf.float32

FILES: dict[str, tuple[str, tuple[Any, ...], dict[str, Any]]] = {
    # The file, dtypes and columns of keys and values, and further options.
    "words": ("one\ntwo\n drei \n", (STRING, LINE, INT64, NUMBER), {}),
    "words back": ("one\ntwo\ndrei", (INT64, NUMBER, STRING, LINE), {}),
    "lines of another system": ("one\r\ntwo\r\n", (STRING, LINE, INT64, NUMBER), {}),
    "the first of them": ("one\ntwo\ndrei\n", (STRING, LINE, INT64, NUMBER), {"vocab_size": 2}),
    "columns": ("one\t1\t0.5\ntwo\t-2\t1e-3\n", (INT64, 1, FLOAT, 2), {}),
    "commas": ("a,7\nb,8\n", (STRING, 0, INT64, 1), {"delimiter": ","}),
}
ASKED = {STRING: [b"one", b"two", b" drei ", b"a", b""], INT64: [0, 1, 2, -2, 99]}


def saved(folder: Path, text: str, columns: tuple[Any, ...], given: dict[str, Any]) -> Any:
    """Return a SavedModel with a function that looks up words, whose file is one of its assets."""
    (folder / "words.txt").write_bytes(text.encode())
    words = tf.lookup.TextFileInitializer(str(folder / "words.txt"), *columns, **given)
    module = tf.Module()
    module.table = tf.lookup.StaticHashTable(words, {STRING: "?", INT64: -1, FLOAT: -1.0}[columns[2]])
    find = tf.function(lambda x: {"y": module.table.lookup(x)}, input_signature=[tf.TensorSpec([None], columns[0])])
    tf.saved_model.save(module, str(folder / "m"), signatures=find)
    return find


@pytest.mark.parametrize("name", FILES)
def test_a_table_from_an_asset(name: str, tmp_path: Path) -> None:
    find = saved(tmp_path, *FILES[name])
    asked = ASKED[FILES[name][1][0]]
    (tmp_path / "words.txt").unlink()
    texts = [a.decode() if isinstance(a, bytes) else a for a in asked]
    feed = np.array(texts, object if isinstance(texts[0], str) else np.int64)
    got = run(read(Source("savedmodel", tmp_path / "m")), {"x": feed})["y"]
    want = find(tf.constant(asked, FILES[name][1][0]))["y"].numpy()
    assert [s.encode() if isinstance(s, str) else s for s in got.tolist()] == want.tolist()


@pytest.mark.parametrize(("text", "reason"), [("one\n\ntwo\n", "empty ones"), ("one\none\n", "one key in several")])
def test_a_file_that_tensorflow_would_refuse_is_refused(text: str, reason: str, tmp_path: Path) -> None:
    saved(tmp_path, "one\ntwo\n", *FILES["words"][1:])
    (tmp_path / "m/assets/words.txt").write_text(text)
    with pytest.raises(Unsupported, match=reason):
        read(Source("savedmodel", tmp_path / "m"))


def test_a_file_behind_a_link_is_not_read(tmp_path: Path) -> None:
    saved(tmp_path, "one\ntwo\n", *FILES["words"][1:])
    (tmp_path / "m/assets/words.txt").unlink()
    (tmp_path / "m/assets/words.txt").symlink_to(tmp_path / "words.txt")
    with pytest.raises(Unsupported, match="filled from a file"):
        read(Source("savedmodel", tmp_path / "m"))


@pytest.mark.parametrize("name", ["a\0b", "x" * 5000, "../words.txt", "/etc/passwd"])
def test_a_name_that_is_none_in_its_folder_is_not_read(name: str, tmp_path: Path) -> None:
    saved(tmp_path, "one\ntwo\n", *FILES["words"][1:])
    graph = tmp_path / "m/saved_model.pb"
    message = importlib.import_module("tensorflow.core.protobuf.saved_model_pb2").SavedModel.FromString(
        graph.read_bytes()
    )
    message.meta_graphs[0].asset_file_def[0].filename = name
    graph.write_bytes(message.SerializeToString())
    with pytest.raises(BadInput if "/" in name else Unsupported, match="file"):
        read(Source("savedmodel", tmp_path / "m"))


def test_lines_are_counted_before_they_are_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "TENSORFLOW_TABLE_LINES", 1)
    saved(tmp_path, "one\ntwo\n", *FILES["words"][1:])
    with pytest.raises(Unsupported, match="more than 1 lines"):
        read(Source("savedmodel", tmp_path / "m"))


@pytest.mark.parametrize("form", ["frozen", "saved"])
def test_the_source_runs_with_the_tables_that_its_session_filled(form: str, tmp_path: Path) -> None:
    with tf.Graph().as_default() as graph, v1.Session() as session:
        x = v1.placeholder(tf.int64, [None], name="x")
        pairs = tf.lookup.KeyValueTensorInitializer(tf.range(3, dtype=tf.int64), tf.constant([5, 6, 7], tf.int64))
        y = tf.identity(tf.lookup.StaticHashTable(pairs, -1).lookup(x), name="y")
        start = v1.tables_initializer()
        if form == "frozen":
            (tmp_path / "m.pb").write_bytes(graph.as_graph_def().SerializeToString())
        else:
            builder = v1.saved_model.builder.SavedModelBuilder(str(tmp_path / "m"))
            signature = v1.saved_model.predict_signature_def({"x": x}, {"y": y})
            builder.add_meta_graph_and_variables(session, ["serve"], {"serving_default": signature}, main_op=start)
            builder.save()
    source, outputs = (tmp_path / "m.pb", ["y"]) if form == "frozen" else (tmp_path / "m", [])
    report = convert.convert(source, "onnx", tmp_path / "m.onnx", outputs=outputs)
    assert report.verdict is not None
    assert report.verdict.status == "PASS"
