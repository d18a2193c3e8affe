"""Frozen graphs and SavedModels of constants: names of inputs and outputs, no variables, less than 2 GiB."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx_ir as ir
import pytest
from convert.frontends.tensorflow.runner.graph_signature import signature_tensor_names
from onnx import TensorProto, helper

from convert import plugin
from convert.errors import ResourceLimit
from convert.outcome.report import Report
from convert.request.options import Options
from convert.request.source import Source
from tests.support.tensorflow_networks import INPUT, Net, close, image, onnxruntime_of, resnet, write

tf = pytest.importorskip("tensorflow")


def several_ends() -> tuple:
    """Return a model with inputs and outputs out of alphabetical order, names that collide once they are legal, and an
    unused input.
    """
    nodes = [
        helper.make_node("Add", ["z", "z"], ["b:0"]),
        helper.make_node("Neg", ["a"], ["b_0"]),
        helper.make_node("Identity", ["a"], ["A"]),
        helper.make_node("Mul", ["b:0", "b:0"], ["model"]),
    ]
    sides = [
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, ["n"]) for n in names]
        for names in (("z", "unused", "a"), ("model", "b:0", "b_0", "A"))
    ]
    proto = helper.make_model(
        helper.make_graph(nodes, "ends", *sides), opset_imports=[helper.make_opsetid("", 20)], ir_version=10
    )
    z, a = np.array([1, 2], np.float32), np.array([3, -4], np.float32)
    return proto, {"z": z, "unused": z, "a": a}, [4 * z * z, 2 * z, -a, a]


def test_the_ends_of_a_frozen_graph_are_found_again_in_order(tmp_path: Path) -> None:
    proto, feed, want = several_ends()
    path = tmp_path / "m.pb"
    report = write(proto, path, "tf-frozen")
    source = Source("frozen-graph", path)
    inputs, _ = signature_tensor_names(tf.compat.v1.GraphDef.FromString(path.read_bytes()), [], [])
    assert list(inputs) == ["z", "unused", "a"]
    runner = plugin.runner_for("frozen-graph")
    assert runner is not None
    (found,) = runner.run(source, [feed], precision="float32", options=Options())
    for got, expected in zip(found.values(), want, strict=True):
        np.testing.assert_array_equal(got, expected)
    # A note lists every name that differs in the file, with its new name.
    outputs = dict(zip(("model", "b:0", "b_0", "A"), found, strict=True))
    assert len(set(outputs.values())) == 4
    for real, name in outputs.items():
        assert real == name or any(repr(real) in note and repr(name) in note for note in report.notes)


@pytest.mark.parametrize("weights", ["variables", "constants"])
def test_a_signature_tells_its_ends_whatever_their_names(weights: str, tmp_path: Path) -> None:
    proto, feed, want = several_ends()
    path = tmp_path / "m.savedmodel"
    write(proto, path, weights=weights)
    found = tf.saved_model.load(str(path)).signatures["serving_default"](**{k: tf.constant(v) for k, v in feed.items()})
    for name, expected in zip(("model", "b:0", "b_0", "A"), want, strict=True):
        np.testing.assert_array_equal(found[name].numpy(), expected)


@pytest.mark.slow
def test_constants_leave_no_variables_and_the_same_signature(tmp_path: Path) -> None:
    from tensorflow.core.protobuf import saved_model_pb2

    signatures = []
    for weights in ("variables", "constants"):
        path = tmp_path / weights
        write(resnet(), path, weights=weights)
        saved = saved_model_pb2.SavedModel.FromString((path / "saved_model.pb").read_bytes())
        (meta,) = saved.meta_graphs
        signature = meta.signature_def["serving_default"]
        signatures.append(
            [
                {k: (v.dtype, [d.size for d in v.tensor_shape.dim]) for k, v in side.items()}
                for side in (signature.inputs, signature.outputs)
            ]
        )
        operations = {n.op for f in meta.graph_def.library.function for n in f.node_def}
        assert ("ReadVariableOp" in operations) == (weights == "variables")
        assert (len(tf.saved_model.load(str(path)).trainable_variables) > 0) == (weights == "variables")
    assert signatures[0] == signatures[1]


@pytest.mark.parametrize(("weights", "before"), [("variables", "Squeeze"), ("constants", "BiasAdd")])
def test_a_convolution_of_variables_is_kept_apart_from_activations_that_are_slow_fused(
    weights: str, before: str, tmp_path: Path
) -> None:
    """`tests/benchmarks/variables.py` shows why."""
    from tensorflow.core.protobuf import saved_model_pb2

    net = Net()
    x = net.add("Elu", net.conv(INPUT, 3, 8, activation=""))
    x = net.add("Relu", net.conv(x, 8, 8, activation=""))
    x = net.add("Add", x, net.conv(x, 8, 8, activation=""))
    x = net.add("Flatten", net.add("GlobalAveragePool", x))
    proto = net.model(net.add("Gemm", x, net.weight(10, 8), net.weight(10), transB=1))
    write(proto, tmp_path / "m", weights=weights)
    saved = saved_model_pb2.SavedModel.FromString((tmp_path / "m" / "saved_model.pb").read_bytes())
    found = {}
    for function in saved.meta_graphs[0].graph_def.library.function:
        operations = {n.name: n.op for n in function.node_def}
        readers = [n for n in function.node_def if n.op in ("Elu", "Relu", "AddV2")]
        found |= {n.op: operations[n.input[-1].split(":")[0]] for n in readers}
    assert found == {"Elu": before, "Relu": "BiasAdd", "AddV2": before}
    signature = tf.saved_model.load(str(tmp_path / "m")).signatures["serving_default"]
    (got,) = signature(
        **{k: tf.constant(image(2, 3, 32, 32)) for k in signature.structured_input_signature[1]}
    ).values()
    close(got.numpy(), onnxruntime_of(proto, {INPUT: image(2, 3, 32, 32)})[0])


@pytest.mark.parametrize(
    ("form", "weights"), [("tf-frozen", "variables"), ("tf", "constants"), ("tflite", "variables")]
)
def test_what_is_one_message_refuses_weights_of_2_gib(form: str, weights: str, tmp_path: Path) -> None:
    model = ir.from_proto(several_ends()[0])

    def content() -> np.ndarray:
        raise AssertionError("no byte of a weight is to be read")

    x = model.graph.inputs[2]
    shape = ir.Shape([2**29])
    tensor = ir.LazyTensor(lambda: ir.tensor(content()), dtype=ir.DataType.FLOAT, shape=shape, name="w")
    weight = ir.Value(name="w", shape=shape, type=ir.TensorType(ir.DataType.FLOAT), const_value=tensor)
    model.graph.register_initializer(weight)
    node = ir.node("Mul", [x, weight], outputs=[ir.Value(name="y", shape=shape, type=weight.type)])
    model.graph.append(node)
    model.graph.outputs.append(node.outputs[0])
    backend = plugin.backend_for(form)
    with pytest.raises(ResourceLimit, match="weights variables" if form != "tflite" else "--to tf"):
        backend.write(model, tmp_path / "out", form, Options(extra={"weights": weights}), Report("test"))
    assert not (tmp_path / "out").exists()
