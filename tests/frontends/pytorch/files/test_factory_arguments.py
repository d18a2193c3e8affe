"""The arguments with which a factory is called (`--model-arg`), and two files of weights with one factory."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import pytest
import torch
from click.testing import CliRunner
from convert.frontends.pytorch.files.loader import load as load_file
from torch import nn

import convert
from convert.cli import cli
from convert.errors import BadInput, UsageError
from convert.request.given_inputs import parse_model_args
from convert.request.options import Options
from convert.request.source import Source

SCRIPT = """
import torch

def build(features=4, classes=3, *, bias=True, name="head"):
    layer = torch.nn.Linear(features, classes, bias=bias)
    layer.called = (features, classes, bias, name)
    return layer

def whatever(**options):
    return torch.nn.Linear(**options)
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "net.py").write_text(SCRIPT)
    for name, classes in (("a", 3), ("b", 3), ("c", 9)):
        torch.save(nn.Linear(4, classes).state_dict(), tmp_path / f"{name}.pt")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def load(file: str, model: str = "net.py:build", **args: Any) -> Any:
    return load_file(Source("torch-state-dict", Path(file)), Options(model=model, model_args=args))


@pytest.mark.parametrize(
    ("text", "value"),
    [("n=9", 9), ("n=1e-3", 1e-3), ("n=False", False), ("n=false", False), ("n=none", None), ("n=large", "large"),
     ("n='9'", "9"), ("n=[3, 4]", [3, 4]), ("n={'a': 1}", {"a": 1}), ("n=a=b", "a=b"), ("n=", "")],
)  # fmt: skip
def test_values_are_literals_of_python_or_text(text: str, value: Any) -> None:
    assert parse_model_args([text]) == {"n": value}


@pytest.mark.parametrize("texts", [["n"], ["=9"], ["9=n"], ["n=1", "n=2"]])
def test_what_is_no_assignment_is_refused(texts: list[str]) -> None:
    with pytest.raises(UsageError) as error:
        parse_model_args(texts)
    assert error.value.hint


@pytest.mark.usefixtures("folder")
def test_the_factory_is_called_with_the_arguments() -> None:
    assert load("c.pt", classes=9, name="tail").called == (4, 9, True, "tail")
    assert load("c.pt", "net.py:whatever", in_features=4, out_features=9).out_features == 9
    with pytest.raises(BadInput) as unfit:
        load("c.pt")
    assert "--model-arg features=VALUE (it takes features, classes, bias, name)" in unfit.value.hint
    with pytest.raises(UsageError, match="takes no argument 'clases'") as unknown:
        load("c.pt", clases=9)
    assert "did you mean classes?" in unknown.value.hint


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("typed", "options"),
    [("net.py:build(classes=9)", "--model net.py:build --model-arg classes=9"),
     ("net.py:build(classes=9, name='x y')", "--model-arg classes=9 --model-arg 'name=x y'"),
     ("net.py:build()", "--model net.py:build"),
     ("net.py:build(9)", "--model net.py:build --model-arg NAME=VALUE"),
     ("net.py:build(sizes={1: 2}", "--model net.py:build --model-arg NAME=VALUE")],
)  # fmt: skip
def test_a_call_is_answered_with_the_options_for_it(typed: str, options: str) -> None:
    with pytest.raises(UsageError, match="calls a function") as error:
        load("c.pt", typed)
    assert options in error.value.hint
    assert shlex.split(error.value.hint)


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("typed", "meant"),
    [("nett.py:build", "net.py:build"), ("net.py:biuld", "net.py:build"), ("net:build1", "net:build")],
)
def test_a_factory_that_is_near_is_named(typed: str, meant: str) -> None:
    with pytest.raises(UsageError) as error:
        load("c.pt", typed)
    assert error.value.hint == f"did you mean --model {meant}?"


@pytest.mark.slow
@pytest.mark.usefixtures("folder")
def test_a_manifest_gives_arguments() -> None:
    rows = 'source = "c.pt"\nmodel = "net.py:build"\nmodel_arg = ["classes=9"]\nto = "onnx"\ninput = ["float32[n,4]"]'
    Path("zoo.toml").write_text(f"[[models]]\n{rows}\n")
    done = CliRunner().invoke(cli, ["batch", "zoo.toml", "--json", "-o", "out"])
    assert json.loads(done.stdout.splitlines()[0])["outcome"] == "verified", done.output


# -- two files of weights ----------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("words", "code"),
    [("a.pt a.pt --model net.py:build", 0), ("a.pt b.pt --model net.py:build", 3), ("a.pt b.pt", 2),
     ("net.py:build a.pt a.pt", 0), ("c.pt c.pt --model net.py:build --model-arg classes=9", 0),
     ("a.pt c.pt --model net.py:build", 5)],
)  # fmt: skip
def test_one_factory_builds_both(words: str, code: int) -> None:
    """A missing factory is a usage error, and weights that do not fit are bad input; neither gives a verdict."""
    done = CliRunner().invoke(cli, ["verify", *words.split(), "--input", "float32[n,4]"])
    assert done.exit_code == code, done.output
    assert ("FAIL" in done.stdout) == (code == 3)


@pytest.mark.slow
@pytest.mark.usefixtures("folder")
def test_in_python_too() -> None:
    report = convert.verify("c.pt", "c.pt", model="net.py:build", model_args={"classes": 9}, inputs="float32[n,4]")
    assert report.verdict is not None
    assert report.verdict.status == "PASS"
