"""The TensorFlow frontend on whole models: files and objects, TensorFlow 1 and 2, against TensorFlow's own numbers."""

from __future__ import annotations

import mmap
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
from convert.backends.onnx.lower import lower

import convert
from convert.errors import BadInput, Unsupported, UsageError
from convert.request.options import parse_input
from convert.request.source import Source
from tests.support.tensorflow_helper import agrees, images, read, shapes

os.environ.setdefault("KERAS_BACKEND", "tensorflow")
tf = pytest.importorskip("tensorflow", reason="TensorFlow is the oracle")
import keras  # noqa: E402  (after the choice of its backend)

FIXTURES = Path(__file__).parents[3] / "fixtures"


# -- the fixture, in its three kinds ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "file", "output"),
    [
        ("savedmodel", "mnist_cnn.savedmodel", "output_0"),
        ("keras", "mnist_cnn.keras", "log_probs"),
        ("frozen-graph", "mnist_cnn_frozen.pb", "log_probs"),
    ],
)
def test_mnist(kind: str, file: str, output: str) -> None:
    feeds = [{"image": images(n, 28, 28, 1)} for n in (3, 1)]
    model = agrees(Source(kind, FIXTURES / file), feeds)
    assert shapes(model) == {"image": ["batch", 28, 28, 1], output: ["batch", 10]}
    counts = Counter(n.op_type for n in model.graph)
    assert counts == {"Transpose": 6, "Conv": 2, "Relu": 3, "MaxPool": 1, "Reshape": 1, "Gemm": 2, "LogSoftmax": 1}
    assert model.metadata_props["convert.dims"] == '{"batch": [1, null]}'


def test_files_are_read_without_importing_tensorflow() -> None:
    code = (
        "import sys, pathlib; from convert.frontends import tensorflow as f; from convert.request.source import Source;"
        "from convert.request.options import Options; from convert.outcome.report import Report;"
        f"root = pathlib.Path({str(FIXTURES)!r});"
        "f.read(Source('savedmodel', root / 'mnist_cnn.savedmodel'), Options(), Report('convert'));"
        "f.read(Source('frozen-graph', root / 'mnist_cnn_frozen.pb'), Options(), Report('convert'));"
        "print([m for m in ('tensorflow', 'keras', 'h5py') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("file", ["mnist_cnn.savedmodel", "mnist_cnn_frozen.pb"])
def test_weights_stay_in_the_file(file: str) -> None:
    kind = "savedmodel" if file.endswith("savedmodel") else "frozen-graph"
    model = read(Source(kind, FIXTURES / file))
    largest = max((v.const_value for v in model.graph.initializers.values()), key=lambda t: t.nbytes)
    array = largest.numpy()
    while isinstance(array, np.ndarray) and array.base is not None:
        array = array.base
    assert isinstance(array, (memoryview, mmap.mmap))


# -- Keras models ---------------------------------------------------------------------------------------------------


def test_keras_names_and_several_inputs_and_outputs(tmp_path: Path) -> None:
    a, b = keras.Input((4,), name="left"), keras.Input((3,), name="right")
    joined = keras.layers.Concatenate()([a, b])
    model = keras.Model([a, b], {"total": keras.ops.sum(joined, axis=1), "double": keras.layers.Dense(2)(joined)})
    feeds = [{"left": images(n, 4), "right": images(n, 3)} for n in (2, 1)]
    graph = agrees(Source("keras-object", model=model), feeds)
    assert set(shapes(graph)) == {"left", "right", "total", "double"}
    model.export(tmp_path / "m", verbose=False)
    graph = agrees(Source("savedmodel", tmp_path / "m"), feeds)
    assert set(shapes(graph)) == {"left", "right", "total", "double"}


def test_legacy_h5(tmp_path: Path) -> None:
    model = keras.Sequential([keras.Input((5,), name="x"), keras.layers.Dense(3, activation="elu", name="y")])
    model.save(tmp_path / "m.h5")
    agrees(Source("keras-h5", tmp_path / "m.h5"), [{"x": images(2, 5)}])


# -- functions, signatures and variables ------------------------------------------------------------------------------


def test_layers_beside_the_networks_that_use_them_are_kerass_own(tmp_path: Path) -> None:
    from keras.src.applications.convnext import LayerScale
    from keras.src.applications.inception_resnet_v2 import CustomScaleLayer

    x = keras.Input((3,), name="x")
    y = CustomScaleLayer(0.25)([x, LayerScale(0.5, 3)(x)])
    keras.Model(x, y).save(tmp_path / "m.keras")
    agrees(Source("keras", tmp_path / "m.keras"), [{"x": images(2, 3)}])


def test_function_with_nested_calls_and_dict_result() -> None:
    weight = tf.Variable(images(3, 3), name="weight")

    @tf.function
    def inner(x: Any) -> Any:
        return tf.matmul(x, weight) + tf.reduce_sum(weight)

    @tf.function(input_signature=[tf.TensorSpec([None, 3], name="x")])
    def outer(x: Any) -> Any:
        return {"once": inner(x), "twice": inner(inner(x)), "length": tf.shape(x)[0]}

    graph = agrees(Source("tf-function-object", model=outer), [{"x": images(n, 3)} for n in (4, 1)])
    weights = [v for v in graph.graph.initializers.values() if v.const_value is not None and v.const_value.size == 9]
    assert len(weights) == 1
    assert shapes(graph)["twice"] == ["batch", 3]


def test_function_without_signature_needs_specs() -> None:
    function = tf.function(lambda x: x + 1.0)
    with pytest.raises(UsageError, match="input_signature"):
        read(Source("tf-function-object", model=function))
    graph = read(Source("tf-function-object", model=function), inputs=(parse_input("x:float32[n,2]"),))
    assert shapes(graph)["x"] == ["n", 2]


def _module(folder: Path) -> Path:
    class Module(tf.Module):
        def __init__(self) -> None:
            self.scale = tf.Variable(images(3), name="same")
            self.shift = tf.Variable(images(3, seed=7), name="same")  # one name for two variables

        @tf.function(input_signature=[tf.TensorSpec([None, 3], name="x")])
        def apply(self, x: Any) -> Any:
            return x * self.scale + self.shift

        @tf.function(input_signature=[tf.TensorSpec([None, 3], name="x")])
        def count(self, x: Any) -> Any:
            self.scale.assign_add(x[0])
            return x * self.scale

    module = Module()
    tf.saved_model.save(module, str(folder), signatures={"apply": module.apply, "count": module.count})
    return folder


def test_signature_is_chosen_and_equal_names_are_told_apart(tmp_path: Path) -> None:
    source = Source("savedmodel", _module(tmp_path / "m"))
    with pytest.raises(UsageError, match="several signatures") as error:
        read(source)
    assert "apply, count" in error.value.hint
    with pytest.raises(UsageError, match="no signature 'nothing'"):
        read(source, signature="nothing")
    agrees(source, [{"x": images(2, 3)}], signature="apply")


def test_changed_state_is_an_input_and_an_output(tmp_path: Path) -> None:
    """test_state.py tests this in detail."""
    source = Source("savedmodel", _module(tmp_path / "m"))
    x, state = read(source, signature="count").graph.inputs
    agrees(source, [{str(x.name): images(2, 3), str(state.name): images(3)}], signature="count")


def test_what_tensorflow_can_no_longer_load(tmp_path: Path) -> None:
    """An optimizer's slot variables refer to a missing object, as in files of older Keras versions."""
    from tensorflow.core.protobuf.saved_model_pb2 import SavedModel

    file = _module(tmp_path / "m") / "saved_model.pb"
    saved = SavedModel.FromString(file.read_bytes())
    nodes = saved.meta_graphs[0].object_graph_def.nodes
    first, second = [i for i, node in enumerate(nodes) if node.HasField("variable")][:2]
    nodes[0].slot_variables.add(original_variable_node_id=first, slot_name="m", slot_variable_node_id=second)
    file.write_bytes(saved.SerializeToString())
    with pytest.raises(AttributeError, match="add_slot"):
        tf.saved_model.load(str(file.parent))
    agrees(Source("savedmodel", file.parent), [{"x": images(2, 3)}], signature="apply")


@pytest.mark.parametrize("resource", [False, True])
def test_tensorflow_1_saved_model(tmp_path: Path, resource: bool) -> None:
    v1 = tf.compat.v1
    folder = tmp_path / "m"
    with tf.Graph().as_default(), v1.Session() as session:
        x = v1.placeholder(tf.float32, [None, 4], name="x")
        with v1.variable_scope("layer", use_resource=resource):
            w = v1.get_variable("w", initializer=images(4, 2))
            b = v1.get_variable("b", initializer=images(2))
        y = tf.nn.relu(tf.matmul(x, w) + b, name="y")
        session.run(v1.global_variables_initializer())
        session.run(v1.assign(w, images(4, 2, seed=5)))
        v1.saved_model.simple_save(session, str(folder), {"in": x}, {"out": y})
    agrees(Source("savedmodel", folder), [{"in": images(n, 4)} for n in (3, 1)])


def test_graph_def_in_memory_cut_at_named_tensors() -> None:
    graph = tf.compat.v1.GraphDef.FromString((FIXTURES / "mnist_cnn_frozen.pb").read_bytes())
    source = Source("graphdef-object", model=graph)
    first = "mnist_cnn_1/conv1_1/Relu"
    model = read(source, outputs=(first, "mnist_cnn_1/pool_1/MaxPool2d:0"))
    assert [v.name for v in model.graph.outputs] == [first, "mnist_cnn_1/pool_1/MaxPool2d"]
    with pytest.raises(UsageError, match="no node 'nowhere'"):
        read(source, outputs=("nowhere",))
    for description in (f"{first}:float32[batch,26,26,8]", first, f"{first}:0"):
        later = read(source, inputs=(parse_input(description),))
        assert {first: shapes(later)[first]} == {first: ["batch", 26, 26, 8]}, "of a tensor the graph tells the shape"
        assert [v.name for v in later.graph.inputs] == [first]


def test_an_input_of_unknown_rank_stays_one_until_it_is_described() -> None:
    function = tf.function(tf.nn.relu, input_signature=[tf.TensorSpec(None, name="x")], autograph=False)
    source = Source("tf-function-object", model=function)
    model = read(source)
    lower(model, 20)
    assert [v.shape for v in (*model.graph.inputs, *model.graph.outputs)] == [None, None]
    model = read(source, inputs=(parse_input("x:float32[batch,3]"),))
    lower(model, 20)
    assert shapes(model)["x"] == ["batch", 3]


def test_user_may_fix_dims_that_are_open() -> None:
    source = Source("savedmodel", FIXTURES / "mnist_cnn.savedmodel")
    graph = read(source, inputs=(parse_input("image:float32[n=1..8,28,28,1]"),))
    assert shapes(graph)["image"][0] == shapes(graph)["output_0"][0] == "n"
    assert graph.metadata_props["convert.dims"] == '{"n": [1, 8]}'
    assert shapes(read(source, inputs=(parse_input("float32[4,28,28,1]"),)))["output_0"] == [4, 10]
    with pytest.raises(UsageError, match="dim 1 of the input 'image' is 28"):
        read(source, inputs=(parse_input("image:float32[n,29,28,1]"),))


def test_every_missing_operator_is_listed() -> None:
    @tf.function(input_signature=[tf.TensorSpec([2, 2], tf.string, name="x")])
    def function(x: Any) -> Any:
        start = tf.strings.substr(x, 0, 2)
        return tf.strings.length(x) + tf.strings.length(tf.strings.strip(x)), start

    with pytest.raises(Unsupported) as error:
        read(Source("tf-function-object", model=function))
    assert {p.at.operator: p.count for p in error.value.problems} == {
        "StringLength": 2, "StringStrip": 1, "Substr": 1,
    }  # fmt: skip


def test_truncated_files(tmp_path: Path) -> None:
    whole = (FIXTURES / "mnist_cnn_frozen.pb").read_bytes()
    for keep in (0, 10, len(whole) // 2, len(whole) - 1):
        (tmp_path / "cut.pb").write_bytes(whole[:keep])
        with pytest.raises(BadInput):
            read(Source("frozen-graph", tmp_path / "cut.pb"))


def test_random_numbers_are_of_the_shape_dtype_and_range_that_was_asked_for() -> None:
    @tf.function(input_signature=[tf.TensorSpec([None, 40], name="x")])
    def function(x: Any) -> Any:
        return tf.random.uniform(tf.shape(x), 2.0, 3.0), tf.random.normal(tf.shape(x), 5.0, 0.1, tf.float64)

    proto = convert.to_onnx(function, verify=False)
    session = onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    uniform, normal = session.run(None, {"x": images(50, 40)})
    assert (uniform.dtype, uniform.shape, normal.dtype, normal.shape) == (np.float32, (50, 40), np.float64, (50, 40))
    assert 2.0 <= uniform.min() < 2.1 < 2.9 < uniform.max() <= 3.0
    assert abs(normal.mean() - 5.0) < 0.02
    assert abs(normal.std() - 0.1) < 0.02


def test_real_numbers_become_complex_and_real_again() -> None:
    def body(x: Any) -> Any:
        z = tf.cast(x, tf.complex64) * tf.constant(1 + 2j, tf.complex64)
        return {"size": tf.abs(z), "real": tf.cast(tf.cast(z, tf.complex128), tf.float64)}

    function = tf.function(body, input_signature=[tf.TensorSpec([None, 4], name="x")])
    agrees(Source("tf-function-object", model=function), [{"x": images(n, 4)} for n in (2, 1)])
