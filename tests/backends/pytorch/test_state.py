"""State is kept in buffers: repeated calls behave as in the source, and a verdict compares the buffers."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper
from safetensors.torch import load_file
from torch import Tensor, nn

import convert
from convert.graph.metadata import STATE_KEY

FORMS = {"torch": ".pt2", "torch-script": ".pt", "torch-code": ".torch"}
X = np.random.default_rng(0).normal(size=(3, 2, 3)).astype(np.float32)
"""Inputs of three calls."""


def loaded(path: Path) -> Any:
    """Load an artefact as its users do."""
    if path.suffix == ".pt2":
        return torch.export.load(path).module()
    if path.suffix == ".pt":
        return torch.jit.load(path)
    spec = importlib.util.spec_from_file_location("model", path / "model.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    network = module.Model()
    network.load_state_dict(load_file(path / "model.safetensors"))
    return network.eval()


def outputs_of(network: Any, x: np.ndarray) -> dict[str, np.ndarray]:
    """Return the outputs by name; an unnamed one is called `y`."""
    found = network(torch.from_numpy(x))
    found = found if isinstance(found, dict) else {"y": found}
    return {name: y.detach().numpy() for name, y in found.items()}


@pytest.fixture(scope="module")
def counting() -> Any:
    """Return a TensorFlow function that counts its calls and returns the state before the call."""
    tf = pytest.importorskip("tensorflow", reason="TensorFlow is the source")
    from tests.frontends.tensorflow.graph.test_state import Counting

    def make(folder: Path) -> tuple[Path, Callable[[np.ndarray], dict[str, np.ndarray]]]:
        module = Counting()
        concrete = module.__call__.get_concrete_function()
        tf.saved_model.save(module, str(folder / "m.savedmodel"), signatures=concrete)
        return folder / "m.savedmodel", lambda x: {k: v.numpy() for k, v in concrete(tf.constant(x)).items()}

    return make


@pytest.mark.slow
@pytest.mark.parametrize(("form", "way"), [*((form, "") for form in FORMS), ("torch-code", "onnx")])
def test_calls_in_a_row(form: str, way: str, counting: Any, tmp_path: Path) -> None:
    """The state comes directly from TensorFlow, or through an ONNX file, whose metadata have its initial value."""
    source, call = counting(tmp_path)
    if way:
        convert.convert(source, "onnx", tmp_path / "m.onnx", verify=False)
        source = tmp_path / "m.onnx"
    report = convert.convert(source, form, tmp_path / f"out{FORMS[form]}")
    assert report.verdict is not None
    assert report.verdict.status == "PASS"
    assert {o.name for o in report.verdict.outputs} == {"y", "before", "total_next", "calls_next"}
    network = loaded(tmp_path / f"out{FORMS[form]}")
    assert sorted(n for n, _ in network.named_buffers()) == ["calls", "total"]
    for x in X:
        wanted, got = call(x), outputs_of(network, x)
        assert got.keys() == wanted.keys()
        for name, y in wanted.items():
            np.testing.assert_allclose(got[name], y, rtol=1e-6, atol=1e-6)


@pytest.mark.slow
def test_stateful_layers_of_keras(tmp_path: Path) -> None:
    """Keras was given a batch size of two, so that the state has a fixed size."""
    pytest.importorskip("tensorflow", reason="TensorFlow runs Keras")
    from tests.support.keras_helper import keras, layers

    x = keras.Input(batch_shape=(2, None, 3), name="x")
    model = keras.Model(x, layers.LSTM(4, stateful=True, name="y")(x))
    report = convert.convert(model, "torch", tmp_path / "m.pt2")
    assert report.verdict is not None
    assert report.verdict.status == "PASS"
    program = torch.export.load(tmp_path / "m.pt2")
    changed = program.run_decompositions().graph_signature.buffers_to_mutate
    assert sorted(changed.values()) == ["y.rnn_state", "y.rnn_state_1"]
    network = program.module()
    for fed in X.reshape(3, 2, 1, 3):
        np.testing.assert_allclose(outputs_of(network, fed)["y"], model(fed), rtol=1e-5, atol=1e-6)


class Counter(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(3))
        self.register_buffer("total", torch.zeros(3))

    def forward(self, x: Tensor) -> Tensor:
        self.total = self.total + (x * self.weight).sum(0)
        return x + self.total


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS)
def test_gradients_end_with_a_call(form: str, tmp_path: Path) -> None:
    """Gradients stop there in TensorFlow too; otherwise a second backward would be an error. PyTorch is the source
    here.
    """
    convert.convert(Counter(), form, tmp_path / f"m{FORMS[form]}", inputs=["x:float32[batch,3]"], verify=False)
    network, reference = loaded(tmp_path / f"m{FORMS[form]}"), Counter()
    for x in map(torch.from_numpy, X):
        found = network(x)
        found = next(iter(found.values())) if isinstance(found, dict) else found
        found.sum().backward()
        reference(x).sum().backward()
        reference.total = reference.total.detach()
    (weight,) = network.parameters()
    torch.testing.assert_close(weight.grad, reference.weight.grad)


def accumulating(dims: list[Any], note: Any) -> onnx.ModelProto:
    """Return a model in which `held_next` is the sum of `held` and x, and `y` is twice that sum."""
    nodes = [helper.make_node("Add", ["held", "x"], ["held_next"]), helper.make_node("Add", ["held_next"] * 2, ["y"])]
    ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT, dims) for n in ("x", "held", "y", "held_next")]
    model = helper.make_model(
        helper.make_graph(nodes, "net", ends[:2], ends[2:]), opset_imports=[helper.make_opsetid("", 20)], ir_version=9
    )
    if note is not None:
        helper.set_model_props(model, {STATE_KEY: json.dumps(note)})
    return model


ENTRY = {"variable": "held", "output": "held_next", "initial": 1.5}


@pytest.mark.parametrize(
    ("dims", "note", "note_text"),
    [
        ([2, 3], {"held": ENTRY}, "kept in buffers"),
        ([2, 3], {"held": ENTRY | {"initial": [[1.5] * 3] * 2, "variable": "cell/state"}}, "kept in buffers"),
        (["batch", 3], {"held": ENTRY}, "its size is not known"),
        ([2, 3], {"held": ENTRY | {"initial": None}}, "its first content is not known"),
        ([2, 3], {"held": ENTRY | {"initial": [[1.5], [1, 2]]}}, "its first content is not known"),
        ([2, 3], {"held": ENTRY | {"initial": "1e999"}}, "kept in buffers"),
        ([2, 3], {"held": ENTRY | {"output": "none"}}, ""),
        ([2, 3], {"held": 7, "other": ENTRY}, ""),
        ([2, 3], None, ""),
    ],
    ids=str,
)
def test_what_metadata_say(dims: list[Any], note: Any, note_text: str, tmp_path: Path) -> None:
    """Anybody may write metadata. Without them a matching input and output, such as a cache, stay an input and an
    output.
    """
    onnx.save(accumulating(dims, note), tmp_path / "m.onnx")
    report = convert.convert(tmp_path / "m.onnx", "torch", tmp_path / "m.pt2", verify=False)
    found = [text for text in report.notes if (note_text or "buffer") in text]
    assert bool(found) == bool(note_text)
    program = torch.export.load(tmp_path / "m.pt2")
    is_buffer = note_text == "kept in buffers"
    assert program.graph_signature.user_inputs == (("x",) if is_buffer else ("x", "held"))
    assert list(program.graph_signature.buffers) == (["held"] if is_buffer else [])


NAMES = ["train", "held.x", "1st", "class", "__h", "graph", "last", "held"]


@pytest.mark.slow
@pytest.mark.parametrize("form", ["torch", "torch-code"])
def test_names_of_states(form: str, tmp_path: Path) -> None:
    """Names of modules, of Python, and names that are no identifiers: the verdict finds the state under each."""
    model = accumulating([2, 3], {n: {"variable": n, "output": f"{n}_next", "initial": 0.5} for n in NAMES})
    for n in NAMES:
        model.graph.node.add().CopyFrom(helper.make_node("Sub", ["y", n], [f"{n}_next"]))
        model.graph.input.append(helper.make_tensor_value_info(n, TensorProto.FLOAT, [2, 3]))
        model.graph.output.append(helper.make_tensor_value_info(f"{n}_next", TensorProto.FLOAT, [2, 3]))
    del model.graph.input[1], model.graph.output[1], model.graph.node[-1:]
    onnx.save(model, tmp_path / "m.onnx")
    report = convert.convert(tmp_path / "m.onnx", form, tmp_path / f"m{FORMS[form]}")
    assert report.verdict is not None
    assert report.verdict.status == "PASS"
    assert {n for n, _ in loaded(tmp_path / f"m{FORMS[form]}").named_buffers()} == {"held", "last"}
