"""The files to mutate: one small network in each format, written by the frameworks themselves.

`python -m tests.suites.fuzzing.seeds FORMAT FOLDER` writes one of them.
"""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

FACTORY = """
    import torch

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = torch.nn.Conv2d(1, 2, 3)
            self.norm = torch.nn.BatchNorm2d(2)
            self.dense = torch.nn.Linear(72, 3)

        def forward(self, x):
            return self.dense(torch.relu(self.norm(self.conv(x))).flatten(1))
"""
SHAPE = (2, 1, 8, 8)


def torch_network() -> Any:
    """The network in PyTorch; its weights are always the same."""
    import torch

    names: dict[str, Any] = {}
    exec(textwrap.dedent(FACTORY), names)
    torch.manual_seed(0)
    network = names["Net"]().eval()
    network.norm.running_mean += 0.1
    return network


def keras_network() -> Any:
    """The same layers in Keras."""
    import keras

    keras.utils.set_random_seed(0)
    layers = keras.layers
    return keras.Sequential(
        [
            keras.Input((8, 8, 1)),
            layers.Conv2D(2, 3, activation="relu"),
            layers.BatchNormalization(),
            layers.Flatten(),
            layers.Dense(3),
        ]
    )


def _state(folder: Path) -> None:
    import torch

    torch.save(torch_network().state_dict(), folder / "m.pt")
    (folder / "net.py").write_text(textwrap.dedent(FACTORY))


def _safetensors(folder: Path) -> None:
    import safetensors.torch

    safetensors.torch.save_file(torch_network().state_dict(), folder / "m.safetensors")
    (folder / "net.py").write_text(textwrap.dedent(FACTORY))


def _torchscript(folder: Path) -> None:
    import torch

    class Repeat(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = torch.jit.trace(torch_network(), torch.zeros(SHAPE))

        def forward(self, x: torch.Tensor, count: int = 2) -> torch.Tensor:
            y = self.net(x)
            for _ in range(count):
                y = y + 1 if bool(y.sum() > 0) else y - 1
            return y

    torch.jit.script(Repeat()).save(str(folder / "m.pt"))


def _exported(folder: Path) -> None:
    import torch

    batch = {"x": {0: torch.export.Dim("batch", max=64)}}
    torch.export.save(
        torch.export.export(torch_network(), (torch.zeros(SHAPE),), dynamic_shapes=batch), folder / "m.pt2"
    )


def _onnx(folder: Path) -> None:
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    rng = np.random.default_rng(0)
    weights = {"w": (2, 1, 3, 3), "b": (2,), "m": (72, 3), "c": (3,)}
    held = [numpy_helper.from_array(rng.normal(size=s).astype("f4"), n) for n, s in weights.items()]
    held.append(numpy_helper.from_array(np.array([0, -1]), "shape"))
    info = helper.make_tensor_value_info
    then = helper.make_graph([helper.make_node("Neg", ["g"], ["t"])], "then", [], [info("t", 1, None)])
    other = helper.make_graph([helper.make_node("Exp", ["g"], ["o"])], "else", [], [info("o", 1, None)])
    nodes = [
        helper.make_node("Conv", ["x", "w", "b"], ["h"], kernel_shape=[3, 3], name="conv"),
        helper.make_node("LeakyRelu", ["h"], ["r"], alpha=0.1),
        helper.make_node("Reshape", ["r", "shape"], ["f"]),
        helper.make_node("Gemm", ["f", "m", "c"], ["g"]),
        helper.make_node("ReduceSum", ["g"], ["s"], keepdims=0),
        helper.make_node("Less", ["s", "s"], ["l"]),
        helper.make_node("If", ["l"], ["y"], then_branch=then, else_branch=other),
    ]
    graph = helper.make_graph(
        nodes, "g", [info("x", TensorProto.FLOAT, ["n", 1, 8, 8])], [info("y", 1, ["n", 3])], held
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
    onnx.save(model, folder / "m.onnx", save_as_external_data=True, location="m.data", size_threshold=200)


def _savedmodel(folder: Path) -> None:
    import tensorflow as tf

    network = keras_network()
    signature = tf.function(network, input_signature=[tf.TensorSpec((None, 8, 8, 1), tf.float32, name="x")])
    module = tf.Module()
    module.call = signature
    module.held = [v.value for v in network.weights]
    tf.saved_model.save(module, str(folder / "m"), signatures=signature)


def _frozen(folder: Path) -> None:
    import tensorflow as tf
    from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2

    network = keras_network()
    signature = tf.function(network, input_signature=[tf.TensorSpec((None, 8, 8, 1), tf.float32, name="x")])
    graph = convert_variables_to_constants_v2(signature.get_concrete_function()).graph.as_graph_def()
    (folder / "m.pb").write_bytes(graph.SerializeToString())


def _lite(folder: Path) -> None:
    import tensorflow as tf

    (folder / "m.tflite").write_bytes(tf.lite.TFLiteConverter.from_keras_model(keras_network()).convert())


def _caffe2(folder: Path) -> None:
    from convert import convert

    (folder / "onnx").mkdir()
    source = folder / "onnx" / "m.onnx"
    import onnx

    _onnx(source.parent)
    model = onnx.load(source)
    kept = list(model.graph.node[:4])
    kept[3].output[0] = "y"
    del model.graph.node[:]
    model.graph.node.extend(kept)
    onnx.save(model, source)
    convert(source, "caffe2", folder / "m", verify=False)
    for file in source.parent.iterdir():
        file.unlink()
    source.parent.rmdir()


WRITERS: dict[str, tuple[Callable[[Path], None], str]] = {
    "pt": (_state, "m.pt"),
    "torchscript": (_torchscript, "m.pt"),
    "pt2": (_exported, "m.pt2"),
    "safetensors": (_safetensors, "m.safetensors"),
    "onnx": (_onnx, "m.onnx"),
    "savedmodel": (_savedmodel, "m"),
    "frozen": (_frozen, "m.pb"),
    "keras": (lambda folder: keras_network().save(folder / "m.keras"), "m.keras"),
    "h5": (lambda folder: keras_network().save(folder / "m.h5"), "m.h5"),
    "tflite": (_lite, "m.tflite"),
    "caffe2": (_caffe2, "m"),
}
"""By format: the function that writes its file, and the name of the file or folder."""


if __name__ == "__main__":
    form, place = sys.argv[1:]
    WRITERS[form][0](Path(place))
