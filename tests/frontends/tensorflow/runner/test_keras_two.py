"""Files of Keras 1 and 2 compute what Keras 1 and 2 computed, by formulas in float64, because Keras 2 itself is not
available.
"""

from __future__ import annotations

import json
import math
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import convert
from convert.errors import BadInput, ParityError
from convert.request.source import Source
from tests.frontends.tensorflow.ops.tf_support import run
from tests.support.keras_helper import keras, layers
from tests.support.tensorflow_helper import images, read

h5py = pytest.importorskip("h5py", reason="Keras 2 wrote HDF5")

Change = Callable[[dict[str, Any]], None]
Arrays = list[np.ndarray]


def old_file(
    path: Path, model: Any, version: str, change: Change = lambda entry: None, *, backend: str = "tensorflow"
) -> Path:
    """Save a model as a file of `version`, with `change` applied to the entry of every layer."""
    model.save(path)
    if path.suffix == ".keras":
        with zipfile.ZipFile(path) as archive:
            members = {name: archive.read(name) for name in archive.namelist()}
        config = _older(json.loads(members["config.json"]), change)
        if config["class_name"] == "Functional":
            config["module"] = "keras.src.engine.functional"
        members |= {"config.json": json.dumps(config).encode(), "metadata.json": _metadata(version)}
        with zipfile.ZipFile(path, "w") as archive:
            for name, content in members.items():
                archive.writestr(name, content)
        return path
    with h5py.File(path, "r+") as file:
        config = _older(json.loads(file.attrs["model_config"]), change)
        file.attrs.update(model_config=json.dumps(config), keras_version=version, backend=backend)
    return path


def _older(config: dict[str, Any], change: Change) -> dict[str, Any]:
    """Return a Keras 3 configuration in Keras 2's form: masks are no part of the graph, tensors are lists."""
    wanted = [e for e in config["config"]["layers"] if hasattr(layers, e["class_name"])]
    names = {e.get("name") for e in wanted}
    config["config"]["layers"] = []
    for entry in wanted:
        calls = [call for call in entry.get("inbound_nodes", ()) if isinstance(call, dict)]
        if calls:
            origins = [[o for o in _origins(call["args"]) if o[0] in names] for call in calls]
            if not all(origins):
                continue  # Concatenate is a layer and an operation
            entry["inbound_nodes"] = [[[*origin, {}] for origin in called] for called in origins]
        change(entry)
        config["config"]["layers"].append(entry)
    return config


def _origins(value: Any) -> list[Any]:
    """Return where the tensors in the arguments of a call come from."""
    if isinstance(value, dict):
        return [value["config"]["keras_history"]]
    return [origin for item in value for origin in _origins(item)] if isinstance(value, list) else []


def _metadata(version: str) -> bytes:
    return json.dumps({"keras_version": version, "date_saved": "2024-01-01@00:00:00"}).encode()


def found(path: Path, *feeds: np.ndarray) -> Arrays:
    """Run the shared graph that the reader makes of a file."""
    model = read(Source("keras" if path.suffix == ".keras" else "keras-h5", path))
    return list(run(model, dict(zip((str(v.name) for v in model.graph.inputs), feeds, strict=True))).values())


def hard_sigmoid(x: np.ndarray) -> np.ndarray:
    return np.clip(0.2 * x + 0.5, 0, 1)


def _sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def _softmax(x: np.ndarray, axes: Any = -1) -> np.ndarray:
    powers = np.exp(x - x.max(axis=axes, keepdims=True))
    return powers / powers.sum(axis=axes, keepdims=True)


_SCALE, _ALPHA = 1.0507009873554805, 1.6732632423543772
ACTIVATIONS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "elu": lambda x: np.where(x > 0, x, np.expm1(x)),
    "exponential": np.exp,
    "gelu": lambda x: x * 0.5 * (1 + np.vectorize(math.erf)(x / math.sqrt(2))),
    "hard_sigmoid": hard_sigmoid,
    "leaky_relu": lambda x: np.where(x > 0, x, 0.2 * x),
    "linear": lambda x: x,
    "log_softmax": lambda x: np.log(_softmax(x)),
    "mish": lambda x: x * np.tanh(np.log1p(np.exp(x))),
    "relu": lambda x: np.maximum(x, 0),
    "relu6": lambda x: np.clip(x, 0, 6),
    "selu": lambda x: _SCALE * np.where(x > 0, x, _ALPHA * np.expm1(x)),
    "sigmoid": _sigmoid,
    "silu": lambda x: x * _sigmoid(x),
    "softmax": _softmax,
    "softplus": lambda x: np.log1p(np.exp(x)),
    "softsign": lambda x: x / (1 + np.abs(x)),
    "swish": lambda x: x * _sigmoid(x),
    "tanh": np.tanh,
}
"""Every activation that Keras 2.15 knows by name."""


@pytest.mark.parametrize("name", ["m.h5", "m.keras"])
def test_activations(tmp_path: Path, name: str) -> None:
    x = keras.Input((9,))
    model = keras.Model(x, [layers.Activation(activation)(x) for activation in ACTIVATIONS])
    path = old_file(tmp_path / name, model, "2.15.0")
    feed = 4 * images(6, 9)
    for activation, got in zip(ACTIVATIONS, found(path, feed), strict=True):
        np.testing.assert_allclose(got, ACTIVATIONS[activation](feed.astype(float)), 2e-5, 2e-6, err_msg=activation)


def test_activations_by_the_names_of_their_functions(tmp_path: Path) -> None:
    """tf.keras of TensorFlow 2.6 and 2.9 writes tf.nn.log_softmax so."""

    def rename(entry: dict[str, Any]) -> None:
        if entry["class_name"] == "Activation":
            entry["config"]["activation"] += "_v2"

    x = keras.Input((9,))
    names = ("log_softmax", "softmax")
    model = keras.Model(x, [layers.Activation(name)(x) for name in names])
    feed = 4 * images(6, 9)
    for name, got in zip(names, found(old_file(tmp_path / "m.h5", model, "2.9.0", rename), feed), strict=True):
        np.testing.assert_allclose(got, ACTIVATIONS[name](feed.astype(float)), 2e-5, 2e-6, err_msg=name)


def test_products_of_attention_in_hdf5_of_keras_three(tmp_path: Path) -> None:
    """Keras 3 does not load its own file, because it takes the text "dot" for a function."""
    shapes = ((4, 6), (3, 6))
    given = [keras.Input(shape) for shape in shapes]
    model = keras.Model(given, layers.Attention(score_mode="dot")(given))
    model.save(tmp_path / "m.h5")
    feeds = [images(2, *shape) for shape in shapes]
    (got,) = found(tmp_path / "m.h5", *feeds)
    np.testing.assert_allclose(got, model.predict(feeds, verbose=0), 1e-5, 1e-6)


def test_an_activation_of_keras_three_stays_what_it_is(tmp_path: Path) -> None:
    model = keras.Sequential([keras.Input((9,)), layers.Activation("hard_sigmoid")])
    feed = 4 * images(6, 9)
    for version in ("3.0.0", keras.__version__):
        (got,) = found(old_file(tmp_path / "m.h5", model, version), feed)
        np.testing.assert_allclose(got, np.clip(feed / 6 + 0.5, 0, 1), 1e-5, 1e-6)


def weights(model: Any, seed: int = 3) -> Arrays:
    """Give a model random weights, with variances above zero, and return them in float64."""
    drawn = np.random.default_rng(seed)
    for variable in model.variables:
        value = drawn.normal(0, 0.7, variable.shape)
        variable.assign(np.abs(value) if "variance" in variable.path else value)
    return [np.asarray(v, np.float64) for v in model.weights]


def _lstm(x: np.ndarray, kernel: np.ndarray, recurrent: np.ndarray, bias: np.ndarray) -> np.ndarray:
    """Return the output of every step of an LSTM whose gates are hard sigmoids."""
    h = c = np.zeros((len(x), len(recurrent)))
    steps = []
    for t in range(x.shape[1]):
        i, f, g, o = np.split(x[:, t] @ kernel + h @ recurrent + bias, 4, 1)
        c = hard_sigmoid(f) * c + hard_sigmoid(i) * np.tanh(g)
        h = hard_sigmoid(o) * np.tanh(c)
        steps.append(h)
    return np.stack(steps, 1)


def _time_major(entry: dict[str, Any]) -> None:
    if entry["class_name"] == "LSTM":
        entry["config"]["time_major"] = False


@pytest.mark.parametrize(("version", "change"), [("2.2.4", lambda e: None), ("2.9.0", _time_major)])
def test_lstm(tmp_path: Path, version: str, change: Change) -> None:
    model = keras.Sequential([keras.Input((7, 4)), layers.LSTM(5, recurrent_activation="hard_sigmoid")])
    values, feed = weights(model), images(3, 7, 4)
    (got,) = found(old_file(tmp_path / "m.h5", model, version, change), feed)
    np.testing.assert_allclose(got, _lstm(feed, *values)[:, -1], 1e-4, 1e-5)


def test_parts_of_a_layer(tmp_path: Path) -> None:
    """Bidirectional writes its inner layer and reads it again, twice."""
    inner = layers.LSTM(5, recurrent_activation="hard_sigmoid", return_sequences=True)
    model = keras.Sequential([keras.Input((7, 4)), layers.Bidirectional(inner)])
    values, feed = weights(model), images(3, 7, 4)

    def older(entry: dict[str, Any]) -> None:
        if entry["class_name"] == "Bidirectional":
            part = entry["config"]["layer"]
            entry["config"]["layer"] = {"class_name": part["class_name"], "config": part["config"]}
            entry["config"].pop("backward_layer", None)

    (got,) = found(old_file(tmp_path / "m.h5", model, "2.2.4", older), feed)
    backward = _lstm(feed[:, ::-1], *values[3:])[:, ::-1]
    np.testing.assert_allclose(got, np.concatenate([_lstm(feed, *values[:3]), backward], -1), 1e-4, 1e-5)


def test_gru_that_does_not_tell_when_it_resets(tmp_path: Path) -> None:
    """Keras before 2.1.5 had no `reset_after`; without a bias, weights with and without it have the same shape."""
    layer = layers.GRU(5, use_bias=False, reset_after=False, recurrent_activation="hard_sigmoid")
    model = keras.Sequential([keras.Input((7, 4)), layer])
    (kernel, recurrent), feed = weights(model), images(3, 7, 4)
    path = old_file(tmp_path / "m.h5", model, "2.1.3", lambda e: e["config"].pop("reset_after", None))
    h, (wz, wr, wh), (uz, ur, uh) = np.zeros((3, 5)), np.split(kernel, 3, 1), np.split(recurrent, 3, 1)
    for t in range(7):
        x = feed[:, t]
        z, r = hard_sigmoid(x @ wz + h @ uz), hard_sigmoid(x @ wr + h @ ur)
        h = z * h + (1 - z) * np.tanh(x @ wh + (r * h) @ uh)
    np.testing.assert_allclose(found(path, feed)[0], h, 1e-4, 1e-5)


@pytest.mark.parametrize(
    ("version", "axis", "shape", "raised"),
    [
        ("2.2.4", -1, (4, 5, 6), True),
        ("2.2.4", 1, (4, 5, 6), False),
        ("2.2.4-tf", 1, (4, 5, 6), True),
        ("2.2.4-tf", 2, (4, 5, 6), False),
        ("2.11.0", -1, (4, 5, 6), True),
        ("2.11.0", -1, (6,), False),
        ("2.5.0", -1, (3, 4, 5, 6), False),
        ("2.6.0", -1, (3, 4, 5, 6), True),
        ("2.12.0", -1, (4, 5, 6), False),
    ],
)
def test_epsilon_of_batch_normalization(
    tmp_path: Path, version: str, axis: int, shape: tuple[int, ...], raised: bool
) -> None:
    model = keras.Sequential([keras.Input(shape), layers.BatchNormalization(axis=axis, epsilon=1e-7)])
    weights(model)
    layer = model.layers[0]
    size = layer.moving_variance.shape[0]
    layer.moving_variance.assign(np.where(np.arange(size) % 2, 1e-6, 0.5))
    path, feed = old_file(tmp_path / "m.h5", model, version), images(2, *shape)
    along = [1] * (len(shape) + 1)
    along[axis] = size
    gamma, beta, mean, variance = (
        np.asarray(v, np.float64).reshape(along)
        for v in (layer.gamma, layer.beta, layer.moving_mean, layer.moving_variance)
    )
    want = (feed - mean) / np.sqrt(variance + (1.001e-5 if raised else 1e-7)) * gamma + beta
    np.testing.assert_allclose(found(path, feed)[0], want, 1e-4, 1e-4)


def _bilinear(x: np.ndarray, factor: int, axis: int, shift: float) -> np.ndarray:
    """Return `x` with `factor` as many elements along an axis; `shift` is where the first element has its center."""
    places = np.maximum((np.arange(factor * x.shape[axis]) + shift) / factor - shift, 0)
    low = np.floor(places).astype(int)
    part = (places - low).reshape([-1 if a == axis else 1 for a in range(x.ndim)])
    high = np.minimum(low + 1, x.shape[axis] - 1)
    return x.take(low, axis) * (1 - part) + x.take(high, axis) * part


@pytest.mark.parametrize(
    ("version", "ragged", "dtypes", "shift"),
    [
        ("2.2.4", False, False, 0),
        ("2.3.1", False, False, 0),
        ("2.2.4-tf", False, True, 0),  # TensorFlow 1.13 and 1.14
        ("2.2.4-tf", True, True, 0.5),  # 1.15
        ("2.2.4-tf", False, False, 0.5),  # 2.0
        ("2.15.0", True, False, 0.5),
    ],
)
def test_bilinear_upsampling(tmp_path: Path, version: str, ragged: bool, dtypes: bool, shift: float) -> None:
    """The initializers of a layer tell TensorFlow 1.14 from 2.0."""
    x = keras.Input((5, 7, 3))
    same = layers.Conv2D(3, 1, use_bias=False)
    model = keras.Model(x, same(layers.UpSampling2D((2, 3), interpolation="bilinear")(x)))
    same.set_weights([np.eye(3).reshape(1, 1, 3, 3)])

    def with_ragged(entry: dict[str, Any]) -> None:
        entry["config"].pop("ragged", None)
        if entry["class_name"] == "InputLayer" and ragged:
            entry["config"]["ragged"] = False
        if dtypes and "kernel_initializer" in entry["config"]:
            entry["config"]["kernel_initializer"]["config"]["dtype"] = "float32"

    feed = images(2, 5, 7, 3)
    want = _bilinear(_bilinear(feed.astype(float), 2, 1, shift), 3, 2, shift)
    (got,) = found(old_file(tmp_path / "m.h5", model, version, with_ragged), feed)
    np.testing.assert_allclose(got, want, 1e-5, 1e-5)


def _without_input(entry: dict[str, Any]) -> None:
    if entry["class_name"] == "InputLayer":
        entry.update(class_name="Activation", config={"name": "first", "activation": "linear"})
        entry["config"]["batch_input_shape"] = [None, 5, 7, 3]


@pytest.mark.parametrize(
    ("version", "backend", "layer", "says"),
    [
        ("2.2.4-tf", "tensorflow", lambda: layers.UpSampling2D(interpolation="bilinear"), "1.13 to 2.1"),
        ("2.2.4", "theano", lambda: layers.Conv2D(2, 3), "Theano"),
    ],
)
def test_what_a_file_does_not_tell_is_refused(
    tmp_path: Path, version: str, backend: str, layer: Callable[[], Any], says: str
) -> None:
    model = keras.Sequential([keras.Input((5, 7, 3)), layer()])
    path = old_file(tmp_path / "m.h5", model, version, _without_input, backend=backend)
    with pytest.raises(BadInput, match=says):
        found(path, images(1, 5, 7, 3))


@pytest.mark.parametrize("version", ["2.2.4", keras.__version__])
def test_several_axes(tmp_path: Path, version: str) -> None:
    """Keras 3.15 writes them into HDF5 but does not read them."""
    x = keras.Input((4, 5, 6))
    model = keras.Model(x, [layers.Softmax(axis=[1, 2])(x), layers.UnitNormalization(axis=[1, 3])(x)])
    feed = images(2, 4, 5, 6)
    soft, unit = found(old_file(tmp_path / "m.h5", model, version), feed)
    np.testing.assert_allclose(soft, _softmax(feed.astype(float), (1, 2)), 1e-5, 1e-6)
    np.testing.assert_allclose(unit, feed / np.sqrt((feed**2).sum((1, 3), keepdims=True)), 1e-5, 1e-6)


@pytest.mark.parametrize(("merge", "joined"), [("Add", np.add), ("Multiply", np.multiply), ("Maximum", np.maximum)])
def test_masks_of_merged_sequences(tmp_path: Path, merge: str, joined: Any) -> None:
    """A step is kept if all inputs that have masks keep it."""
    a, b, c = keras.Input((7, 4)), keras.Input((7, 4)), keras.Input((7, 4))
    merged = getattr(layers, merge)()([layers.Masking(0.0)(a), layers.Masking(0.0)(b), c])
    model = keras.Model([a, b, c], layers.GlobalAveragePooling1D()(merged))
    feeds = [images(2, 7, 4, seed=s) for s in range(3)]
    feeds[0][:, :2] = feeds[1][:, 1:4] = 0
    got = found(old_file(tmp_path / "m.keras", model, "2.14.0"), *feeds)[0]
    want = joined(joined(*feeds[:2]), feeds[2])[:, 4:].mean(1, dtype=float)
    np.testing.assert_allclose(got, want, 1e-5, 1e-6)


@pytest.mark.parametrize("suffix", [".keras", ".h5"])
@pytest.mark.parametrize("version", ["3.0.5", "3.3.3", "3.4.1"])
@pytest.mark.parametrize("merge", ["Add", "Concatenate"])
def test_masks_of_merged_sequences_of_keras_three(tmp_path: Path, merge: str, version: str, suffix: str) -> None:
    """Up to 3.3 the mask is lost; later releases keep a step if any input keeps it."""
    inputs = [keras.Input((7, 4)), keras.Input((7, 4))]
    merged = getattr(layers, merge)()([layers.Masking(0.0)(x) for x in inputs])
    model = keras.Model(inputs, layers.GlobalAveragePooling1D()(merged))
    feeds = [images(2, 7, 4, seed=s) for s in range(2)]
    feeds[0][:, :2] = feeds[1][:, 1:4] = 0
    got = found(old_file(tmp_path / f"m{suffix}", model, version), *feeds)[0]
    sums = np.add(*feeds) if merge == "Add" else np.concatenate(feeds, -1)
    kept = [0, 1, 2, 3, 4, 5, 6] if version < "3.4" else [0, 2, 3, 4, 5, 6]
    np.testing.assert_allclose(got, sums[:, kept].mean(1, dtype=float), 1e-5, 1e-6)


def test_masks_of_concatenated_sequences(tmp_path: Path) -> None:
    a, b = keras.Input((7, 4)), keras.Input((7, 4))
    wide = layers.Concatenate()([layers.Masking(0.0)(a), layers.Masking(0.0)(b)])
    long = layers.Concatenate(axis=1)([layers.Masking(0.0)(a), layers.Masking(0.0)(b)])
    model = keras.Model([a, b], [layers.GlobalAveragePooling1D()(wide), layers.GlobalAveragePooling1D()(long)])
    feeds = [images(2, 7, 4, seed=s) for s in range(2)]
    feeds[0][:, :2] = feeds[1][:, 1:4] = 0
    got_wide, got_long = found(old_file(tmp_path / "m.h5", model, "2.2.4"), *feeds)
    np.testing.assert_allclose(got_wide, np.concatenate(feeds, -1)[:, 4:].mean(1), 1e-5, 1e-6)
    kept = np.concatenate([feeds[0][:, 2:], feeds[1][:, :1], feeds[1][:, 4:]], 1)
    np.testing.assert_allclose(got_long, kept.mean(1), 1e-5, 1e-6)


@pytest.mark.parametrize(("version", "held"), [("2.3.1", True), ("2.2.4-tf", False), ("2.4.0", False)])
def test_masked_steps_of_bidirectional_layers(tmp_path: Path, version: str, held: bool) -> None:
    inner = layers.SimpleRNN(5, return_sequences=True)
    model = keras.Sequential([keras.Input((4, 3)), layers.Masking(0.0), layers.Bidirectional(inner, merge_mode="sum")])
    values, feed = weights(model), images(2, 4, 3)
    feed[:, 2] = 0

    def steps(x: np.ndarray, kernel: np.ndarray, recurrent: np.ndarray, bias: np.ndarray) -> np.ndarray:
        h, found = np.zeros((2, 5)), []
        for t in range(4):
            masked = not x[:, t].any()
            h = h if masked else np.tanh(x[:, t] @ kernel + h @ recurrent + bias)
            found.append(h if held or not masked else np.zeros_like(h))
        return np.stack(found, 1)

    want = steps(feed, *values[:3]) + steps(feed[:, ::-1], *values[3:])[:, ::-1]
    np.testing.assert_allclose(found(old_file(tmp_path / "m.h5", model, version), feed)[0], want, 1e-4, 1e-5)


def _untransposed(entry: dict[str, Any]) -> None:
    if entry["class_name"] == "Conv3D":
        entry["class_name"] = "Conv3DTranspose"


def test_transposed_convolutions_of_tensorflow_1_4_are_not_transposed(tmp_path: Path) -> None:
    """The files of TensorFlow 1.4.1, and its numbers, say so (tests/museum)."""
    model = keras.Sequential([keras.Input((5, 4, 3, 2)), layers.Conv3D(2, 2, strides=2)])
    weights(model)
    feed = images(3, 5, 4, 3, 2)
    path = old_file(tmp_path / "m.h5", model, "2.0.8-tf", _untransposed)
    np.testing.assert_allclose(found(path, feed)[0], np.asarray(model(feed)), 1e-4, 1e-5)


@pytest.mark.parametrize(
    "layer",
    [lambda: layers.SimpleRNN(3), lambda: layers.RNN(layers.SimpleRNNCell(3)), lambda: layers.LSTM(3)],
    ids=["SimpleRNN", "SimpleRNNCell", "LSTM"],
)
def test_the_order_of_products_is_no_property_of_a_layer(tmp_path: Path, layer: Callable[[], Any]) -> None:
    """Keras before 2.2 writes `implementation` for all recurrent layers, which Keras 3 has for some."""

    def older(entry: dict[str, Any]) -> None:
        for one in (entry, entry["config"].get("cell") or {}):
            if one.get("class_name") in ("SimpleRNN", "SimpleRNNCell", "LSTM"):
                one["config"]["implementation"] = 0

    model = keras.Sequential([keras.Input((5, 4)), layer()])
    weights(model)
    feed = images(3, 5, 4)
    path = old_file(tmp_path / "m.h5", model, "2.0.8-tf", older)
    np.testing.assert_allclose(found(path, feed)[0], np.asarray(model(feed)), 1e-4, 1e-5)


def _as_list(path: Path) -> None:
    with h5py.File(path, "r+") as file:
        config = json.loads(file.attrs["model_config"])
        file.attrs["model_config"] = json.dumps({"class_name": "Sequential", "config": config["config"]["layers"]})


@pytest.mark.parametrize("version", ["2.1.3", "2.2.4"])
def test_a_sequential_without_an_input_layer(tmp_path: Path, version: str) -> None:
    """Keras 3.15 gives the first layer of such models one dim too many."""
    model = keras.Sequential([keras.Input((6,)), layers.Dense(5, name="one"), layers.Dense(3)])
    values, feed = weights(model), images(4, 6)
    path = old_file(tmp_path / "m.h5", model, version)
    with h5py.File(path, "r+") as file:
        config = json.loads(file.attrs["model_config"])
        config["config"]["layers"].pop(0)
        config["config"]["layers"][0]["config"]["batch_input_shape"] = [None, 6]
        file.attrs["model_config"] = json.dumps(config)
    if version == "2.1.3":
        _as_list(path)
    source = read(Source("keras-h5", path))
    assert [v.name for v in source.graph.inputs] == ["one_input"]
    want = (feed @ values[0] + values[1]) @ values[2] + values[3]
    np.testing.assert_allclose(found(path, feed)[0], want, 1e-4, 1e-5)


@pytest.mark.parametrize("version", ["2.1.3", "2.3.1"])
def test_a_sequential_that_lost_the_shape_of_its_input(tmp_path: Path, version: str) -> None:
    path = old_file(tmp_path / "m.h5", keras.Sequential([keras.Input((6,)), layers.Dense(3)]), version)
    with h5py.File(path, "r+") as file:
        config = json.loads(file.attrs["model_config"])
        config["config"]["layers"].pop(0)
        config["config"].pop("build_input_shape", None)
        file.attrs["model_config"] = json.dumps(config)
    if version == "2.1.3":
        _as_list(path)
    with pytest.raises(BadInput, match="does not contain the shape of the input") as caught:
        read(Source("keras-h5", path))
    assert "input_shape=" in str(caught.value.hint)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["m.h5", "m.keras"])
def test_the_verdict_goes_by_the_formula_of_the_file(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reader that uses Keras 3's formula fails, because the reference has Keras 2's."""
    model = keras.Sequential([keras.Input((9,)), layers.Dense(8), layers.Activation("hard_sigmoid"), layers.Dense(2)])
    weights(model)
    path = old_file(tmp_path / name, model, "2.15.0")
    report = convert.convert(path, "onnx", tmp_path / "good.onnx")
    assert report.verdict is not None
    assert report.verdict.status == "PASS"

    from convert.frontends.tensorflow import reader
    from convert.frontends.tensorflow.files.in_memory import program_from_keras

    wrong = lambda source, options, report: program_from_keras(keras.models.load_model(path), options, report)  # noqa: E731
    monkeypatch.setitem(reader._READERS, "keras" if path.suffix == ".keras" else "keras-h5", wrong)
    with pytest.raises(ParityError):
        convert.convert(path, "onnx", tmp_path / "bad.onnx")
