"""Errors planted in the frontends, which the verdict has to find by comparing with the source itself.

`READERS` are small sources, one or more for each frontend, each written by its own framework (Caffe2's by our backend,
because no other writer is available). `ERRORS` change the nodes that the frontend emits. ONNX's nodes are copied as
they are, so its errors are in the inliner, in the adapters between opsets and in the attributes of the file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import onnx
import onnx_ir as ir
import torch
from onnx import helper, numpy_helper
from torch import nn

Error = Callable[[], Any]
"""A context manager within which a frontend reads wrongly; it returns a list of the changes."""

Change = Callable[[list[Any], dict[str, Any]], bool]
"""A function that changes inputs or attributes of a node in place, and returns False if there is nothing to change."""


@contextmanager
def emitting(change: Change, *operators: str) -> Iterator[list[str]]:
    """Change nodes of these operators as the frontend's rules emit them."""
    from convert.graph import Graph

    original, changed = Graph.node, []

    def node(self: Graph, operator: str, inputs: Sequence[Any], attributes: Any = None, **rest: Any) -> Any:
        given, known = list(inputs), dict(attributes or {})
        if operator in operators and change(given, known):
            changed.append(operator)
        return original(self, operator, given, known, **rest)

    with mock.patch.object(Graph, "node", node):
        yield changed


@contextmanager
def taking_over(change: Callable[[ir.Node], bool], *operators: str) -> Iterator[list[str]]:
    """Change nodes of these operators as they are copied from an ONNX file."""
    original, changed = ir.serde.deserialize_model, []

    def deserialize(proto: onnx.ModelProto) -> ir.Model:
        model = original(proto)
        for node in model.graph.all_nodes():
            if node.op_type in operators and change(node):
                changed.append(node.op_type)
        return model

    with mock.patch.object(ir.serde, "deserialize_model", deserialize):
        yield changed


@contextmanager
def without_defaults() -> Iterator[list[str]]:
    """Drop a function's own attribute values, as ONNX's inliner does."""
    from convert.frontends.onnx import functions

    changed: list[str] = []

    def forget(nodes: Any, bodies: Any) -> None:
        changed.append("function")

    with mock.patch.object(functions, "_fill_defaults", forget):
        yield changed


@contextmanager
def exchanged_weights() -> Iterator[list[str]]:
    """Exchange a shift and a mean."""
    from convert.frontends.onnx import reader

    original, changed = reader._finish_model, []

    def finish(proto: onnx.ModelProto, weights: dict[str, Any], *rest: Any) -> ir.Model:
        for one in proto.graph.initializer:
            for two in proto.graph.initializer:
                if (one.name, two.name) in (("b", "m"), ("m", "b")):
                    one.name, two.name = two.name, one.name
                    changed.append(one.name)
                    return original(proto, weights, *rest)
        return original(proto, weights, *rest)

    with mock.patch.object(reader, "_finish_model", finish):
        yield changed


def _set(name: str, new: Callable[[Any], Any], default: Any = None) -> Change:
    def change(inputs: list[Any], attributes: dict[str, Any]) -> bool:
        old = attributes.get(name, default)
        if old is None:
            return False
        attributes[name] = new(old)
        return bool(attributes[name] != old)

    return change


def _pads(inputs: list[Any], attributes: dict[str, Any]) -> bool:
    pads = list(attributes.get("pads") or [])
    if not any(pads):
        return False
    half = len(pads) // 2
    place = next(i for i, pad in enumerate(pads) if pad)
    other = place + half if place < half else place - half
    attributes["pads"] = [p - (i == place) + (i == other) for i, p in enumerate(pads)]
    return True


def _swapped(inputs: list[Any], attributes: dict[str, Any]) -> bool:
    inputs.reverse()
    return len(inputs) == 2


def _without_bias(inputs: list[Any], attributes: dict[str, Any]) -> bool:
    if len(inputs) < 3 or inputs[2] is None:
        return False
    inputs[2] = None
    return True


def _scaled(place: int, factor: float) -> Change:
    """Scale a constant input."""

    def change(inputs: list[Any], attributes: dict[str, Any]) -> bool:
        value = inputs[place] if len(inputs) > place else None
        array = value.const_value.numpy() if isinstance(value, ir.Value) and value.const_value is not None else value
        if type(array) in (int, float):  # it has the dtype that the operator requires
            inputs[place] = array * factor
            return True
        if not isinstance(array, (np.ndarray, np.floating)):
            return False
        array = np.asarray(array)
        if array.dtype.kind != "f":
            return False
        inputs[place] = (array * factor).astype(array.dtype)
        return True

    return change


_NORMS = ("BatchNormalization", "LayerNormalization", "GroupNormalization", "InstanceNormalization")

ERRORS: dict[str, Error] = {
    "epsilon": lambda: emitting(_set("epsilon", lambda e: 50 * e, 1e-5), *_NORMS),
    "slope": lambda: emitting(_set("alpha", lambda a: 1.02 * a), "LeakyRelu", "Elu"),
    "tanh gelu": lambda: emitting(_set("approximate", lambda a: "tanh", "none"), "Gelu"),
    "axis": lambda: emitting(_set("axis", lambda a: 0, -1), "Softmax", "LogSoftmax"),
    "pads": lambda: emitting(_pads, "Conv", "MaxPool", "AveragePool"),
    "operands": lambda: emitting(_swapped, "Sub", "Concat", "Div"),
    "bias": lambda: emitting(_without_bias, "Conv", "Gemm"),
    "bound": lambda: emitting(_scaled(2, 0.9), "Clip"),
    "corners": lambda: emitting(
        _set("coordinate_transformation_mode", lambda m: "align_corners", "half_pixel"), "Resize"
    ),
    "count of padding": lambda: emitting(_set("count_include_pad", lambda c: 1 - int(c), 0), "AveragePool"),
    "scale": lambda: emitting(_scaled(1, 1.01), "DequantizeLinear"),
    "rounding": lambda: emitting(_scaled(1, 1.01), "QuantizeLinear"),
}
"""Errors of frontends that emit the shared graph node by node."""


def _reset(name: str, new: Callable[[Any], Any], default: float) -> Callable[[ir.Node], bool]:
    def change(node: ir.Node) -> bool:
        node.attributes[name] = ir.AttrFloat32(name, new(node.attributes.get_float(name, default)))
        return True

    return change


def _moved_pads(node: ir.Node) -> bool:
    attributes = {"pads": list(node.attributes["pads"].as_ints()) if "pads" in node.attributes else []}
    if not _pads([], attributes):
        return False
    node.attributes["pads"] = ir.AttrInt64s("pads", attributes["pads"])
    return True


ONNX_ERRORS: dict[str, Error] = {
    "attribute default": without_defaults,
    "adapter's axis": ERRORS["axis"],
    "adapter's shift": lambda: emitting(_scaled(1, 0.9), "Clip", "Add"),
    "weights": exchanged_weights,
    "epsilon": lambda: taking_over(_reset("epsilon", lambda e: 50 * e, 1e-5), "BatchNormalization"),
    "slope": lambda: taking_over(_reset("alpha", lambda a: 1.02 * a, 0.01), "LeakyRelu"),
    "pads": lambda: taking_over(_moved_pads, "Conv", "MaxPool"),
}


# -- sources ----------------------------------------------------------------------------------------------------------


class Mixed(nn.Module):
    """A network with many layers that can be read wrongly: norms, activations, pools, a resize, a softmax."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv2d(3, 8, 3, 2, 1), nn.BatchNorm2d(8)
        self.groups, self.deep = nn.GroupNorm(2, 8), nn.Conv2d(8, 8, 3, padding=1)
        self.layers, self.out = nn.LayerNorm(8), nn.Linear(8, 6)

    def forward(self, image: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        x = nn.functional.leaky_relu(self.norm(self.conv(image)), 0.2)
        y = nn.functional.gelu(self.groups(self.deep(nn.functional.max_pool2d(x, 3, 2, 1))))
        y = nn.functional.avg_pool2d(y, 3, 1, 1)
        y = nn.functional.interpolate(y, scale_factor=2.0, mode="bilinear", align_corners=False)
        z = self.layers(torch.cat([x, y], 2).flatten(2).transpose(1, 2))
        scores = self.out(1.5 - nn.functional.relu6(2 * z))
        return scores, torch.softmax(scores, -1)


def mixed() -> nn.Module:
    """Return the network with statistics that are not trivial."""
    torch.manual_seed(2)
    module = Mixed().eval()
    with torch.no_grad():
        for part in (module.norm, module.groups, module.layers):
            part.weight.uniform_(0.5, 1.5)
            part.bias.normal_()
        module.norm.running_mean.normal_(0, 0.1)
        module.norm.running_var.uniform_(0.02, 0.1)
    return module


IMAGE = "image:float32[batch,3,16,16]"


def _scripted(folder: Path) -> Path:
    torch.jit.trace(mixed(), torch.randn(2, 3, 16, 16), check_trace=False).save(folder / "mixed.ts")
    return folder / "mixed.ts"


def _exported(folder: Path) -> Path:
    batch = torch.export.Dim("batch", min=1, max=64)
    program = torch.export.export(mixed(), (torch.randn(2, 3, 16, 16),), dynamic_shapes=({0: batch},), strict=False)
    torch.export.save(program, folder / "mixed.pt2")
    return folder / "mixed.pt2"


def onnx_file(folder: Path, opset: int) -> Path:
    """Write a network with a function that has its own slope, and operators that have changed since opset 11."""
    rng = np.random.default_rng(3)
    shapes = {"w": (8, 3, 3, 3), "u": (8, 8, 3, 3), "s": (8,), "b": (8,), "m": (8,), "f": (8, 6)}
    weights = {name: rng.normal(size=shape).astype(np.float32) / 2 for name, shape in shapes.items()}
    weights |= {"v": rng.uniform(0.02, 0.1, 8).astype(np.float32)}
    inner = helper.make_node("LeakyRelu", ["a"], ["b"])
    inner.attribute.append(onnx.AttributeProto(name="alpha", ref_attr_name="alpha", type=onnx.AttributeProto.FLOAT))
    function = helper.make_function("mine", "Activation", ["a"], ["b"], [inner], [helper.make_opsetid("", opset)], [],
                                    [helper.make_attribute("alpha", 0.3)])  # fmt: skip
    make = helper.make_node
    nodes = [
        make("Conv", ["image", "w"], ["h0"], pads=[1, 1, 0, 0], strides=[2, 2]),
        make("BatchNormalization", ["h0", "s", "b", "m", "v"], ["h1"]),
        make("Activation", ["h1"], ["h2"], domain="mine"),
        make("MaxPool", ["h2"], ["h3"], kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
        make("Conv", ["h3", "u"], ["h4"], pads=[1, 1, 1, 1]),
        make("LeakyRelu", ["h4"], ["h5"], alpha=0.1),
        make("GlobalAveragePool", ["h5"], ["h6"]),
        make("Squeeze", ["h6"], ["h7"], axes=[2, 3]) if opset < 13 else make("Flatten", ["h6"], ["h7"]),
        make("Gemm", ["h7", "f"], ["scores"]),
        make("Softmax", ["scores"], ["shares"], axis=1),
    ]
    ends = [
        [helper.make_tensor_value_info("image", onnx.TensorProto.FLOAT, ["batch", 3, 16, 16])],
        [helper.make_tensor_value_info(n, onnx.TensorProto.FLOAT, ["batch", 6]) for n in ("scores", "shares")],
    ]
    content = [numpy_helper.from_array(array, name) for name, array in weights.items()]
    imports = [helper.make_opsetid("", opset), helper.make_opsetid("mine", 1)]
    graph = helper.make_graph(nodes, "net", *ends, content)
    onnx.save(helper.make_model(graph, opset_imports=imports, ir_version=9, functions=[function]), folder / "net.onnx")
    return folder / "net.onnx"


def _keras_model() -> Any:
    import keras
    from keras import layers

    from tests.support.keras_helper import calibrate

    keras.utils.set_random_seed(0)
    x = image = keras.Input((16, 16, 3), name="image")
    x = layers.Conv2D(8, 3, strides=2, padding="same")(x)
    x = layers.LeakyReLU(negative_slope=0.2)(layers.BatchNormalization(epsilon=1e-3)(x))
    y = layers.AveragePooling2D(3, strides=1, padding="same")(layers.MaxPooling2D(2)(x))
    y = layers.Conv2D(8, 3, padding="same", activation="relu6")(y)
    z = layers.GlobalAveragePooling2D()(layers.UpSampling2D(2, interpolation="bilinear")(y) - x)
    z = layers.Dense(8, activation="gelu")(z)
    scores = layers.Dense(6)(z)
    model = keras.Model(image, [scores, layers.Softmax()(scores)])
    calibrate(model, (16, 16, 3))
    return model


def _keras_file(folder: Path) -> Path:
    _keras_model().save(folder / "net.keras")
    return folder / "net.keras"


def _saved_model(folder: Path) -> Path:
    _keras_model().export(folder / "net.savedmodel", verbose=False)
    return folder / "net.savedmodel"


def _lite(folder: Path, quantized: bool) -> Path:
    import tensorflow as tf

    converter = tf.lite.TFLiteConverter.from_keras_model(_keras_model())
    if quantized:
        rng = np.random.default_rng(0)
        samples = [[rng.normal(size=(1, 16, 16, 3)).astype(np.float32)] for _ in range(20)]
        converter.optimizations = [tf.lite.Optimize.DEFAULT]
        converter.representative_dataset = lambda: samples
    path = folder / "net.tflite"
    path.write_bytes(converter.convert())
    return path


def _caffe2(folder: Path) -> Path:
    import convert

    convert.convert(mixed(), "caffe2", folder / "net.caffe2", inputs=IMAGE, verify=False)
    return folder / "net.caffe2"


READERS: dict[str, tuple[Callable[[Path], Any], str | None, Mapping[str, Error]]] = {
    "pytorch module": (lambda folder: mixed(), IMAGE, ERRORS),
    "pt2": (_exported, None, ERRORS),
    "torchscript": (_scripted, IMAGE, ERRORS),
    "onnx 11": (lambda folder: onnx_file(folder, 11), None, ONNX_ERRORS),
    "onnx 20": (lambda folder: onnx_file(folder, 20), None, ONNX_ERRORS),
    "savedmodel": (_saved_model, None, ERRORS),
    "keras": (_keras_file, None, ERRORS),
    "tflite": (lambda folder: _lite(folder, False), None, ERRORS),
    "tflite int8": (lambda folder: _lite(folder, True), None, ERRORS),
    "caffe2": (_caffe2, None, ERRORS),
}
"""Name → a function that makes the source in a folder, its input spec, and the planted errors."""

ONLY_FLOAT32 = {f"{name}, float32 only": name for name in ("torchscript", "onnx 11", "keras")}
"""The same sources without a run in float64: only their noise floor can show an error."""

NAMES = [*READERS, *ONLY_FLOAT32]

UNDECIDED = {
    "tflite int8": "its kernels compute in integers and round each result, so that source and graph are steps apart "
    "and nothing in float64 tells whether that is all: INCONCLUSIVE also where it was read as it is",
}
"""Sources whose correct reading does not pass either, with the reason; it must not FAIL."""
