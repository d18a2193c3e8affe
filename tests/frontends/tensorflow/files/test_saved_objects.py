"""Variables of SavedModels by the objects that hold them, and indexes compressed with snappy, against TensorFlow."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import google_crc32c
import numpy as np
import onnxruntime
import pytest
from convert.frontends.tensorflow.files.snappy import decompress
from convert.frontends.tensorflow.files.tensor_bundle import _masked_crc, _table_entries, open_bundle

import convert
from convert.errors import BadInput
from convert.request.source import Source
from tests.frontends.tensorflow.ops.tf_support import run
from tests.support.tensorflow_helper import images, read

tf = pytest.importorskip("tensorflow", reason="TensorFlow writes the folders")
os.environ["KERAS_BACKEND"] = "tensorflow"
import keras  # noqa: E402  (after the choice of its backend)


def _model() -> Any:
    x = keras.Input((4,), name="x")
    model = keras.Model(x, keras.layers.Dense(3)(keras.layers.BatchNormalization()(x)))
    for seed, variable in enumerate(model.variables):
        variable.assign(np.abs(images(*variable.shape, seed=seed)) + 0.1)
    return model


class Holder(tf.Module):  # type: ignore[misc]
    """A model next to a variable, and two variables of one name."""

    def __init__(self) -> None:
        super().__init__()
        self.model = _model()
        self.scales = [tf.Variable(2.0, name="scale"), tf.Variable(5.0, name="scale")]

    @tf.function(input_signature=[tf.TensorSpec([None, 4], name="x")])
    def serve(self, x: Any) -> Any:
        return {"score": self.model(x * self.scales[0], training=False) - self.scales[1]}


class Subclassed(keras.Model):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.dense, self.own = keras.layers.Dense(3), tf.Variable(1.5)

    def call(self, x: Any) -> Any:
        return self.dense(x) * self.own


def _save_subclassed(folder: str) -> None:
    model = Subclassed()
    model(np.zeros((1, 4), np.float32))
    serve = tf.function(lambda x: model(x), input_signature=[tf.TensorSpec([None, 4], name="x")])
    tf.saved_model.save(model, folder, signatures=serve.get_concrete_function())


def _save_holder(folder: str) -> None:
    holder = Holder()
    tf.saved_model.save(holder, folder, signatures=holder.serve.get_concrete_function())


@pytest.mark.parametrize(
    "save",
    [lambda folder: tf.saved_model.save(_model(), folder), _save_holder, _save_subclassed],
    ids=["a model", "within a module", "a class"],
)
def test_models_of_keras_three(tmp_path: Path, save: Any) -> None:
    """The saver restores other handles than those that the functions of Keras 3 captured."""
    save(str(tmp_path / "m"))
    (feed,) = (images(5, 4),)
    signature = tf.saved_model.load(str(tmp_path / "m")).signatures["serving_default"]
    want = next(iter(signature(tf.constant(feed)).values())).numpy()
    model = read(Source("savedmodel", tmp_path / "m"))
    got = run(model, {str(model.graph.inputs[0].name): feed})
    np.testing.assert_allclose(next(iter(got.values())), want, 1e-5, 1e-5)


@pytest.mark.parametrize(
    ("data", "content"),
    [
        (b"\x00", b""),
        (b"\x03\x08abc", b"abc"),
        (b"\x46\xf0\x45" + bytes(range(70)), bytes(range(70))),
        (b"\x46\xf4\x45\x00" + bytes(range(70)), bytes(range(70))),
        (b"\x07\x08abc\x01\x03", b"abcabca"),
        (b"\x06\x08abc\x0a\x03\x00", b"abcabc"),
        (b"\x05\x08abc\x07\x02\x00\x00\x00", b"abcbc"),
        (b"\x0a\x00a\x22\x01\x00", b"a" * 10),
    ],
)
def test_blocks_by_hand(data: bytes, content: bytes) -> None:
    assert decompress(data) == content


_TOO_SHORT = [b"", b"\x04\x08abc", b"\x03\x08ab"]
_TOO_LONG = [b"\x02\x08abc", b"\xff\xff\xff\xff\x0f\x08abc"]
_FROM_BEFORE_THE_START = [b"\x07\x08abc\x01\x04", b"\x05\x08abc\x0a\x00\x00"]


@pytest.mark.parametrize("data", _TOO_SHORT + _TOO_LONG + _FROM_BEFORE_THE_START)
def test_damaged_blocks(data: bytes) -> None:
    with pytest.raises(BadInput):
        decompress(data)


def _number(n: int) -> bytes:
    return bytes([n & 127 | 128]) + _number(n >> 7) if n > 127 else bytes([n])


def _block(entries: list[tuple[bytes, bytes]]) -> bytes:
    body = b"".join(_number(0) + _number(len(k)) + _number(len(v)) + k + v for k, v in entries)
    return body + (0).to_bytes(4, "little") + (1).to_bytes(4, "little")


def _stored(block: bytes, compressed: bool) -> bytes:
    if compressed:
        pieces = [block[at : at + 60] for at in range(0, len(block), 60)]
        block = _number(len(block)) + b"".join(bytes([len(p) - 1 << 2]) + p for p in pieces)
    whole = block + bytes([compressed])
    return whole + _masked_crc(google_crc32c.value(whole)).to_bytes(4, "little")


def test_an_index_that_is_compressed(tmp_path: Path) -> None:
    prefix = tmp_path / "variables"
    tf.train.Checkpoint(v=tf.Variable(images(3, 4))).write(str(prefix))
    index = tmp_path / "variables.index"
    before = index.read_bytes()
    blocks, handles = b"", []
    for block, compressed in ((_block(list(_table_entries(memoryview(before)))), True), (_block([]), False)):
        stored = _stored(block, compressed)
        handles.append(_number(len(blocks)) + _number(len(stored) - 5))
        blocks += stored
    place = _stored(_block([(b"w", handles[0])]), False)
    footer = handles[1] + _number(len(blocks)) + _number(len(place) - 5)
    index.write_bytes(blocks + place + footer.ljust(40, b"\0") + before[-8:])
    key = "v/.ATTRIBUTES/VARIABLE_VALUE"
    want = tf.train.load_checkpoint(str(prefix)).get_tensor(key)
    np.testing.assert_array_equal(open_bundle(prefix).tensor(key).numpy(), want)


class TwoFunctions(tf.Module):  # type: ignore[misc]
    """A module with functions that is saved without a signature."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = tf.Variable([[1.0, 2.0]])

    @tf.function(input_signature=[tf.TensorSpec([None, 1])])
    def encode(self, x: Any) -> Any:
        return x @ self.weight

    @tf.function(input_signature=[tf.TensorSpec([None, 2])])
    def __call__(self, y: Any) -> Any:
        return y * self.weight


def test_functions_are_listed_where_there_is_no_signature(tmp_path: Path) -> None:
    tf.saved_model.save(TwoFunctions(), tmp_path / "without")
    with pytest.raises(BadInput, match=r"no signature.*its functions are __call__, encode") as error:
        convert.convert(tmp_path / "without", "onnx", tmp_path / "x.onnx", verify=False)
    assert "signatures=m.__call__.concrete_functions[0]" in error.value.hint
    m = tf.saved_model.load(tmp_path / "without")  # what the hint says
    tf.saved_model.save(m, tmp_path / "with", signatures=m.encode.concrete_functions[0])
    convert.convert(tmp_path / "with", "onnx", tmp_path / "y.onnx", verify=False)
    session = onnxruntime.InferenceSession(tmp_path / "y.onnx", providers=["CPUExecutionProvider"])
    (made,) = session.run(None, {session.get_inputs()[0].name: np.array([[3.0]], np.float32)})
    np.testing.assert_array_equal(made, [[3.0, 6.0]])
