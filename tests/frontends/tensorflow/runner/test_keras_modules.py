"""Classes of Keras are found under the modules of every release; compared with the model that was saved."""

from __future__ import annotations

import json
import zipfile
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from convert.frontends.tensorflow.runner import runner

from convert.errors import UnsafeInput
from convert.request.options import Options
from convert.request.source import Source
from tests.support.keras_helper import keras, layers
from tests.support.tensorflow_helper import images

h5py = pytest.importorskip("h5py", reason="some releases write HDF5")

PLACES = {
    "keras": "keras.{part}",
    "Keras 2": "keras.src.{part}.{file}",
    "Keras 2.12": "keras.engine.{part}",
    "Keras 2.13": "keras.src.engine.{part}",
    "TensorFlow 2.0": "tensorflow.python.keras.{part}.{file}",
    "a function graph": "tensorflow.python.framework.func_graph",
    "tf.keras": "tensorflow.keras.{part}",
    "the API": "keras.api._v2.keras.{part}",
    "keras_core": "keras_core.{part}",
    "keras_core's source": "keras_core.src.{part}.{file}",
    "tf_keras": "tf_keras.{part}",
    "tf_keras's source": "tf_keras.src.{part}.{file}",
}
PARTS = {
    "layers": "core.dense",
    "initializers": "initializers_v2",
    "regularizers": "base",
    "constraints": "base",
    "activations": "base",
    "dtype_policies": "policy",
}


@cache
def model() -> Any:
    x = keras.Input((4, 4, 2), name="x")
    y = layers.Conv2D(
        3, 2, kernel_initializer="he_normal", kernel_regularizer=keras.regularizers.L2(0.1),
        bias_constraint=keras.constraints.MaxNorm(2), activation="relu",
    )(x)  # fmt: skip
    y = layers.Flatten()(layers.BatchNormalization()(y))
    y = keras.ops.add(y, 1.0)  # an operation with the name of a layer
    return keras.Model(x, layers.Dense(2, activation="softmax", name="y")(y))


def moved(config: Any, place: str, registered: str) -> Any:
    """Return a configuration whose classes have other modules, and are registered under another name."""
    if isinstance(config, list):
        return [moved(item, place, registered) for item in config]
    if not isinstance(config, dict):
        return config
    found = {key: moved(value, place, registered) for key, value in config.items()}
    module = str(found.get("module"))
    part = next((part for part in PARTS if f".{part}" in module), "layers" if module == "keras" else "")
    if part and ".ops" not in module and module != "None":
        found["module"] = place.format(part=part, file=PARTS[part])
        found["registered_name"] = registered.format(name=found["class_name"]) or None
    return found


def saved(path: Path, place: str, registered: str = "") -> Path:
    """Save the model with other modules."""
    model().save(path)
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    members["config.json"] = json.dumps(moved(json.loads(members["config.json"]), place, registered)).encode()
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return path


def compare(path: Path) -> None:
    feed = images(2, 4, 4, 2)
    (got,) = runner.run(Source("keras", path), [{"x": feed}], precision="float32", options=Options())
    np.testing.assert_allclose(got["y"], np.asarray(model()(feed)), 1e-5, 1e-5)


@pytest.mark.parametrize("place", PLACES)
def test_modules_of_each_release(tmp_path: Path, place: str) -> None:
    compare(saved(tmp_path / "m.keras", PLACES[place]))


@pytest.mark.parametrize("registered", ["{name}", "Custom>{name}", "keras>{name}"])
def test_classes_that_are_registered_too(tmp_path: Path, registered: str) -> None:
    compare(saved(tmp_path / "m.keras", "tf_keras.{part}", registered))


def test_shapes_of_keras_two_in_hdf5(tmp_path: Path) -> None:
    path = tmp_path / "m.h5"
    own = keras.Sequential([keras.Input((6,), name="x"), layers.Dense(3)])
    own.save(path)
    with h5py.File(path, "r+") as file:
        config = json.loads(file.attrs["model_config"])
        config["config"]["build_input_shape"] = {"class_name": "TensorShape", "items": [None, 6]}
        file.attrs.update(model_config=json.dumps(config), keras_version="2.9.0")
    feed = images(2, 6)
    (got,) = runner.run(Source("keras-h5", path), [{"x": feed}], precision="float32", options=Options())
    np.testing.assert_allclose(next(iter(got.values())), np.asarray(own(feed)), 1e-5, 1e-5)


@pytest.mark.parametrize(("module", "registered"), [("mine", ""), ("mine.keras", ""), ("mine", "Custom>Dense")])
def test_classes_of_others_are_refused(tmp_path: Path, module: str, registered: str) -> None:
    with pytest.raises(UnsafeInput):
        compare(saved(tmp_path / "m.keras", module, registered))
