"""Whole SavedModels and frozen graphs against onnxruntime: names, layout, dynamic batch, trainable weights."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import convert
from convert.errors import Unsupported
from tests.support.tensorflow_networks import INPUT, OUTPUT, close, image, onnxruntime_of, resnet, write

tf = pytest.importorskip("tensorflow")

FIXTURES = Path(__file__).parents[3] / "fixtures"


def operations(path: Path) -> Counter:
    """Return how often each operation occurs in the saved function."""
    from tensorflow.core.protobuf import saved_model_pb2

    saved = saved_model_pb2.SavedModel.FromString((path / "saved_model.pb").read_bytes())
    functions = saved.meta_graphs[0].graph_def.library.function
    ours = [f for f in functions if "wrapped_function" in f.signature.name]
    assert len(ours) == 1  # constants are stored once per function
    return Counter(node.op for node in ours[0].node_def)


ARGUMENT = "input_1_0"
"""The name of `INPUT` as the keyword of a function's argument."""


@pytest.mark.parametrize("weights", ["variables", "constants"])
def test_saved_model_computes_what_the_graph_does(tmp_path: Path, weights: str) -> None:
    proto, path = resnet(), tmp_path / "net.savedmodel"
    write(proto, path, weights=weights)
    serving = tf.saved_model.load(str(path)).signatures["serving_default"]
    assert list(serving.structured_input_signature[1]) == [ARGUMENT]
    assert list(serving.structured_outputs) == [OUTPUT]
    for batch in (1, 3):
        x = image(batch, 3, 32, 32)
        close(serving(**{ARGUMENT: tf.constant(x)})[OUTPUT].numpy(), onnxruntime_of(proto, {INPUT: x})[0])


def test_signature_def_has_the_names_and_a_dynamic_batch(tmp_path: Path) -> None:
    from tensorflow.core.protobuf import saved_model_pb2

    path = tmp_path / "net.savedmodel"
    write(resnet(), path)
    saved = saved_model_pb2.SavedModel.FromString((path / "saved_model.pb").read_bytes())
    definition = saved.meta_graphs[0].signature_def["serving_default"]
    assert set(definition.inputs) == {ARGUMENT}
    assert set(definition.outputs) == {OUTPUT}
    assert [d.size for d in definition.inputs[ARGUMENT].tensor_shape.dim] == [-1, 3, 32, 32]


def test_a_network_is_channels_last_throughout(tmp_path: Path) -> None:
    path = tmp_path / "net.savedmodel"
    write(resnet(), path)
    found = operations(path)
    assert found["Transpose"] == 1  # the input's
    assert found["DepthwiseConv2dNative"] == 1
    assert found["Shape"] == 0
    assert found["Mul"] <= 3  # the gate and HardSwish; no BatchNormalization is left
    weights = tf.saved_model.load(str(path)).trainable_variables
    assert (7, 7, 3, 8) in {tuple(w.shape) for w in weights}


@pytest.mark.slow
def test_layout_nhwc_moves_the_boundary(tmp_path: Path) -> None:
    proto, path = resnet(), tmp_path / "net.savedmodel"
    write(proto, path, layout="nhwc")
    assert operations(path)["Transpose"] == 0
    serving = tf.saved_model.load(str(path)).signatures["serving_default"]
    x = image(2, 3, 32, 32)
    got = serving(**{ARGUMENT: tf.constant(x.transpose(0, 2, 3, 1))})[OUTPUT].numpy()
    close(got, onnxruntime_of(proto, {INPUT: x})[0])


def test_no_weight_is_transposed_at_run_time(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Conv", ["x", "a"], ["u"], group=2, dilations=[2], pads=[2, 2]),  # one convolution per group
        helper.make_node("ConvTranspose", ["u", "b"], ["y"], group=2, dilations=[2], strides=[2]),
    ]
    rng = np.random.default_rng(0)
    weights = {"a": (6, 2, 3), "b": (6, 2, 3)}
    tensors = [numpy_helper.from_array(rng.normal(size=s).astype(np.float32), name) for name, s in weights.items()]
    ends = [[helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", 4, 8])] for name in "xy"]
    ends[1][0].type.tensor_type.ClearField("shape")
    graph = helper.make_graph(nodes, "net", *ends, tensors)
    proto, path = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9), tmp_path / "net"
    write(proto, path)
    assert operations(path)["Transpose"] == 2  # of the input and the output
    x = image(2, 4, 8)
    got = tf.saved_model.load(str(path)).signatures["serving_default"](x=tf.constant(x))["y"].numpy()
    close(got, onnxruntime_of(proto, {"x": x})[0])


def test_the_mnist_fixture(tmp_path: Path) -> None:
    proto, path = onnx.load(FIXTURES / "mnist_cnn.onnx"), tmp_path / "mnist.savedmodel"
    write(proto, path)
    serving = tf.saved_model.load(str(path)).signatures["serving_default"]
    for batch in (1, 3):
        x = image(batch, 1, 28, 28)
        want = onnxruntime_of(proto, {proto.graph.input[0].name: x})[0]
        close(serving(**{proto.graph.input[0].name: tf.constant(x)})[proto.graph.output[0].name].numpy(), want)


def test_super_resolution_takes_any_height_and_width(tmp_path: Path) -> None:
    proto, path = onnx.load(FIXTURES / "super_resolution.onnx"), tmp_path / "sr.savedmodel"
    write(proto, path)
    serving = tf.saved_model.load(str(path)).signatures["serving_default"]
    for shape in ((1, 1, 16, 20), (2, 1, 9, 7)):
        x = image(shape[0], *shape[1:])
        want = onnxruntime_of(proto, {proto.graph.input[0].name: x})[0]
        close(serving(**{proto.graph.input[0].name: tf.constant(x)})[proto.graph.output[0].name].numpy(), want)


@pytest.mark.slow
def test_a_saved_model_goes_on_training(tmp_path: Path) -> None:
    proto, path = onnx.load(FIXTURES / "mnist_cnn.onnx"), tmp_path / "mnist.savedmodel"
    write(proto, path)
    loaded = tf.saved_model.load(str(path))
    serving = loaded.signatures["serving_default"]
    digits = np.load(FIXTURES / "digits_test.npz")
    x, labels = (digits[key] for key in digits.files[:2])
    x, labels = tf.constant(x[:64].astype(np.float32)), tf.constant((labels[:64].astype(np.int64) + 1) % 10)

    def loss_of() -> tf.Tensor:
        (log_probs,) = serving(**{proto.graph.input[0].name: x}).values()
        return tf.reduce_mean(tf.keras.losses.sparse_categorical_crossentropy(labels, log_probs, from_logits=True))

    losses, before = [], [np.array(v) for v in loaded.trainable_variables]
    assert len(before) == 8
    for _ in range(10):
        with tf.GradientTape() as tape:
            loss = loss_of()
        gradients = tape.gradient(loss, loaded.trainable_variables)
        assert None not in gradients
        for variable, gradient in zip(loaded.trainable_variables, gradients, strict=True):
            variable.assign_sub(0.01 * gradient)
        losses.append(float(loss))
    assert float(loss_of()) < losses[-1] < 0.7 * losses[0]
    for old, new in zip(before, loaded.trainable_variables, strict=True):
        assert not np.array_equal(old, new), new.name


def test_dtypes_and_order_are_kept(tmp_path: Path) -> None:
    graph = helper.make_graph(
        [
            helper.make_node("Add", ["b", "b"], ["z"]),
            helper.make_node("Cast", ["a"], ["y"], to=TensorProto.DOUBLE),
            helper.make_node("Identity", ["b"], ["x"]),
        ],
        "g",
        [
            helper.make_tensor_value_info("b", TensorProto.INT64, ["n"]),
            helper.make_tensor_value_info("a", TensorProto.FLOAT16, []),
        ],
        [
            helper.make_tensor_value_info("z", TensorProto.INT64, ["n"]),
            helper.make_tensor_value_info("y", TensorProto.DOUBLE, []),
            helper.make_tensor_value_info("x", TensorProto.INT64, ["n"]),
        ],
    )
    path = tmp_path / "m.savedmodel"
    write(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)]), path)
    loaded = tf.saved_model.load(str(path))
    b, a = tf.constant([2**40, -1], tf.int64), tf.constant(1.5, tf.float16)
    found = loaded.signatures["serving_default"](a=a, b=b)
    assert {k: v.dtype for k, v in found.items()} == {"z": tf.int64, "y": tf.float64, "x": tf.int64}
    assert found["z"].numpy().tolist() == [2**41, -2]
    assert loaded(b, a).keys() == found.keys()


def test_frozen_graph(tmp_path: Path) -> None:
    proto, path = resnet(), tmp_path / "net.pb"
    report = write(proto, path, "tf-frozen")
    assert len(report.notes) == 2  # neither name is legal
    definition = tf.compat.v1.GraphDef.FromString(path.read_bytes())
    assert not {n.op for n in definition.node} & {"VarHandleOp", "ReadVariableOp", "PartitionedCall"}
    with tf.Graph().as_default() as graph:
        tf.import_graph_def(definition, name="")
    placeholders = [n.name for n in definition.node if n.op == "Placeholder"]
    assert placeholders == ["input.1_0"]
    assert definition.node[-1].op == "Identity"
    x = image(3, 3, 32, 32)
    with tf.compat.v1.Session(graph=graph) as session:
        got = session.run(f"{definition.node[-1].name}:0", {f"{placeholders[0]}:0": x})
    close(got, onnxruntime_of(proto, {INPUT: x})[0])


def test_every_operator_without_a_rule_is_listed_before_any_work(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Mystery", ["x"], ["a"], domain="their.domain", name="first"),
        helper.make_node("Riddle", ["a"], ["y"], domain="their.domain", name="second"),
    ]
    graph = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info("x", 1, [1])], [helper.make_tensor_value_info("y", 1, [1])]
    )
    proto = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 20), helper.make_opsetid("their.domain", 1)]
    )
    with pytest.raises(Unsupported) as caught:
        write(proto, tmp_path / "m.savedmodel")
    assert "their.domain::Mystery" in str(caught.value)
    assert "their.domain::Riddle" in str(caught.value)
    assert not (tmp_path / "m.savedmodel").exists()


def test_operators_without_a_rule_are_expanded_from_the_standard(tmp_path: Path) -> None:
    from convert.backends.tensorflow import ops  # noqa: F401
    from convert.backends.tensorflow.rules import onnx_op as table

    assert "CenterCropPad" not in table
    graph = helper.make_graph(
        [helper.make_node("CenterCropPad", ["x", "shape"], ["y"], axes=[1, 2])],
        "g",
        [helper.make_tensor_value_info("x", 1, ["n", 5, 6]), helper.make_tensor_value_info("shape", 7, [2])],
        [helper.make_tensor_value_info("y", 1, ["n", None, None])],
    )
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
    path = tmp_path / "m.savedmodel"
    write(proto, path)
    x, shape = image(2, 5, 6), np.array([3, 9], np.int64)
    got = (
        tf.saved_model.load(str(path))
        .signatures["serving_default"](x=tf.constant(x), shape=tf.constant(shape))["y"]
        .numpy()
    )
    np.testing.assert_array_equal(got, onnxruntime_of(proto, {"x": x, "shape": shape})[0])


def test_a_shared_weight_is_one_variable(tmp_path: Path) -> None:
    weight = numpy_helper.from_array(image(4, 4), "w")
    nodes = [helper.make_node("MatMul", ["x", "w"], ["a"]), helper.make_node("MatMul", ["a", "w"], ["y"])]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", 1, ["n", 4])],
        [helper.make_tensor_value_info("y", 1, ["n", 4])],
        [weight],
    )
    path = tmp_path / "m.savedmodel"
    write(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)]), path)
    assert len(tf.saved_model.load(str(path)).trainable_variables) == 1


def test_what_the_source_does_not_train_is_not_trained(tmp_path: Path) -> None:
    from tests.backends.pytorch.test_training import Filtered

    source = Filtered().eval()
    convert.convert(source, "tf", tmp_path / "m.savedmodel", inputs="x:float32[batch,12]", verify=False)
    loaded = tf.saved_model.load(str(tmp_path / "m.savedmodel"))
    own = sorted(p.numel() for p in source.parameters())
    assert sorted(int(np.prod(v.shape)) for v in loaded.trainable_variables) == own
    with tf.GradientTape() as tape:
        serving = loaded.signatures["serving_default"]
        loss = tf.reduce_sum(serving(x=tf.ones([2, 12]))["output"])
    assert sorted(int(np.prod(v.shape)) for v in tape.watched_variables()) == own
    assert None not in tape.gradient(loss, loaded.trainable_variables)
