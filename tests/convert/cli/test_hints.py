"""Follow hints: type the command of a hint, and require that it gets further.

`hints.txt` is the table. A row is a paragraph:

- a command with its exit code
- `> words` of its hint or notes, which also have to stand in the next command, so that neither changes without the
  other; `> words => typed` if the hint has a placeholder
- the commands that a user types next; if the last one fails, its error, which has to be another one

Lines that do not begin with `convert` are for the shell. Rows below `# long` need a framework.
"""

from __future__ import annotations

import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from click.testing import CliRunner
from onnx import parser

from convert.cli import cli

FIXTURES = Path(__file__).resolve().parents[3] / "fixtures"
QUICK, LONG = ((Path(__file__).with_name("hints.txt")).read_text("utf-8")).split("\n# long\n")
LEAST = 120
"""Minimum number of rows."""


@dataclass
class Row:
    """Commands with their exit codes; words of the first command's hint with what is typed for them; the last error."""

    commands: list[tuple[int, str]] = field(default_factory=list)
    words: list[tuple[str, str]] = field(default_factory=list)
    error: str = ""


def rows(text: str) -> list[Row]:
    """The paragraphs of a table."""
    found = []
    for paragraph in text.strip().split("\n\n"):
        row = Row()
        for line in paragraph.splitlines():
            if line.startswith("> "):
                said, _, typed = line[2:].partition(" => ")
                row.words.append((said, typed or said))
            elif line.startswith("error: "):
                row.error = line
            elif not line.startswith("#"):
                code, _, command = line.partition(" $ ")
                row.commands.append((int(code), command))
        if row.commands:
            found.append(row)
    return found


FILES = {
    "a.onnx": "mnist_cnn.onnx", "b.onnx": "mnist_cnn.onnx", "zoo/x.onnx": "mnist_cnn.onnx", "m.pt": "mnist_cnn.pt",
    "weights.pt": "mnist_cnn_state.pt", "weights.safetensors": "mnist_cnn.safetensors",
    "frozen.pb": "mnist_cnn_frozen.pb", "script.pt": "mnist_cnn_scripted.pt", "net.keras": "mnist_cnn.keras",
}  # fmt: skip

MODELS = {
    "cube": "g (float[n,3] x) => (float[n,3] y) { y = mine.Cube(x) }",
    "two": "g (float[n,3] left, float[n,3] right) => (float[n,3] total, float[n,3] ratio)"
           " { total = Add(left, right) ratio = Div(left, right) }",
    "ids": "g (int64[n,s] ids, int64[n,s] mask) => (int64[n,s] y) { y = Mul(ids, mask) }",
    "lookup": "g (float[n] x) => (float[n,2] y) <float[3,2] t = {1,2,3,4,5,6}, float[1] k = {1000}>"
              " { z = Mul(x, k) i = Cast<to=7>(z) y = Gather(t, i) }",
    "flat": "g (float[n,3,3] x, float[4,3,3,3] w) => (float[n,4,2,2] y) { y = Conv(x, w) }",
}  # fmt: skip
"""Models of ONNX by name, in ONNX's text form."""

TEXTS = {
    "net.py": "import torch\nclass Net(torch.nn.Module):\n    def __init__(self, width=4):\n"
              "        super().__init__()\n"
              "        self.fc = torch.nn.Linear(3, width)\n    def forward(self, x): return self.fc(x)\n"
              "def build(width): return Net(width)\n",
    "cube_rules.py": "from convert.reference import kernel\n@kernel('mine::Cube')\ndef cube(outputs, x): return x**3\n",
    "empty_rules.py": "\n",
    "second_rule.py": "from convert.reference import kernel\n@kernel('Relu')\ndef relu(outputs, x): return x\n",
    "train.meta": "",
    "broken_rules.py": "raise ValueError('on purpose')\n",
    "notes.txt": "hello\n",
    "ops.txt": "Relu\nConv\n",
    "zoo.toml": '[[models]]\nsource = "a.onnx"\nto = "onnx"\n',
    "typo.toml": '[[models]]\nsource = "a.onnx"\nto = "onnx"\ninputt = ["x"]\n',
    "table.toml": '[[model]]\nsource = "a.onnx"\n',
    "minutes.toml": 'defaults = {timeout = "10m"}\n[[models]]\nsource = "a.onnx"\n',
    "yes.toml": '[[models]]\nsource = "a.onnx"\nverify = "no"\n',
    "plain.toml": '[[models]]\nsource = "a.onnx"\n',
    "lost.toml": '[[models]]\nsource = "gone.onnx"\nto = "onnx"\n[[models]]\nsource = "a.onnx"\nto = "onnx"\n',
}  # fmt: skip

OWN_LAYERS = """
import keras
class Twice(keras.layers.Layer):
    def call(self, x): return 2 * x
"""

SAVED = """
import sys, torch
sys.path.insert(0, "away")
import pickled_net
torch.save(pickled_net.Net(), "pickled.pt")
torch.save(torch.nn.Linear(3, 9).state_dict(), "nine.pt")
torch.save({"fc." + k: v for k, v in torch.nn.Linear(3, 9).state_dict().items()}, "fc9.pt")
torch.save(torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3)), "conv.pt")
torch.save({name: {f"fc.{k}": v for k, v in torch.nn.Linear(3, 9).state_dict().items()} for name in ("model", "ema")},
           "ema.pt")
torch.save({"one": torch.nn.Linear(3, 2), "two": torch.nn.Linear(3, 4)}, "both.pt")
"""


SAVED_BY_TENSORFLOW = """
import sys, tensorflow as tf, keras
sys.path.insert(0, "away")
import own_layers
for name, value in (("metric", tf.constant), ("unfrozen", tf.Variable)):
    with tf.Graph().as_default() as graph:
        x = tf.compat.v1.placeholder(tf.float32, [None, 4], "x")
        label = tf.compat.v1.placeholder(tf.int64, [None], "label")
        prob = tf.nn.softmax(tf.matmul(x, tf.convert_to_tensor(value([[1.0, 2], [3, 4], [5, 6], [7, 8]]))), name="prob")
        tf.reduce_mean(tf.cast(tf.equal(tf.argmax(prob, 1), label), tf.float32), name="accuracy")
        tf.io.write_graph(graph, ".", f"{name}.pb", as_text=False)
with tf.Graph().as_default() as graph:
    x = tf.compat.v1.placeholder(tf.float32, [None, None, None, 3], "x")
    train = tf.compat.v1.placeholder(tf.bool, [], "train")
    tf.identity(tf.cond(train, lambda: x * 2, lambda: x), name="y")
    tf.io.write_graph(graph, ".", "pictures.pb", as_text=False)
    tf.io.write_graph(graph, ".", "pictures.pbtxt", as_text=True)
with tf.Graph().as_default() as graph:
    x = tf.compat.v1.placeholder(tf.float32, [None, 4], "x")
    tf.matmul(x, tf.compat.v1.get_variable("w", [4, 3]), name="y")
    tf.compat.v1.train.Saver()
    tf.io.write_graph(graph, ".", "saver.pb", as_text=False)
graph = tf.compat.v1.GraphDef()
graph.node.add(name="x", op="Placeholder").attr["dtype"].type = 1
node = graph.node.add(name="y", op="XlaLaunch", input=["x"])
node.attr["Tin"].list.type.append(1)
node.attr["Tout"].list.type.append(1)
graph.node.add(name="z", op="Identity", input=["y"]).attr["T"].type = 1
open("xla.pb", "wb").write(graph.SerializeToString())
keras.Sequential([keras.Input((4,)), own_layers.Twice()]).save("own.keras")
"""


@pytest.fixture(autouse=True)
def tables() -> Iterator[None]:
    """Forget the rules that a row has loaded from files, because commands of other tests count them."""
    from convert.backends.caffe2.rules import onnx_op

    yield
    for operator in [name for name in onnx_op.entries if name.startswith("mine::")]:
        del onnx_op.entries[operator]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with all files; each row gets a copy of it."""
    folder = tmp_path_factory.mktemp("hints")
    for name, fixture in FILES.items():
        (folder / name).parent.mkdir(exist_ok=True)
        shutil.copyfile(FIXTURES / fixture, folder / name)
    for name, text in MODELS.items():
        onnx.save(
            parser.parse_model(f'<ir_version: 8, opset_import: ["": 17, "mine": 1]> {text}'), folder / f"{name}.onnx"
        )
    for name, text in TEXTS.items():
        (folder / name).write_text(text)
    (folder / "empty").mkdir()
    (folder / "hub").mkdir()
    (folder / "hub/config.json").write_text('{"model_type": "unknown"}')
    shutil.copyfile(folder / "weights.safetensors", folder / "hub/model.safetensors")
    (folder / "away").mkdir()
    (folder / "away/pickled_net.py").write_text(TEXTS["net.py"])
    (folder / "away/own_layers.py").write_text(OWN_LAYERS)
    np.savez(folder / "image.npz", image=np.zeros((2, 1, 28, 28), np.float32))
    np.savez(folder / "wrong.npz", picture=np.zeros((2, 1, 28, 28), np.float32))
    np.savez(folder / "double.npz", image=np.zeros((2, 1, 28, 28)))
    np.savez(folder / "x.npz", x=np.zeros(4, np.float32))
    return folder


@pytest.fixture(scope="module")
def saved(made: Path) -> Path:
    """Return the same folder with files that PyTorch and TensorFlow save."""
    for code in (SAVED, SAVED_BY_TENSORFLOW):
        subprocess.run([sys.executable, "-c", code], cwd=made, check=True, capture_output=True)
    return made


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def done(command: str) -> tuple[int, str]:
    """Return the exit code of a command and everything that it prints."""
    if not command.startswith("convert "):
        ran = subprocess.run(command, shell=True, check=False, capture_output=True, text=True)
        return ran.returncode, ran.stdout + ran.stderr
    result = CliRunner().invoke(cli, shlex.split(command)[1:])
    return result.exit_code, result.stdout + result.stderr


HINTS = ("hint: ", "note: ", "assuming ")


def follow(row: Row, files: Path, folder: Path) -> None:
    """Assert that the hint of the first command leads to the others."""
    shutil.copytree(files, folder, dirs_exist_ok=True)
    (code, command), *typed = row.commands
    found, output = done(command)
    assert found == code, output
    hints = [line for line in output.splitlines() if line.lstrip().startswith(HINTS)]
    for said, words in row.words:
        assert any(said in line for line in hints), output
        assert any(words in next_one for _, next_one in typed), f"nobody types {words}"
    for wanted, next_one in typed:
        found, later = done(next_one)
        assert found == wanted, later
    errors = [line for line in later.splitlines() if line.startswith("error: ")]
    assert bool(errors) == bool(row.error), later
    if errors:
        assert errors[0].startswith(row.error.removesuffix("…"))
        assert errors[0] not in output.splitlines(), "the hint leads in a circle"


def name_of(row: Row) -> str:
    return row.commands[0][1]


def with_marks(table: list[Row]) -> list[Any]:
    """Return the rows as parameters; those in which a batch runs are slow, but every sixth one of them."""
    slow = [row for row in table if any(code == 0 and "convert batch" in next_one for code, next_one in row.commands)]
    slow = [row for number, row in enumerate(slow) if number % 6]
    return [pytest.param(row, id=name_of(row), marks=[pytest.mark.slow] if row in slow else []) for row in table]


@pytest.mark.parametrize("row", with_marks(rows(QUICK)))
def test_a_hint(row: Row, made: Path, folder: Path) -> None:
    follow(row, made, folder)


@pytest.mark.long
@pytest.mark.parametrize("row", rows(LONG), ids=name_of)
def test_a_hint_that_takes_a_framework(row: Row, saved: Path, folder: Path) -> None:
    follow(row, saved, folder)


def test_the_table_is_large_and_every_row_is_followed() -> None:
    every = rows(QUICK) + rows(LONG)
    assert len(every) >= LEAST
    assert len({name_of(row) for row in every}) == len(every)
    assert all(row.words and len(row.commands) > 1 for row in every)
