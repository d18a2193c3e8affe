"""Readable code: its layers and classes, and that it computes the source's results without this project."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.parser
import onnx_ir as ir
import onnxruntime
import pytest
import torch
from convert.backends.pytorch.dtypes import tensor_from
from convert.backends.pytorch.emit import check
from convert.backends.pytorch.passes.legalize import legalize
from convert.backends.pytorch.writer.code import code_of as source_of_model
from onnx import helper
from torch import Tensor, nn

import convert
from convert.errors import UnsafeInput, Unsupported
from tests.backends.pytorch.ops.support import as_array
from tests.backends.pytorch.ops.test_rows import ROWS
from tests.backends.pytorch.test_backend import FIXTURES, model_of, perceptron
from tests.backends.tensorflow.ops.support import STATIC, assert_same, expected, feeds_of
from tests.backends.tensorflow.ops.support import model_of as row_model
from tests.support.cases import Case, params
from tests.support.marks import slow

FRESH = """
import sys
sys.modules["convert"] = None
import numpy as np, torch
from pathlib import Path
from safetensors.torch import load_file
for folder in map(Path, sys.argv[1:]):
    sys.path.insert(0, str(folder))
    sys.modules.pop("model", None)
    import model
    network = model.Model()
    network.load_state_dict(load_file(folder / "model.safetensors"))
    network.eval()
    with np.load(folder / "feed.npz") as feed, torch.no_grad():
        found = network(**{name: torch.from_numpy(feed[name]) for name in feed})
    found = found if isinstance(found, dict) else dict(zip(model.OUTPUT_NAMES, [found], strict=True))
    np.savez(folder / "found.npz", **{name: y.numpy() for name, y in found.items()})
    sys.path.pop(0)
"""


class Residual(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(width, width, 3, padding=1, bias=False), nn.BatchNorm2d(width)
        self.conv2, self.bn2 = nn.Conv2d(width, width, 3, padding=1, bias=False), nn.BatchNorm2d(width)

    def forward(self, x: Tensor) -> Tensor:
        y = torch.relu(self.bn1(self.conv1(x)))
        return torch.relu(x + self.bn2(self.conv2(y)))


class ResNet(nn.Module):
    """Blocks of two widths; each is a class of its own in the source."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 8, 3, stride=2, padding=1), nn.ReLU(), nn.MaxPool2d(2))
        self.layer1 = nn.Sequential(Residual(8), Residual(8), Residual(8))
        self.widen = nn.Conv2d(8, 12, 1)
        self.layer2 = nn.Sequential(Residual(12), Residual(12))
        self.fc = nn.Linear(12, 5)

    def forward(self, image: Tensor) -> Tensor:
        return self.fc(self.layer2(self.widen(self.layer1(self.stem(image)))).mean((2, 3)))


class Attention(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(width, width) for _ in range(3))
        self.output = nn.Linear(width, width)

    def forward(self, x: Tensor, bias: Tensor) -> Tensor:
        n, steps, width = x.shape
        q, k, v = (f(x).view(n, steps, 2, width // 2).transpose(1, 2) for f in (self.query, self.key, self.value))
        weights = torch.softmax(q @ k.transpose(-1, -2) / (width // 2) ** 0.5 + bias, -1)
        return self.output((weights @ v).transpose(1, 2).reshape(n, steps, width))


class EncoderLayer(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm1, self.attention, self.norm2 = nn.LayerNorm(width), Attention(width), nn.LayerNorm(width)
        self.mlp = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Dropout(), nn.Linear(2 * width, width))

    def forward(self, x: Tensor, bias: Tensor) -> Tensor:
        x = x + self.attention(self.norm1(x), bias)
        return x + self.mlp(self.norm2(x))


class Transformer(nn.Module):
    """Layers in a list, all called with the mask; the head shares the weights of the embedding."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.place = nn.Embedding(30, 8), nn.Parameter(torch.randn(1, 12, 8))
        self.layers = nn.ModuleList([EncoderLayer(8) for _ in range(3)])

    def forward(self, tokens: Tensor, mask: Tensor) -> dict[str, Tensor]:
        x = self.embed(tokens) + self.place[:, : tokens.shape[1]]
        bias = (1 - mask[:, None, None].float()) * -1e4
        for layer in self.layers:
            x = layer(x, bias)
        return {"logits": x @ self.embed.weight.T, "pooled": x[:, 0], "last": x}


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lstm, self.gru = nn.LSTM(4, 6, bidirectional=True), nn.GRU(12, 5, batch_first=True)
        self.fc = nn.Linear(5, 2)

    def forward(self, x: Tensor) -> Tensor:
        y, _ = self.lstm(x)
        y, _ = self.gru(y.transpose(0, 1))
        return self.fc(y[:, -1])


GROWING = """<ir_version: 10, opset_import: ["" : 20]>
g (float[n, 3] x, int64 rounds, bool flag) => (float[m, 3] y, float[r, 3] rows, float[3] z) {
    yes = Constant <value = bool {1}> ()
    y, rows = Loop (rounds, yes, x) <body = body (int64 i, bool going, float[k, 3] kept) => (bool again, float[l, 3] more, float[3] row) {
        one = Cast <to = 1> (i)
        next = Add (kept, one)
        more = Concat <axis = 0> (kept, next)
        again = Identity (going)
        row = ReduceMax <keepdims = 0> (more, first)
    }>
    z = If (flag) <then_branch = then () => (float[3] a) { a = ReduceSum <keepdims = 0> (y, first) },
                   else_branch = otherwise () => (float[3] b) { b = ReduceMin <keepdims = 0> (y, first) }>
}"""  # noqa: E501


def growing() -> onnx.ModelProto:
    """A loop whose tensor grows, which `.pt2` refuses, and a branch."""
    model = onnx.parser.parse_model(GROWING)
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.array([0]), "first"))
    return model


def keras_network(folder: Path) -> Path:
    import keras

    keras.utils.set_random_seed(0)
    layers = keras.layers
    x = image = keras.Input((10, 10, 3), name="image")
    for width in (4, 6):
        x = layers.Conv2D(width, 3, padding="same", use_bias=False)(x)
        x = layers.BatchNormalization()(x)
        x = layers.MaxPooling2D()(layers.Activation("relu")(x))
    x = layers.Dense(3, activation="softmax", name="scores")(layers.Flatten()(x))
    keras.Model(image, x).save(folder / "net.keras")
    return folder / "net.keras"


SEED = np.random.default_rng(0)


def normal(*dims: int) -> np.ndarray:
    return SEED.normal(size=dims).astype(np.float32)


TOKENS = {"tokens": SEED.integers(0, 30, (2, 7)), "mask": np.array([[1] * 7, [1] * 4 + [0] * 3])}
MODULES: dict[str, tuple[Callable[[], nn.Module], list[str], dict[str, np.ndarray]]] = {
    "resnet": (ResNet, ["image:float32[batch,3,16,16]"], {"image": normal(3, 3, 16, 16)}),
    "transformer": (Transformer, ["tokens:int64[batch,steps]", "mask:int64[batch,steps]"], TOKENS),
    "recurrent": (Recurrent, ["x:float32[steps,batch,4]"], {"x": normal(5, 2, 4)}),
}
LOOP = {"x": normal(2, 3), "rounds": np.array(3), "flag": np.array(True)}


@pytest.fixture(scope="module")
def networks(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Path, dict[str, Any], dict[str, Any]]]:
    """Return each network's folder, the source's outputs, and the outputs of the code in a process without convert."""
    root, wanted = tmp_path_factory.mktemp("code"), {}

    def written(name: str, source: Any, feed: dict[str, np.ndarray], found: dict[str, Any], **options: Any) -> None:
        convert.convert(source, "torch-code", root / f"{name}.torch", verify=False, **options)
        assert sorted(p.name for p in (root / f"{name}.torch").iterdir()) == ["model.py", "model.safetensors"]
        np.savez(root / f"{name}.torch" / "feed.npz", **feed)
        wanted[name] = found

    for name, (build, specs, feed) in MODULES.items():
        torch.manual_seed(0)
        module = build().eval()
        with torch.no_grad():
            outputs = module(**{n: torch.from_numpy(x) for n, x in feed.items()})
        outputs = outputs if isinstance(outputs, dict) else {"output": outputs}
        written(name, module, feed, {n: y.numpy() for n, y in outputs.items()}, inputs=specs)
    model = growing()
    session = onnxruntime.InferenceSession(model.SerializeToString())
    written("control", model, LOOP, dict(zip(("y", "rows", "z"), session.run(None, LOOP), strict=True)))
    import keras

    path, image = keras_network(root), normal(2, 10, 10, 3)
    scores = np.asarray(keras.saving.load_model(path)(image))
    written("keras", path, {"image": image}, {"scores": scores})
    subprocess.run([sys.executable, "-B", "-c", FRESH, *(str(root / f"{n}.torch") for n in wanted)], check=True)
    found = {}
    for name, outputs in wanted.items():
        with np.load(root / f"{name}.torch" / "found.npz") as arrays:
            found[name] = (root / f"{name}.torch", outputs, dict(arrays))
    return found


def code_of(folder: Path) -> str:
    return (folder / "model.py").read_text()


def classes_of(code: str) -> dict[str, int]:
    """Return how often the code's text constructs each class; the docstring constructs the model."""
    names = re.findall(r"^class (\w+)", code, re.MULTILINE)
    assert len(names) == len(set(names))
    return {name: len(re.findall(rf"\b{name}\(", code)) - 1 for name in names}


@pytest.mark.parametrize("name", [*MODULES, "control", "keras"])
def test_the_code_computes_what_the_source_does(name: str, networks: Any) -> None:
    _, wanted, found = networks[name]
    assert list(found) == list(wanted)
    for output, y in wanted.items():
        assert found[output].dtype == y.dtype
        np.testing.assert_allclose(found[output], y, rtol=2e-5, atol=2e-6)


def test_a_block_that_repeats_is_one_class(networks: Any) -> None:
    code = code_of(networks["resnet"][0])
    assert classes_of(code) == {"Layer": 2, "Model": 1}
    assert "self.layer1 = nn.Sequential(*[Layer(in_channels=8) for _ in range(3)])" in code
    assert "self.layer2 = nn.Sequential(*[Layer(in_channels=12) for _ in range(2)])" in code
    assert "self.bn1 = nn.BatchNorm2d(in_channels)" in code
    stem = code[code.index("self.stem") : code.index("self.layer1")]
    assert re.findall(r"nn\.\w+", stem) == ["nn.Sequential", "nn.Conv2d", "nn.ReLU", "nn.MaxPool2d"]


def test_layers_of_a_list_are_called_in_a_loop(networks: Any) -> None:
    code = code_of(networks["transformer"][0])
    assert re.search(r"for layer in self\.layers:\n +(\w+) = layer\(\1, \w+\)", code)
    assert classes_of(code) == {"Attention": 1, "Layer": 1, "Model": 1}
    assert "self.layers = nn.ModuleList([Layer() for _ in range(3)])" in code
    assert "self.embed(tokens)" in code, "an embedding of PyTorch takes no place from the end"
    assert "return {'logits': logits, 'pooled': pooled, 'last': last}" in code


def test_recurrent_layers_are_those_of_pytorch(networks: Any) -> None:
    code = code_of(networks["recurrent"][0])
    assert "nn.LSTM(4, 6, bidirectional=True)" in code
    assert "nn.GRU(12, 5)" in code
    assert "torch.lstm(" not in code


def test_branches_and_loops_are_pythons(networks: Any) -> None:
    code = code_of(networks["control"][0])
    assert re.search(r"for i in range\(rounds\.item\(\)\):|for i in range\(\w+\):", code)
    assert re.search(r"        if flag:\n( {12}.*\n)+        else:\n", code)
    assert "higher_order" not in code


def test_a_network_of_keras_has_its_layers_and_its_names(networks: Any) -> None:
    code = code_of(networks["keras"][0])
    assert re.findall(r"self\.(\w+) = nn\.(\w+)\(", code) == [
        ("conv2d", "Conv2d"), ("batch_normalization", "BatchNorm2d"), ("conv2d_1", "Conv2d"),
        ("batch_normalization_1", "BatchNorm2d"), ("scores", "Linear"),
    ]  # fmt: skip
    assert classes_of(code) == {"Model": 1}
    assert "def forward(self, image: Tensor):" in code


def written(model: onnx.ModelProto, folder: Path) -> Path:
    convert.convert(model, "torch-code", folder, verify=False)
    return folder


def test_the_same_model_is_the_same_bytes(tmp_path: Path) -> None:
    folders = [written(perceptron(), tmp_path / name) for name in ("a.torch", "b.torch")]
    assert len({tuple(file.read_bytes() for file in sorted(folder.iterdir())) for folder in folders}) == 1
    assert len({file.stat().st_mode for folder in folders for file in folder.iterdir()}) == 1


HOSTILE = ['"""', "import os; os.system('x')", "a\n    b = 1", "__import__('os')", "x\x00=7\x01", "self.x", "{}", "\\"]

CALLED = re.compile(
    r"super|super\(\)\.__init__|nn\.Linear|F\.relu|[A-Z]\w*|self(\.\w+)*|getattr(\(.*\))?|self\.add_module", re.S
)


@pytest.mark.parametrize("name", HOSTILE)
def test_a_name_is_no_code(name: str, tmp_path: Path) -> None:
    """Names of weights, nodes, inputs and outputs appear in the code only as identifiers or in quotes."""
    weights = {f"{name}/{name}": np.ones((4, 2), np.float32), f"{name}b": np.ones((5,), np.int64)}
    nodes = [
        helper.make_node("MatMul", [name, f"{name}/{name}"], [f"{name}1"], name=f"/{name}/MatMul"),
        helper.make_node("Relu", [f"{name}1"], [f"{name}2"], name=name),
        helper.make_node("Add", [f"{name}2", f"{name}2"], [f"{name}3"]),
    ]
    model = model_of(nodes, {name: [name, 4]}, [f"{name}2", f"{name}3"], weights)
    code = code_of(written(model, tmp_path / "m.torch"))
    tree = ast.parse(code)
    assert {type(s).__name__ for s in tree.body} <= {"Expr", "Import", "ImportFrom", "Assign", "ClassDef"}
    called = {ast.unparse(n.func) for n in ast.walk(tree) if isinstance(n, ast.Call)}
    assert all(CALLED.fullmatch(text) for text in called), called
    space: dict[str, Any] = {}
    exec(compile(code, "model.py", "exec"), space)
    network = space["Model"]()
    assert len(list(network.parameters())) == 1
    found = network(torch.ones(3, 4))
    assert set(found) == set(space["OUTPUT_NAMES"])
    assert all(y.shape == (3, 2) for y in found.values())


@pytest.mark.slow
def test_code_of_others_is_executed_where_it_is_trusted_only(tmp_path: Path) -> None:
    product = helper.make_node("MatMul", ["x", "w"], ["y"])
    model = model_of([product], {"x": ["batch", 4]}, ["y"], {"w": np.ones((4, 2), np.float32)})
    folder = written(model, tmp_path / "m.torch")
    mark = tmp_path / "executed"
    with (folder / "model.py").open("a") as file:
        file.write(f"\nopen({str(mark)!r}, 'w').close()\n")
    onnx.save(model, tmp_path / "m.onnx")
    for action in (
        lambda: convert.verify(tmp_path / "m.onnx", folder),
        lambda: convert.convert(folder, "onnx", tmp_path / "n.onnx", inputs="x:float32[batch,4]"),
    ):
        with pytest.raises(UnsafeInput, match="is code"):
            action()
        assert not mark.exists()
    verdict = convert.verify(tmp_path / "m.onnx", folder, trust=True).verdict
    assert verdict is not None
    assert verdict.status == "PASS", verdict.reason
    assert mark.exists()
    report = convert.convert(folder, "onnx", tmp_path / "n.onnx", inputs="x:float32[batch,4]", trust=True)
    assert report.verdict is not None
    assert report.verdict.status == "PASS", report.verdict.reason


def test_weights_train_as_those_of_a_module_written_by_hand(tmp_path: Path) -> None:
    space: dict[str, Any] = {}
    folder = written(perceptron(), tmp_path / "m.torch")
    exec(compile(code_of(folder), "model.py", "exec"), space)
    network = space["Model"]()
    assert {n: tuple(p.shape) for n, p in network.named_parameters()} == {
        "body.0.weight": (8, 4), "body.0.bias": (8,), "head.weight": (2, 8),
    }  # fmt: skip
    network(torch.ones(2, 4)).sum().backward()
    assert all(p.grad is not None for p in network.parameters())


def test_what_safetensors_does_not_store_is_refused(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("DequantizeLinear", ["w", "scale"], ["wide"]),
        helper.make_node("Add", ["x", "wide"], ["y"]),
    ]
    count = 1 << 17  # constants of this size are not computed during conversion
    model = model_of(nodes, {"x": [count]}, ["y"], {"scale": np.array(0.5, np.float32)})
    model.graph.initializer.append(helper.make_tensor("w", onnx.TensorProto.FLOAT8E4M3FNUZ, [count], [1.0] * count))
    with pytest.raises(Unsupported, match="safetensors does not store the weight 'w'"):
        written(model, tmp_path / "m.torch")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("source", slow(["mnist_cnn.onnx", "mnist_cnn.pt2"], "mnist_cnn.pt2"))
def test_a_network_is_verified(source: str, tmp_path: Path) -> None:
    report = convert.convert(FIXTURES / source, "torch-code", tmp_path / "m.torch")
    assert report.verdict is not None
    assert report.verdict.status == "PASS", report.verdict.reason


@pytest.mark.long
@pytest.mark.parametrize("row", params(ROWS[::2]))
def test_operator(row: Case) -> None:
    shared = ir.from_proto(row_model(row, STATIC))  # every second row of the backend's table
    legalize(shared)
    check(shared)
    if row.operator == "TfIdfVectorizer":
        with pytest.raises(Unsupported, match="made outside of the graph"):
            source_of_model(shared)
        return
    code, state = source_of_model(shared)
    space: dict[str, Any] = {}
    exec(compile(code, "model.py", "exec"), space)
    network, feeds = space["Model"](), feeds_of(row)
    network.load_state_dict(state)
    with torch.no_grad():
        found = network.eval()(*(tensor_from(feeds[v.name]) for v in shared.graph.inputs))
    found = found if isinstance(found, dict) else {space["OUTPUT_NAMES"][0]: found}
    assert_same([as_array(found[v.name]) for v in shared.graph.outputs], expected(row))
