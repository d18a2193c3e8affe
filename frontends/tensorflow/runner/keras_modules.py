"""Gives Keras's own classes in a configuration the modules that they have in Keras 3.

Each release moved its modules: `keras.layers.core.dense`, `keras.engine.functional`, `tensorflow.python.keras.layers`,
`keras_core.src.layers`. Some files also register Keras's classes, as `Custom>Dense`. A class of such a module with the
name of a public class of Keras 3 is that class.
"""

from __future__ import annotations

import re
from typing import Any

from convert.runtimes.start_tensorflow import import_tensorflow

_ROOTS = r"(keras|keras_core|tf_keras|tensorflow\.keras|tensorflow\.python\.keras|tensorflow\.compat\.v\d\.keras)"
_FOLDERS = "activations|constraints|dtype_policies|engine|initializers|layers|mixed_precision|models|ops|regularizers"
_OWN = re.compile(rf"{_ROOTS}(\.src|\.api(\._v\d\.keras)?)?(\.({_FOLDERS})(\..+)?)?|tensorflow\.python\.framework\..+")
_OPERATIONS = re.compile(r"(?:keras_core|keras|tf_keras)(?:\.src)?\.(?:ops|operations)(\..+)?")
"""Modules of operations, some of which have the names of layers."""
_PARTS = ("layers", "initializers", "regularizers", "constraints")
_MODELS = {"Functional": "keras.src.models.functional", "Model": "keras", "Sequential": "keras"}
_POLICIES = {"Policy": "DTypePolicy", "PolicyV1": "DTypePolicy", "DTypePolicy": "DTypePolicy"}


def with_current_modules(config: Any, replaced: tuple[str, ...] = ()) -> Any:
    """Return a configuration with Keras 3's modules of its classes; changes `config`, and returns lists for shapes.

    replaced: layers that Keras 3 lacks and that are translated later.
    """
    if isinstance(config, list):
        return [with_current_modules(item, replaced) for item in config]
    if not isinstance(config, dict):
        return config
    if config.get("class_name") == "TensorShape" and isinstance(config.get("items"), list):
        return config["items"]
    for key, value in config.items():
        config[key] = with_current_modules(value, replaced)
    _rename(config, replaced)
    return config


def _rename(entry: dict[str, Any], replaced: tuple[str, ...]) -> None:
    name, module = entry.get("class_name"), entry.get("module")
    if not isinstance(name, str) or not isinstance(module, str):
        return
    if operations := _OPERATIONS.fullmatch(module):
        if module.startswith("keras_core"):
            entry["module"] = f"keras.src.ops{operations[1] or ''}"
        return
    if name == "function":
        if _OWN.fullmatch(module) and _is_function(entry.get("config")):
            entry.update(module="builtins", registered_name="function")
        return
    if not _OWN.fullmatch(module):
        return
    current = _current_module(name, module, replaced)
    if current:
        entry["module"] = current
        if name in _POLICIES:
            entry["class_name"] = _POLICIES[name]
        if entry.get("registered_name") in (name, f"Custom>{name}", f"keras>{name}", f"Keras>{name}"):
            entry["registered_name"] = None


def _current_module(name: str, module: str, replaced: tuple[str, ...]) -> str:
    """Return the module of a class in Keras 3, or "" if Keras has none of this name."""
    if name in _MODELS:
        return _MODELS[name]
    if name in _POLICIES:
        return "keras"
    if name in replaced:
        return "keras.layers"
    # A name may be that of a layer and of another class; the old module tells which.
    order = sorted(_PARTS, key=lambda part: f".{part}" not in module)
    return next((f"keras.{part}" for part in order if isinstance(_member(part, name), type)), "")


def _is_function(name: Any) -> bool:
    return isinstance(name, str) and callable(_member("activations", name)) and name not in _LOADERS


_LOADERS = ("deserialize", "get", "serialize")


def _member(part: str, name: str) -> Any:
    import_tensorflow()
    import keras

    return getattr(getattr(keras, part), name, None)
