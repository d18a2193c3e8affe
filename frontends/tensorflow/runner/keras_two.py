r"""Translates configurations of Keras 1 and 2 that Keras 3 would read differently or not at all.

A layer of Keras 2 names its function only, and Keras 3 has other functions under some of these names. Models with every
layer and activation, written by Keras 2.2.4, tf.keras of TensorFlow 1.15 and Keras 2.15, were loaded by Keras 3.15 and
compared. These differ:

| what | Keras 1 and 2 | Keras 3 |
|---|---|---|
| activation `hard_sigmoid` | clip(0.2 x + 0.5, 0, 1) | clip(x / 6 + 0.5, 0, 1) |
| `GRU`, `GRUCell` without `reset_after` (before 2.1.5) | resets before the product | resets after it |
| `BatchNormalization` of pictures, epsilon below 1.001e-5 (before 2.12) | 1.001e-5 | the epsilon itself |
| `UpSampling2D`, bilinear (keras before 2.4, TensorFlow before 1.15) | corners are aligned | centers are aligned |
| `Bidirectional` sequences at masked steps (keras before 2.4, TensorFlow 2.0, 2.1) | the output before | zeros |
| mask of `Add`, `Concatenate` and the like | what all inputs keep | no mask up to 3.3, then what any input keeps |
| `Sequential` without an InputLayer | `batch_input_shape` of its first layer | this shape behind one more dim |
| `axis` of several dims in HDF5, of Keras 3 too | these dims | the last dim |
| `score_mode="dot"` of `Attention` in HDF5, of Keras 3 too | these products | refused |
| kernels of convolutions that Theano wrote | flipped | as they are stored |
| `Conv3DTranspose` of tf.keras in TensorFlow 1.4 | the convolution, not transposed | transposed |

Keras 3 does not know these at all:

- `CuDNNLSTM` and `CuDNNGRU` (`keras_two_cudnn.py`), `LocallyConnected1D` and `LocallyConnected2D`
- functions and operators of TensorFlow as layers (`keras_two_functions.py`)
- tensors among the arguments of a call, and initial states (`keras_two_calls.py`)
- `ThresholdedReLU`, thresholds below zero, and `Attention(causal=True)`
- characters such as `/` and `\` in the names of layers
- the shapes that `MultiHeadAttention` is configured with
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

from convert.errors import BadInput

from .keras_two_calls import FUNCTION_LAYERS, translate_calls
from .keras_two_cudnn import CUDNN_LAYERS
from .keras_two_functions import ALLOWED, TENSORFLOW_FUNCTION, TENSORFLOW_OPERATOR, operator_problem
from .keras_two_layers import (
    ANY_THRESHOLD,
    CORNER_UPSAMPLING,
    FUSED_BATCH_NORMALIZATION,
    HARD_SIGMOID,
    HOLDING_BIDIRECTIONAL,
    LOCALLY_CONNECTED,
    MERGES,
    MERGES_WITHOUT_MASKS,
    MIN_FUSED_EPSILON,
)

_CONVOLUTION = re.compile(r"Conv(?!ert)\w*D|Conv\w*Transpose|ConvLSTM")
_BUILT_BY_CALLS = re.compile(r"GRU|LSTM|SimpleRNN|RNN|ConvLSTM\dD|Bidirectional|MultiHeadAttention")
"""Layers that Keras 3 cannot build from one shape of `build_config`, or from that of a sequence and its states."""
_NESTED = ("layers", "layer", "forward_layer", "backward_layer", "cell", "cells")
"""Keys of a configuration with nested layers."""
_NO_LONGER_TAKEN: dict[str, dict[str, Any]] = {
    r"SimpleRNN|LSTM|GRU|RNN|ConvLSTM\dD": {"time_major": False},
    r"Attention|AdditiveAttention": {"causal": False},
    r"(Depthwise|Separable)Conv\dD|Conv\dDTranspose": {"groups": 1},
}
"""Arguments that Keras 3 lacks, by class, with the default value for which they may be dropped."""
_SEVERAL_RELEASES = (2, 2)
"""The version of Keras that TensorFlow 1.13 to 2.1 write."""
_TENSORFLOW_1_4 = (2, 0)
"""The version of Keras that TensorFlow 1.4 writes."""
_GATED = ("LSTM", "GRU")
_WITHOUT_EFFECT = {
    r"SeparableConv\dD": ("kernel_initializer", "kernel_regularizer", "kernel_constraint"),
    r"SpatialDropout\dD": ("noise_shape", "trainable"),
    r"SimpleRNN(Cell)?|ConvLSTM\dD": ("implementation",),
    r"Discretization": ("trainable",),
    r"MultiHeadAttention": ("query_shape", "key_shape", "value_shape"),
}
"""Arguments that Keras 3 lacks and that do not change what a trained model computes."""


REPLACED = (*FUNCTION_LAYERS, *CUDNN_LAYERS, *LOCALLY_CONNECTED, "TensorFlowOpLayer", "ThresholdedReLU")
"""Layers of Keras 2 that Keras 3 lacks and that `translate` replaces."""


def replaced_problem(name: str, config: Any) -> str:
    """Return why a layer of `REPLACED` may not be run, or "" if it only computes."""
    given = config if isinstance(config, dict) else {}
    if name in FUNCTION_LAYERS:
        return "" if given.get("function") in ALLOWED else f"{name} of tf.{given.get('function')}"
    problem = operator_problem(given.get("node_def")) if name == "TensorFlowOpLayer" else ""
    return f"{name} of {problem}" if problem else ""


@dataclass(frozen=True)
class Writer:
    """The writer of a file: the version of Keras, whether it was TensorFlow's own Keras, and its backend."""

    version: tuple[int, int]
    in_tensorflow: bool
    backend: str = "tensorflow"

    @classmethod
    def from_text(cls, version: str, backend: str = "tensorflow") -> Writer:
        """Return the writer for a version such as `2.2.4-tf`; no version means Keras 1, which recorded none."""
        numbers = [int(n) for n in re.findall(r"\d+", version)[:2]]
        major, minor = (*numbers, 0, 0)[:2] if numbers else (1, 0)
        if numbers and major == 0:  # keras_core, the preview of Keras 3
            major, minor = 3, 0
        # From 2.4 on, the package keras is TensorFlow's Keras too.
        return cls((major, minor), version.endswith("-tf") or (major, minor) >= (2, 4), backend)


def translate(config: Any, writer: Writer, label: str) -> Any:
    """Return the configuration of a whole model translated for Keras 3; `config` itself is not changed.

    Raises `BadInput` if the file does not show which of two meanings applies.
    """
    config = deepcopy(config)
    if writer.version < (3, 0):
        _translate_old(config, writer, label)
    for entry in _entries(config):
        _rename_layers(entry)
        if writer.version < (3, 4) and entry["class_name"] in MERGES:
            forms = MERGES if writer.version < (3, 0) else MERGES_WITHOUT_MASKS
            _substitute(entry, forms[entry["class_name"]])
        axis = entry["config"].get("axis", 0)
        # Keras 3.15 drops such axes when it loads HDF5, and takes "dot" for the function of this name.
        if axis is None or (isinstance(axis, list) and len(axis) > 1) or entry["config"].get("score_mode") == "dot":
            _mark(entry)
    return config


def _translate_old(config: Any, writer: Writer, label: str) -> None:
    for entry in _entries(config):
        if isinstance(entry["config"], list):  # a Sequential of Keras before 2.2.3, which had no name
            entry["config"] = {"name": "sequential", "layers": entry["config"]}
    if writer.backend == "theano" and any(_CONVOLUTION.search(e["class_name"]) for e in _entries(config)):
        raise BadInput(
            f"{label} was written by Keras on Theano, which stores the kernels of convolutions flipped",
            hint="load it with Keras 2.2 on TensorFlow and save it again",
        )
    from_corners = _upsampled_from_corners(config, writer)
    for entry in list(_entries(config)):
        if re.match(r"keras\.(src\.)?engine\.", str(entry.get("module"))):
            del entry["module"]
            _mark(entry)
        _count_calls_from_zero(entry)
        layers = entry["config"].get("layers")
        if isinstance(layers, list):
            translate_calls([n for n in layers if isinstance(n, dict) and isinstance(n.get("config"), dict)])
        if _BUILT_BY_CALLS.fullmatch(entry["class_name"]):
            entry.pop("build_config", None)
        _begin_with_input(entry)
        if entry["class_name"] == "Conv3DTranspose" and writer.in_tensorflow and writer.version == _TENSORFLOW_1_4:
            entry["class_name"] = "Conv3D"
        if entry["class_name"] in CUDNN_LAYERS:
            entry["class_name"], arguments = CUDNN_LAYERS[entry["class_name"]]
            entry["config"].update(arguments)
        _drop_arguments(entry)
        _name_activations(entry)
        if entry["class_name"] in ("GRU", "GRUCell"):
            entry["config"].setdefault("reset_after", False)
        for nested in (n for key in _NESTED for n in _listed(entry["config"].get(key)) if isinstance(n, dict)):
            _mark(nested)
        _raise_epsilon(entry, writer)
        _align_corners(entry, from_corners, label)
        if entry["class_name"] == "Bidirectional" and _holds_outputs(entry["config"].get("layer"), writer):
            _substitute(entry, HOLDING_BIDIRECTIONAL)
        if entry["class_name"] in FUNCTION_LAYERS:
            _substitute(entry, TENSORFLOW_FUNCTION)
        if entry["class_name"] == "TensorFlowOpLayer":
            _substitute(entry, TENSORFLOW_OPERATOR)
            entry["config"].update(name=entry.get("name"), dtype=entry["config"].get("dtype") or "float32")
        _take_any_threshold(entry)
        if entry["class_name"] in LOCALLY_CONNECTED:
            _connect_locally(entry, label)


def _entries(config: Any) -> Iterator[dict[str, Any]]:
    """Yield every object with a class and a configuration, outer ones first."""
    stack = [config]
    while stack:
        item = stack.pop()
        if isinstance(item, dict):
            if isinstance(item.get("class_name"), str) and isinstance(item.get("config"), dict | list):
                yield item
            stack += item.values()
        elif isinstance(item, list):
            stack += item


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _mark(entry: dict[str, Any]) -> None:
    """Mark a layer as being in Keras 3's format, because the reader of the older format changes some arguments."""
    if "class_name" in entry and "module" not in entry:
        if entry["class_name"] == "Model":
            entry["class_name"] = "Functional"
        module = {"Functional": "keras.src.models.functional", "Sequential": "keras"}.get(entry["class_name"])
        entry.update(module=module or "keras.layers", registered_name=None)


def _substitute(entry: dict[str, Any], name: str, **more: Any) -> None:
    """Replace an entry by a class of `keras_two_layers.py`, in Keras 3's format."""
    entry.update(class_name=name.partition(">")[2], module=None, registered_name=name)
    entry["config"].update(more)


def _count_calls_from_zero(entry: dict[str, Any]) -> None:
    """Number the calls of nested models from 0: Keras 2 counts their construction as the first call."""
    layers = [n for n in _listed(entry["config"].get("layers")) if isinstance(n, dict)]
    models = {n.get("name") for n in layers if n.get("class_name") in ("Functional", "Model", "Sequential")}
    places = ("input_layers", "output_layers")
    calls = [*(n.get("inbound_nodes") for n in layers), *(entry["config"].get(place) for place in places)]
    origins = [o for o in _origins(calls) if o[0] in models]
    if origins and all(o[1] > 0 for o in origins):
        for origin in origins:
            origin[1] -= 1


_REJECTED = re.compile(r"[^A-Za-z0-9_.-]")
"""Characters that Keras 3 rejects in the name of a layer (`/`), or TensorFlow in the name of a node, such as `\\`."""


def _rename_layers(entry: dict[str, Any]) -> None:
    """Write `_` for each character in the names of a model's layers that Keras 3 or TensorFlow rejects."""
    if not isinstance(entry["config"], dict):
        return
    layers = [n for n in _listed(entry["config"].get("layers")) if isinstance(n, dict)]
    taken = {str(n.get("name")) for n in layers}
    renamed = dict[str, str]()
    for name in sorted(taken):
        if _REJECTED.search(name):
            new = _REJECTED.sub("_", name)
            while new in taken:
                new += "_"
            renamed[name] = new
            taken.add(new)
    places = [entry["config"].get(place) for place in ("input_layers", "output_layers")]
    for origin in _origins([*(n.get("inbound_nodes") for n in layers), *places]) if renamed else ():
        origin[0] = renamed.get(origin[0], origin[0])
    for layer in layers:
        if "name" in layer:
            layer["name"] = renamed.get(layer["name"], layer["name"])
        config = layer.get("config")
        if isinstance(config, dict) and isinstance(config.get("name"), str):
            config["name"] = renamed.get(config["name"], _REJECTED.sub("_", config["name"]))
    if isinstance(entry["config"].get("name"), str):
        entry["config"]["name"] = _REJECTED.sub("_", entry["config"]["name"])


def _origins(value: Any) -> Iterator[list[Any]]:
    """Yield every [layer, call, output, …] in lists and in keyword arguments."""
    if isinstance(value, list) and len(value) >= 3 and isinstance(value[0], str) and isinstance(value[1], int):
        yield value
    for item in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _origins(item)


def _begin_with_input(entry: dict[str, Any]) -> None:
    """Move the input shape of a Sequential's first layer to an InputLayer."""
    layers = entry["config"].get("layers")
    if not isinstance(layers, list) or not all(
        isinstance(n, dict) and isinstance(n.get("config"), dict) for n in layers
    ):
        return
    shapes = [n["config"].pop("batch_input_shape", None) for n in layers if n.get("class_name") != "InputLayer"]
    if entry["class_name"] == "Sequential" and len(shapes) == len(layers) and shapes and shapes[0]:
        name, dtype = layers[0]["config"].get("name"), layers[0]["config"].get("dtype")
        # An Embedding takes float32 input in Keras 2 by default.
        known = isinstance(dtype, str) and layers[0].get("class_name") != "Embedding"
        described = {"batch_shape": shapes[0], "dtype": dtype if known else "float32", "name": f"{name}_input"}
        layers.insert(0, {"class_name": "InputLayer", "config": described})


def _drop_arguments(entry: dict[str, Any]) -> None:
    """Drop arguments that Keras 3 lacks, and rewrite others for it."""
    config = entry["config"]
    for pattern, defaults in _NO_LONGER_TAKEN.items():
        if re.fullmatch(pattern, entry["class_name"]):
            entry["config"] = config = {k: v for k, v in config.items() if k not in defaults or v != defaults[k]}
    for pattern, names in _WITHOUT_EFFECT.items():
        if re.fullmatch(pattern, entry["class_name"]):
            entry["config"] = config = {k: v for k, v in config.items() if k not in names}
    axis = config.get("axis")
    if isinstance(axis, list) and len(axis) == 1:
        config["axis"] = axis[0]
    for key, value in config.items():
        if key.endswith("_initializer") and isinstance(value, dict) and isinstance(value.get("config"), dict):
            value["config"].pop("dtype", None)
    if entry["class_name"] == "InputLayer":
        if "batch_input_shape" in config:
            config["batch_shape"] = config.pop("batch_input_shape")
        if config.get("ragged") is False:
            del config["ragged"]


def _name_activations(entry: dict[str, Any]) -> None:
    for key, value in entry["config"].items():
        name = _function_name(value) if key.endswith("activation") else None
        if name in ("log_softmax_v2", "softmax_v2"):  # TensorFlow's own names, which tf.keras of 2.6 and 2.9 writes
            entry["config"][key] = name.removesuffix("_v2")
        elif name == "hard_sigmoid":
            named = {"class_name": "function", "module": "builtins", "config": HARD_SIGMOID}
            entry["config"][key] = {**named, "registered_name": HARD_SIGMOID}


def _function_name(value: Any) -> Any:
    """Return the name of a function, which is text or, from Keras 2.12 on, an object."""
    return value.get("config") if isinstance(value, dict) and value.get("class_name") == "function" else value


def _raise_epsilon(entry: dict[str, Any], writer: Writer) -> None:
    config = entry["config"]
    if entry["class_name"] != "BatchNormalization" or writer.version >= (2, 12) or config.get("renorm"):
        return
    small = config.get("epsilon", 1e-3) < MIN_FUSED_EPSILON
    axis = config.get("axis")
    several = isinstance(axis, list) and len(axis) > 1
    if small and not several and config.get("dtype") != "float64":
        # The package keras used the fused operator with channels first on GPUs only.
        axes = [1, -1] if writer.in_tensorflow else [-1]
        ranks = [4, 5] if writer.version >= (2, 6) else [4]
        _substitute(entry, FUSED_BATCH_NORMALIZATION, fused_ranks=ranks, fused_axes=axes)


def _take_any_threshold(entry: dict[str, Any]) -> None:
    """Rewrite a ThresholdedReLU, and a ReLU with a negative threshold, as a layer that takes any threshold."""
    config = entry["config"]
    if entry["class_name"] == "ThresholdedReLU":
        _substitute(entry, ANY_THRESHOLD, threshold=float(_number(config.pop("theta", 1.0))))
    elif entry["class_name"] == "ReLU" and _number(config.get("threshold", 0.0)) < 0:
        _substitute(entry, ANY_THRESHOLD)


def _connect_locally(entry: dict[str, Any], label: str) -> None:
    """Substitute a locally connected layer. Raises `BadInput` if its kernel is stored as one large matrix."""
    config = entry["config"]
    if config.pop("implementation", 1) != 1:
        raise BadInput(
            f"{label} holds {entry['class_name']} {config.get('name')} with another implementation than 1",
            hint="make the layer with implementation=1, or save the model as a SavedModel in Keras 2",
        )
    names = ("name", "dtype", "trainable", "filters", "kernel_size", "strides", "data_format", "activation", "use_bias")
    entry["config"] = {name: config[name] for name in names if name in config}
    _substitute(entry, LOCALLY_CONNECTED[entry["class_name"]])


def _number(value: Any) -> Any:
    """Return a number that may be stored as an array: {"type": "ndarray", "value": 0.5}."""
    return value.get("value", value.get("config")) if isinstance(value, dict) else value


def _upsampled_from_corners(config: Any, writer: Writer) -> bool | None:
    """Return whether the writer interpolated between corners, or None if the file does not tell.

    TensorFlow 1.13 to 2.1 all call their Keras 2.2.4-tf. Only 1.15 and 2.1 write `ragged`, and only 1.x writes the
    dtypes of initializers; 1.13 and 1.14 interpolate between corners.
    """
    if not writer.in_tensorflow or writer.version != _SEVERAL_RELEASES:
        return not writer.in_tensorflow
    inputs = [e["config"] for e in _entries(config) if e["class_name"] == "InputLayer"]
    initializers = [i for e in _entries(config) if isinstance(e["config"], dict) for i in _initializers(e["config"])]
    if any("ragged" in given for given in inputs) or (initializers and not any("dtype" in i for i in initializers)):
        return False
    return True if inputs and initializers else None


def _initializers(config: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the configurations of a layer's initializers."""
    found = [value for key, value in config.items() if key.endswith("_initializer") and isinstance(value, dict)]
    return [value["config"] for value in found if isinstance(value.get("config"), dict)]


def _align_corners(entry: dict[str, Any], from_corners: bool | None, label: str) -> None:
    if entry["class_name"] != "UpSampling2D" or entry["config"].get("interpolation") != "bilinear":
        return
    if from_corners is None:
        raise BadInput(
            f"{label} does not tell which of TensorFlow 1.13 to 2.1 wrote it, which upsample in different ways",
            hint="load it with the version of TensorFlow that wrote it and save it as a SavedModel",
        )
    if from_corners:
        _substitute(entry, CORNER_UPSAMPLING)


def _holds_outputs(layer: Any, writer: Writer) -> bool:
    """Return whether a Bidirectional of this layer keeps the output before a masked step.

    The kernels that TensorFlow 2.0 and 2.1 choose where cuDNN could run ignore `zero_output_for_mask`.
    """
    if not writer.in_tensorflow or writer.version < _SEVERAL_RELEASES:
        return True
    config = layer.get("config") if isinstance(layer, dict) else None
    if writer.version != _SEVERAL_RELEASES or not isinstance(config, dict) or layer.get("class_name") not in _GATED:
        return False
    initializers = _initializers(config)
    if not initializers or any("dtype" in initializer for initializer in initializers):
        return False
    fits = {"activation": "tanh", "recurrent_activation": "sigmoid", "use_bias": True, "unroll": False}
    usual = all(config.get(key) == value for key, value in fits.items()) and not config.get("recurrent_dropout")
    return usual and config.get("reset_after", True) is True
