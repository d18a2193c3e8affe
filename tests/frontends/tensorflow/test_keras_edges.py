"""Operators of the Keras backend compared with onnx's own reference, if onnxruntime is wrong or has no kernel."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

import convert
from convert.errors import BadInput
from convert.outcome.report import Report
from convert.request.options import Options
from tests.support.run_targets import run_target
from tests.support.tensorflow_networks import close, image, shared

keras = pytest.importorskip("keras", reason="the Keras backend writes with Keras")


def test_a_query_that_may_attend_to_nothing_gives_zeros(tmp_path: Path) -> None:
    from convert.backends import keras as backend

    node = helper.make_node("Attention", ["q", "k", "v", "mask"], ["y"])
    inputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", 2, 3, 4]) for name in "qkv"]
    mask = helper.make_tensor_value_info("mask", TensorProto.BOOL, [3, 3])
    output = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 2, 3, 4])
    graph = helper.make_graph([node], "net", [*inputs, mask], [output])
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)], ir_version=10)
    feeds = {name: image(2, 2, 3, 4) for name in "qkv"}
    feeds["mask"] = np.array([[True, False, True], [False, False, False], [True, True, True]])
    (want,) = ReferenceEvaluator(proto).run(None, feeds)
    assert not want[:, :, 1].any()
    path = tmp_path / "model.keras"
    backend.write(shared(proto), path, "keras", Options(), Report("convert"))
    close(np.asarray(keras.saving.load_model(path)(feeds)), want)


def test_corners_are_aligned_by_the_length_of_the_output() -> None:
    """onnx's reference uses the length that the scale implies, 2.4 here; the operator's text and onnxruntime do not."""
    from convert.semantics.interpolation import Interpolation, weight_matrix

    node = helper.make_node("Resize", ["x", "", "scales"], ["y"], mode="linear",
                            coordinate_transformation_mode="align_corners")  # fmt: skip
    scales = helper.make_tensor("scales", TensorProto.FLOAT, [2], [1.0, 0.6])
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [4, 4])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [4, 2])
    proto = helper.make_model(
        helper.make_graph([node], "net", [x], [y], [scales]),
        opset_imports=[helper.make_opsetid("", 20)],
        ir_version=9,
    )
    session = onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    (columns,) = session.run(None, {"x": np.eye(4, dtype=np.float32)})
    weights = weight_matrix(4, 2, 0.6, Interpolation("linear", "align_corners"))
    np.testing.assert_array_equal(weights, columns.T)
    np.testing.assert_array_equal(weights, [[1, 0, 0, 0], [0, 0, 0, 1]])


def test_a_file_is_loaded_as_what_was_looked_at(tmp_path: Path, fixtures: Path) -> None:
    """Keras reads a file called `.h5` as HDF5, and an archive may contain HDF5."""
    from convert.frontends.tensorflow.runner.keras_archive import with_keras_model

    path = tmp_path / "model.h5"
    path.write_bytes((fixtures / "mnist_cnn.keras").read_bytes())
    with pytest.raises(BadInput, match="Keras archive by its content") as refused:
        with_keras_model(path, lambda model: model)
    assert "rename it" in refused.value.hint


def test_operations_in_hdf5_are_told_as_what_keras_does_not_load(tmp_path: Path) -> None:
    """The mask of an Embedding is an operation, for which HDF5 stores only the name."""
    x = keras.Input((6,), dtype="int32")
    y = keras.layers.LSTM(3)(keras.layers.Embedding(9, 4, mask_zero=True)(x))
    keras.Model(x, y).save(tmp_path / "m.h5")
    with pytest.raises(ValueError, match="Unknown layer: 'NotEqual'"):
        keras.models.load_model(tmp_path / "m.h5")
    with pytest.raises(BadInput, match="does not load from HDF5: NotEqual") as raised:
        convert.convert(tmp_path / "m.h5", "onnx", tmp_path / "m.onnx", verify=False)
    assert "model.keras" in str(raised.value.hint)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["LSTM", "GRU"])
def test_cells_with_relu_are_verified(kind: str, tmp_path: Path) -> None:
    """onnxruntime's cells turn NaN and infinities into numbers, which is declared and no failure."""
    inputs = keras.Input((None, 4), name="x")
    model = keras.Model(inputs, getattr(keras.layers, kind)(3, activation="relu", return_sequences=True)(inputs))
    report = convert.convert(model, "onnx", tmp_path / "model.onnx")
    assert report.verdict is not None
    assert report.verdict.status == "PASS", report.verdict.reason
    assert any("3.4e38 of infinities" in note for note in report.notes)


def test_the_inputs_of_a_keras_model_have_one_batch(tmp_path: Path) -> None:
    """Nothing else relates the size of a loop's state to the batch, and PyTorch inferred two sizes instead of one."""
    x, s = keras.Input((4, 3), name="x"), keras.Input((5,), name="s")
    y = keras.layers.GRU(5, activation="relu", recurrent_activation="hard_sigmoid")(x, initial_state=s)
    model = keras.Model([x, s], y)
    report = convert.convert(model, "torch", tmp_path / "m.pt2", verify=False)
    assert [(t.name, t.shape[0]) for t in report.inputs] == [("x", "batch"), ("s", "batch")]
    feeds = [{"x": image(n, 4, 3), "s": image(n, 5)} for n in (3, 1)]
    for feed, got in zip(feeds, run_target("torch", tmp_path / "m.pt2", feeds), strict=True):
        close(got[report.outputs[0].name], model([feed["x"], feed["s"]], training=False))
    named = convert.convert(model, "onnx", tmp_path / "m.onnx", inputs="s:float32[other,5]", verify=False)
    assert [t.shape[0] for t in named.inputs] == ["batch", "other"]
