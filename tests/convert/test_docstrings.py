"""The examples in docstrings of the Python API: each public name has one, and they run."""

from __future__ import annotations

import doctest
import importlib
import shutil
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

import convert
from convert.graph import Graph
from convert.passes import run_passes
from convert.plugin import Option
from convert.rules import Rules

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures"
PACKAGES = {
    "frontends.pytorch": "torch_op", "frontends.tensorflow": "tf_op", "frontends.caffe2": "caffe2_op",
    "frontends.jax": "stablehlo_op",
    "backends.tensorflow": "onnx_op", "backends.keras": "onnx_op", "backends.caffe2": "onnx_op",
    "reference": "kernel",
}  # fmt: skip
TABLES = {package: f"convert.{package}.{'table' if package == 'reference' else 'rules'}" for package in PACKAGES}
API = [
    "convert.api", "convert.errors", "convert.outcome.report", "convert.rules.table", "convert.plugin",
    "convert.graph.builder", "convert.passes", "convert.passes.check", "convert.request.options",
    "convert.outcome.notes",
]  # fmt: skip
OWN_OPERATORS = ("mine::cube", "mine::Cube", "MyCube", "mine.cube")
NOT_CORE = {
    "convert.api.convert", "convert.api.to_onnx", "convert.api.verify", "convert.errors.ParityError",
    "convert.errors.UnsafeInput",
}  # fmt: skip
"""Modules whose examples import a framework, or start processes for seconds."""


def examples() -> Iterator[doctest.DocTest]:
    for name in [*API, *TABLES.values()]:
        yield from doctest.DocTestFinder().find(importlib.import_module(name))


EXAMPLES = [
    pytest.param(e, id=e.name, marks=[pytest.mark.not_core] if e.name in NOT_CORE else [])
    for e in examples()
    if e.examples
]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Provide a model to work on; rules that an example registers are removed afterwards."""
    shutil.copy(FIXTURES / "mnist_cnn.onnx", tmp_path)
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    for name, package in zip(TABLES.values(), PACKAGES, strict=True):
        table = getattr(importlib.import_module(name), PACKAGES[package])
        for operator in OWN_OPERATORS:
            table.entries.pop(operator, None)


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("example", EXAMPLES)
def test_an_example_shows_what_happens(example: doctest.DocTest) -> None:
    told: list[str] = []
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    assert runner.run(example, out=told.append).failed == 0, "".join(told)


def test_every_public_name_has_an_example() -> None:
    public = [getattr(convert, name) for name in convert.__all__]
    tables = [importlib.import_module(name) for name in TABLES.values()]
    for thing in [*public, Rules, Option, Graph, run_passes, *tables]:
        assert ">>>" in (thing.__doc__ or ""), thing


@pytest.mark.parametrize("package", PACKAGES)
def test_the_decorator_of_a_package_is_typed(package: str) -> None:
    """Type checkers do not look through `__getattr__`: what the package declares for them is what it returns."""
    module: ModuleType = importlib.import_module(f"convert.{package}")
    text = Path(str(module.__file__)).read_text()
    assert f"import {PACKAGES[package]} as {PACKAGES[package]}" in text or f'__all__ = ["{PACKAGES[package]}"]' in text
    assert isinstance(getattr(module, PACKAGES[package]), Rules)
