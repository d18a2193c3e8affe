"""The chosen signature of a SavedModel is checked and loaded without what only others run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from convert.frontends.tensorflow.graph.saved_model_message import parse_saved_model
from convert.frontends.tensorflow.runner.allowed import check_file, checked_file

import convert
from convert.errors import UnsafeInput, UsageError
from convert.request.options import Options
from tests.frontends.tensorflow.graph.test_allowed import PLACES, add_function, add_node, saved_model, write

INFER = Options(signature="serving_default")


def with_second_signature(operator: str = "WriteFile") -> Any:
    """Return a SavedModel with a second signature, which calls a function with an operator of side effects."""
    saved = saved_model()
    meta = saved.meta_graphs[0]
    add_node(meta.graph_def.node, "s", "StatefulPartitionedCall", ("x",), f="saving")
    add_node(meta.graph_def.node, "after", "Identity", ("s",))
    add_function(meta.graph_def, "saving", ("n", operator, {}))
    meta.signature_def["save"].inputs["x"].name, meta.signature_def["save"].outputs["y"].name = "x:0", "s:0"
    return saved


@pytest.mark.parametrize("operator", ["WriteFile", "SaveV2", "RestoreV2", "PyFunc", "NobodyKnows"])
def test_other_signatures_are_left_out(tmp_path: Path, operator: str) -> None:
    source = write(tmp_path, with_second_signature(operator))
    with checked_file(source, INFER) as checked:
        meta = parse_saved_model(checked.file)[1].meta_graphs[0]
    assert list(meta.signature_def) == ["serving_default"]
    assert {n.name for n in meta.graph_def.node} == {"x", "y"}
    assert {f.signature.name for f in meta.graph_def.library.function} == {"outer", "inner"}


def test_the_signature_that_does_more_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnsafeInput, match="WriteFile") as error:
        check_file(write(tmp_path, with_second_signature()), Options(signature="save"))
    assert "--signature: serving_default" in error.value.hint
    assert "--outputs" not in error.value.hint


def test_the_signature_has_to_be_chosen(tmp_path: Path) -> None:
    saved = with_second_signature()
    signatures = saved.meta_graphs[0].signature_def
    signatures["infer"].CopyFrom(signatures["serving_default"])
    del signatures["serving_default"]
    with pytest.raises(UsageError, match="several signatures") as error:
        check_file(write(tmp_path, saved), Options())
    assert "infer, save" in error.value.hint


@pytest.mark.parametrize("place", PLACES)
def test_what_is_not_only_another_signatures_is_refused(tmp_path: Path, place: str) -> None:
    saved = with_second_signature()
    PLACES[place](saved, "WriteFile", {})
    with pytest.raises(UnsafeInput, match="WriteFile"):
        check_file(write(tmp_path, saved), INFER)


@pytest.mark.parametrize("name", ["_initialize", "_create_resource", "_restore_from_tensors"])
def test_functions_that_loading_calls_are_refused(tmp_path: Path, name: str) -> None:
    saved = with_second_signature()
    objects = saved.meta_graphs[0].object_graph_def
    objects.nodes.add().children.add(node_id=1, local_name=name)
    objects.nodes.add().function.concrete_functions.append("saving")
    objects.concrete_functions["saving"].SetInParent()
    with pytest.raises(UnsafeInput, match="WriteFile"):
        check_file(write(tmp_path, saved), INFER)


def test_saveable_objects_are_refused(tmp_path: Path) -> None:
    saved = with_second_signature()
    objects = saved.meta_graphs[0].object_graph_def
    objects.nodes.add().saveable_objects["s"].restore_function = 1
    objects.nodes.add().bare_concrete_function.concrete_function_name = "saving"
    objects.concrete_functions["saving"].SetInParent()
    with pytest.raises(UnsafeInput, match="WriteFile"):
        check_file(write(tmp_path, saved), INFER)


@pytest.mark.slow  # TensorFlow saves and loads models
@pytest.mark.parametrize("chosen", ["infer", "serving_default"])
def test_on_device_training_beside_inference(tmp_path: Path, chosen: str) -> None:
    """A module as in TensorFlow Lite's guide to on-device training; functions without signature count too."""
    import tensorflow as tf

    class Trained(tf.Module):
        def __init__(self) -> None:
            self.weight = tf.Variable(np.linspace(-1, 1, 18, dtype=np.float32).reshape(6, 3))

        @tf.function(input_signature=[tf.TensorSpec([None, 6])])
        def infer(self, x: Any) -> Any:
            return {"output": tf.nn.softmax(x @ self.weight)}

        @tf.function(input_signature=[tf.TensorSpec([None, 6])])
        def train(self, x: Any) -> Any:
            self.weight.assign_sub(0.1 * tf.reduce_mean(x) * self.weight)
            return {"loss": tf.reduce_mean(x)}

        @tf.function(input_signature=[tf.TensorSpec([], tf.string)])
        def save(self, path: Any) -> Any:
            tf.raw_ops.Save(filename=path, tensor_names=["w"], data=[self.weight.read_value()])
            return {"path": path}

        @tf.function(input_signature=[tf.TensorSpec([], tf.string)])
        def restore(self, path: Any) -> Any:
            self.weight.assign(tf.raw_ops.Restore(file_pattern=path, tensor_name="w", dt=tf.float32))
            return {"path": path}

    module = Trained()
    x = np.linspace(-2, 2, 24, dtype=np.float32).reshape(4, 6)
    expected = module.infer(x)["output"].numpy()
    signatures = {n: getattr(module, n).get_concrete_function() for n in ("infer", "train", "save", "restore")}
    tf.saved_model.save(module, tmp_path / "m", module.infer if chosen == "serving_default" else signatures)
    report = convert.convert(tmp_path / "m", "onnx", tmp_path / "m.onnx", signature=chosen)
    assert report.verdict is not None
    assert report.verdict.status == "PASS"
    import onnxruntime

    session = onnxruntime.InferenceSession(tmp_path / "m.onnx")
    np.testing.assert_allclose(session.run(None, {"x": x})[0], expected, rtol=1e-5)
