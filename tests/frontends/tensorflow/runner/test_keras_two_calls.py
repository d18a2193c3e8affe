"""Calls, functions and names that Keras 2 wrote and that Keras 3 does not read; the files are written by hand."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from convert.errors import BadInput, UnsafeInput
from tests.frontends.tensorflow.runner.test_keras_two import found, old_file, weights
from tests.support.keras_helper import keras, layers
from tests.support.tensorflow_helper import images

h5py = pytest.importorskip("h5py", reason="Keras 2 wrote HDF5")

Entry = dict[str, Any]


def _input(name: str, *shape: int) -> Entry:
    config = {"batch_input_shape": [None, *shape], "dtype": "float32", "sparse": False, "ragged": False, "name": name}
    return {"class_name": "InputLayer", "config": config, "name": name, "inbound_nodes": []}


def _layer(kind: str, name: str, node: Any, **config: Any) -> Entry:
    return {"class_name": kind, "config": {"name": name, **config}, "name": name, "inbound_nodes": [node]}


def _function(function: str, node: Any, name: str = "f") -> Entry:
    kind = "SlicingOpLambda" if function.endswith("getitem") else "TFOpLambda"
    return _layer(kind, name, node, trainable=True, dtype="float32", function=function)


def _model(*entries: Entry) -> Entry:
    inputs = [[e["name"], 0, 0] for e in entries if e["class_name"] == "InputLayer"]
    config = {
        "name": "m",
        "layers": list(entries),
        "input_layers": inputs,
        "output_layers": [[entries[-1]["name"], 0, 0]],
    }
    return {"class_name": "Functional", "config": config}


def _write(path: Path, config: Entry, version: str = "2.15.0", model: Any = None) -> Path:
    """Write a configuration as HDF5, with the weights of a model of Keras 3."""
    if model is not None:
        model.save(path)
    with h5py.File(path, "a") as file:
        if model is None:
            file.create_group("model_weights").attrs["layer_names"] = np.array([], "S1")
        file.attrs.update(model_config=json.dumps(config), keras_version=version, backend="tensorflow")
    return path


def _x(**arguments: Any) -> list[Any]:
    return ["x", 0, 0, arguments]


_Y = ["y", 0, 0]
_ALL = {"start": None, "stop": None, "step": None}
_ELLIPSIS = {"class_name": "__ellipsis__"}
_PADS = [[0, 0], [1, 0], [0, 2]]
FUNCTIONS: dict[str, tuple[str, Any, Callable[[np.ndarray, np.ndarray], np.ndarray]]] = {
    "add": ("__operators__.add", _x(y=1.5, name=None), lambda x, y: x + 1.5),
    "reversed": ("math.subtract", ["_CONSTANT_VALUE", -1, 1.0, {"y": ["x", 0, 0]}], lambda x, y: 1 - x),
    "two": ("math.multiply", _x(y=_Y, name=None), lambda x, y: x * y),
    "matmul": ("linalg.matmul", _x(b=_Y, transpose_b=True), lambda x, y: x @ y.swapaxes(1, 2)),
    "list": ("concat", [_x(axis=-1), [*_Y, {"axis": -1}]], lambda x, y: np.concatenate([x, y], -1)),
    "list of one": ("math.add_n", [_x()], lambda x, y: x),
    "axes": ("math.reduce_mean", _x(axis=[1, 2], keepdims=True), lambda x, y: x.mean((1, 2), keepdims=True)),
    "pad": ("compat.v1.pad", _x(paddings=_PADS), lambda x, y: np.pad(x, _PADS)),
    "slice": (
        "__operators__.getitem",
        _x(slice_spec=[_ALL, _ALL | {"step": 2}, None, -1]),
        lambda x, y: x[:, ::2, None, -1],
    ),
    "ellipsis": ("__operators__.getitem", _x(slice_spec=[_ELLIPSIS, 0]), lambda x, y: x[..., 0]),
    "dtype": ("cast", _x(dtype="int32"), lambda x, y: x.astype(np.int32)),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_as_layers(tmp_path: Path, name: str) -> None:
    function, node, want = FUNCTIONS[name]
    x, y = images(2, 3, 4), images(2, 3, 4, seed=1)
    # Both inputs are used, so that both remain.
    joined = _layer("Concatenate", "ends", [["x", 0, 0, {}], ["y", 0, 0, {}]], axis=-1)
    model = _model(_input("x", 3, 4), _input("y", 3, 4), joined, _function(function, node))
    model["config"]["output_layers"].append(["ends", 0, 0])
    got = found(_write(tmp_path / "m.h5", model), x, y)[0]
    np.testing.assert_allclose(got, want(x, y), 1e-5, 1e-5)


def test_a_shape_among_the_arguments(tmp_path: Path) -> None:
    sizes = _function("compat.v1.shape", ["x", 0, 0, {"out_type": "int32"}], "sizes")
    batch = _function("__operators__.getitem", ["sizes", 0, 0, {"slice_spec": 0}], "batch")
    flat = _function("reshape", ["x", 0, 0, {"shape": [["batch", 0, 0], 12]}])
    x = images(5, 3, 4)
    (got,) = found(_write(tmp_path / "m.h5", _model(_input("x", 3, 4), sizes, batch, flat)), x)
    np.testing.assert_array_equal(got, x.reshape(5, 12))


@pytest.mark.parametrize("function", ["io.read_file", "numpy_function", "raw_ops.ReadFile", "random.normal", "keras"])
def test_functions_that_do_more_than_compute_are_refused(tmp_path: Path, function: str) -> None:
    with pytest.raises(UnsafeInput, match=function):
        found(_write(tmp_path / "m.h5", _model(_input("x", 4), _function(function, ["x", 0, 0, {}]))), images(2, 4))


def _operator(op: str, inputs: int, constants: dict[str, Any], **attributes: Any) -> Entry:
    definition: Any = {"name": "f", "op": op, "input": [f"i{i}" for i in range(inputs)], "attr": attributes}
    return _layer("TensorFlowOpLayer", "f", [["x", 0, 0, {}]], dtype=None, node_def=definition, constants=constants)


_FLOAT = {"T": {"type": "DT_FLOAT"}}
OPERATORS: dict[str, tuple[Entry, Callable[[np.ndarray], np.ndarray]]] = {
    "constant first": (_operator("Sub", 2, {"0": 1.0}, **_FLOAT), lambda x: 1 - x),
    "list": (
        _operator("ConcatV2", 3, {"1": [[[9.0] * 4]] * 2, "2": 1}, N={"i": "2"}, **_FLOAT),
        lambda x: np.concatenate([x, np.full((2, 1, 4), 9)], 1),
    ),
    "masks": (
        _operator(
            "StridedSlice", 4, {"1": [0, 1], "2": [0, 0], "3": [1, 1]}, begin_mask={"i": "1"}, end_mask={"i": "3"}
        ),
        lambda x: x[:, 1:],
    ),
    "dtype": (_operator("Cast", 1, {}, SrcT={"type": "DT_FLOAT"}, DstT={"type": "DT_INT32"}), lambda x: x.astype(int)),
}


@pytest.mark.parametrize("name", OPERATORS)
@pytest.mark.parametrize("as_text", [False, True])
def test_operators_as_layers(tmp_path: Path, name: str, as_text: bool) -> None:
    """TensorFlow 1.14 to 2.3 wrote them; some of these versions wrote the NodeDef as text."""
    entry, want = OPERATORS[name]
    config = dict(entry["config"])
    if as_text:
        config["node_def"] = json.dumps(config["node_def"])
    x = 3 * images(2, 3, 4)
    path = _write(tmp_path / "m.h5", _model(_input("x", 3, 4), entry | {"config": config}), "2.3.0-tf")
    np.testing.assert_allclose(found(path, x)[0], want(x), 1e-6, 1e-6)


@pytest.mark.parametrize("op", ["ReadFile", "PyFunc", "WriteFile", "Unheard"])
def test_operators_that_do_more_than_compute_are_refused(tmp_path: Path, op: str) -> None:
    path = _write(tmp_path / "m.h5", _model(_input("x", 4), _operator(op, 1, {})), "2.3.0-tf")
    with pytest.raises(UnsafeInput, match=op):
        found(path, images(2, 4))


_STARTS: dict[str, tuple[tuple[int, ...], int, Callable[[], Any]]] = {
    "SimpleRNN": ((7, 4), 1, lambda: layers.SimpleRNN(5)),
    "GRU": ((7, 4), 1, lambda: layers.GRU(5)),
    "LSTM": ((7, 4), 2, lambda: layers.LSTM(5)),
    "RNN": ((7, 4), 2, lambda: layers.RNN(layers.LSTMCell(5))),
    "Bidirectional": ((7, 4), 4, lambda: layers.Bidirectional(layers.LSTM(5))),
}


@pytest.mark.parametrize("kind", _STARTS)
def test_states_to_start_with(tmp_path: Path, kind: str) -> None:
    shape, states, make = _STARTS[kind]
    ends = [keras.Input(shape, name="x"), *(keras.Input((5,), name=f"s{i}") for i in range(states))]
    layer = make()
    initial = ends[1:] if states > 1 else ends[1]
    model = keras.Model(ends, layer(ends[0], initial_state=initial))
    weights(model)
    entry = _layer(kind, layer.name, [[e.name, 0, 0, {"constants": None}] for e in ends])
    entry["config"] = json.loads(json.dumps(keras.saving.serialize_keras_object(layer)["config"]))
    config = _model(_input("x", *shape), *(_input(e.name, 5) for e in ends[1:]), entry)
    feeds = [images(3, *shape), *(images(3, 5, seed=i) for i in range(states))]
    want = np.asarray(model(feeds))
    np.testing.assert_allclose(found(_write(tmp_path / "m.h5", config, model=model), *feeds)[0], want, 1e-5, 1e-5)


def test_tensors_among_the_arguments(tmp_path: Path) -> None:
    """MultiHeadAttention, which also writes the shapes that it was built for."""
    x, y = keras.Input((4, 6), name="x"), keras.Input((3, 6), name="y")
    layer = layers.MultiHeadAttention(2, 3)
    model = keras.Model([x, y], layer(x, y))
    weights(model)
    entry = _layer("MultiHeadAttention", layer.name, [["x", 0, 0, {"value": ["y", 0, 0]}]], num_heads=2, key_dim=3)
    entry["config"] |= {"query_shape": [None, 4, 6], "key_shape": [None, 3, 6], "value_shape": [None, 3, 6]}
    feeds = [images(2, 4, 6), images(2, 3, 6)]
    path = _write(tmp_path / "m.h5", _model(_input("x", 4, 6), _input("y", 3, 6), entry), model=model)
    np.testing.assert_allclose(found(path, *feeds)[0], np.asarray(model(feeds)), 1e-5, 1e-5)


def test_causal_attention(tmp_path: Path) -> None:
    x = keras.Input((4, 6), name="x")
    model = keras.Model(x, layers.Attention()([x, x], use_causal_mask=True))
    entry = _layer("Attention", "a", [["x", 0, 0, {}], ["x", 0, 0, {}]], use_scale=False, causal=True)
    feed = images(2, 4, 6)
    (got,) = found(_write(tmp_path / "m.h5", _model(_input("x", 4, 6), entry), "2.2.4-tf"), feed)
    np.testing.assert_allclose(got, np.asarray(model(feed)), 1e-5, 1e-5)


@pytest.mark.parametrize(
    ("kind", "config", "want"),
    [
        ("ThresholdedReLU", {"theta": 0.7}, lambda x: np.where(x > 0.7, x, 0)),
        ("ReLU", {"threshold": -0.7, "negative_slope": 0.1}, lambda x: np.where(x >= -0.7, x, 0.1 * (x + 0.7))),
    ],
)
def test_thresholds(tmp_path: Path, kind: str, config: dict[str, Any], want: Any) -> None:
    entry, feed = _layer(kind, "r", [["x", 0, 0, {}]], **config), 2 * images(4, 6)
    (got,) = found(_write(tmp_path / "m.h5", _model(_input("x", 6), entry), "2.4.0"), feed)
    np.testing.assert_allclose(got, want(feed), 1e-6, 1e-6)


@pytest.mark.parametrize("name", ["m.h5", "m.keras"])
def test_a_layer_as_activation_keeps_its_weights(tmp_path: Path, name: str) -> None:
    """Only its `build_config` shows that it has weights."""
    x = keras.Input((6,), name="x")
    model = keras.Model(x, layers.Dense(5, activation=layers.PReLU())(x))
    model.layers[1].activation.build((None, 5))
    weights(model)
    feed = 2 * images(4, 6)
    path = old_file(tmp_path / name, model, "2.15.0")
    np.testing.assert_allclose(found(path, feed)[0], np.asarray(model(feed)), 1e-5, 1e-5)


@pytest.mark.parametrize("between", ["/", "\\", " ", ":", "é"])
def test_characters_in_names_of_layers(tmp_path: Path, between: str) -> None:
    """MobileNetV3 of keras.applications has slashes; names made of paths on Windows have backslashes."""
    first = _layer("Activation", f"a{between}b", [["x", 0, 0, {}]], activation="tanh")
    second = _layer("Activation", "a_b", [[f"a{between}b", 0, 0, {}]], activation="relu")
    feed = images(2, 6)
    (got,) = found(_write(tmp_path / "m.h5", _model(_input("x", 6), first, second)), feed)
    np.testing.assert_allclose(got, np.maximum(np.tanh(feed), 0), 1e-6, 1e-6)


@pytest.mark.parametrize("name", ["m.h5", "m.keras"])
def test_backslashes_in_names_of_layers_of_keras_three(tmp_path: Path, name: str) -> None:
    inner = keras.Sequential([keras.Input((5,)), layers.Dense(4, name="q\\q")], name="m\\m")
    x = keras.Input((6,), name="in\\x")
    y = layers.Dense(5, name="d_e")(layers.Dense(6, name="d\\e")(x))
    model = keras.Model(x, layers.Activation("tanh", name="out\\y")(inner(y)), name="f\\m")
    weights(model)
    model.save(tmp_path / name)
    feed = images(4, 6)
    want = np.asarray(model(feed))
    np.testing.assert_allclose(found(tmp_path / name, feed)[0], want, 1e-5, 1e-5)


def _on_windows(path: Path, model: Any, *, twice: bool = False) -> Path:
    """Save a model as Windows did: the groups of weights are named by whole paths."""
    model.save(path)
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    content = io.BytesIO()
    with h5py.File(io.BytesIO(members["model.weights.h5"])) as file, h5py.File(content, "w") as windows:
        for name in file["layers"]:
            file.copy(f"layers/{name}", windows, name=f"layers\\{name}")
        if twice:
            file.copy("layers", windows, name="layers")
    members["model.weights.h5"] = content.getvalue()
    with zipfile.ZipFile(path, "w") as archive:
        for name, member in members.items():
            archive.writestr(name, member)
    return path


def test_archives_of_windows(tmp_path: Path) -> None:
    model = keras.Sequential([keras.Input((6,)), layers.Dense(5), layers.Dense(3)])
    weights(model)
    feed = images(4, 6)
    (got,) = found(_on_windows(tmp_path / "m.keras", model), feed)
    np.testing.assert_allclose(got, np.asarray(model(feed)), 1e-5, 1e-5)


def test_names_that_become_one_are_refused(tmp_path: Path) -> None:
    model = keras.Sequential([keras.Input((6,)), layers.Dense(5)])
    with pytest.raises(BadInput):
        found(_on_windows(tmp_path / "m.keras", model, twice=True), images(4, 6))
