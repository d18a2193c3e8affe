"""A chain of artefacts: one table, and the step that breaks."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from click.testing import CliRunner, Result
from onnx import numpy_helper

import convert
from convert.cli import cli
from convert.errors import UsageError
from convert.parity.locate.chain import Artifact, parse_artifacts

CODE = """
import torch

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.one, self.two = torch.nn.Linear(6, 8), torch.nn.Linear(8, 3)

    def forward(self, x):
        return self.two(torch.tanh(self.one(x)))
"""


def invoke(*args: str | Path) -> Result:
    return CliRunner().invoke(cli, [str(a) for a in args])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Create model.py and weights.pt, a right and a wrong ONNX file, and a right copy of the wrong one."""
    folder = tmp_path_factory.mktemp("chain")
    (folder / "model.py").write_text(CODE)
    torch.manual_seed(0)
    scope: dict[str, type] = {}
    exec(CODE, scope)
    torch.save(scope["Net"]().state_dict(), folder / "weights.pt")
    convert.convert(
        folder / "weights.pt", "onnx", folder / "right.onnx", model=f"{folder}/model.py:Net", verify=False,
        inputs="x:float32[batch,6]",
    )  # fmt: skip
    wrong = onnx.load(folder / "right.onnx")
    weight = next(i for i in wrong.graph.initializer if "two" in i.name and len(i.dims) == 2)
    array = numpy_helper.to_array(weight).copy()
    array.flat[0] += np.float32(0.01)
    weight.CopyFrom(numpy_helper.from_array(array, weight.name))
    onnx.save(wrong, folder / "wrong.onnx")
    onnx.save(wrong, folder / "copy.onnx")
    return folder


@pytest.mark.slow
def test_the_step_that_breaks_is_named(folder: Path, tmp_path: Path) -> None:
    chain = [f"{folder}/model.py:Net", *(folder / n for n in ("weights.pt", "right.onnx", "wrong.onnx", "copy.onnx"))]
    page = tmp_path / "out.html"
    done = invoke("verify", *chain, "--input", "x:float32[batch,6]", "--json", "--report", page)
    assert done.exit_code == 3, done.output
    told = json.loads(done.stdout)
    assert [s["status"] for s in told["steps"]] == ["PASS", "FAIL", "PASS"]
    assert [Path(s["source"]).name for s in told["steps"]] == ["weights.pt", "right.onnx", "wrong.onnx"]
    assert told["verdict"] == told["steps"][1]["verdict"]
    assert (told["kind"], told["format"], told["ok"]) == ("torch-state-dict", "onnx", False)
    text = page.read_text()
    assert len(re.findall(rf"<tr><td[^>]*>{re.escape(str(folder))}", text)) >= 3
    assert "Step by step" in text


@pytest.mark.slow
def test_people_get_one_table(folder: Path) -> None:
    done = invoke("verify", folder / "right.onnx", folder / "right.onnx", folder / "wrong.onnx", "-q")
    assert done.exit_code == 3
    lines = done.stdout.splitlines()
    assert "PASS" in lines[0]
    assert "FAIL" in lines[1]
    assert lines[2] == "step 2 breaks"


def test_weights_as_the_last_artefact_have_a_factory_too(folder: Path) -> None:
    done = invoke("verify", folder / "right.onnx", f"{folder}/model.py:Net", folder / "weights.pt", "--json")
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["steps"] == []


def test_a_step_that_cannot_be_read_is_in_the_table(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "broken.onnx").write_bytes(b"no model at all")
    done = invoke("verify", folder / "right.onnx", folder / "right.onnx", tmp_path / "broken.onnx", "--json")
    told = json.loads(done.stdout)
    assert [s["status"] for s in told["steps"]] == ["PASS", "ERROR"]
    assert "broken.onnx" in told["steps"][1]["reason"]
    assert (done.exit_code, told["exit_code"], told["verdict"]) == (5, 5, None)


def test_a_factory_belongs_to_the_file_behind_it() -> None:
    found = parse_artifacts(["pkg.mod:make", "a.pt", "b.onnx", "m.py:Net", "c.pt"])
    assert found == [
        Artifact(Path("a.pt"), "pkg.mod:make"), Artifact(Path("b.onnx")), Artifact(Path("c.pt"), "m.py:Net"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    "words", [["a.onnx"], ["m.py:Net", "a.pt"], ["a.pt", "m.py:Net"], ["m.py:A", "m.py:B", "a.pt", "b"]]
)
def test_less_than_two_artefacts_are_refused(words: list[str]) -> None:
    with pytest.raises(UsageError):
        parse_artifacts(words)
