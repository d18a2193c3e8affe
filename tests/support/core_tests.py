"""`pytest -m core`: the tests of the core, in a process that imports no framework.

Every test in `PLACES` has the mark, except in modules that import a framework when they are imported, and except tests
that are marked `long`, `slow` or `not_core`. Under `-m core` no other module is imported, and a test that loads a
framework all the same fails: it wants the mark `not_core`.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

FRAMEWORKS = {
    "torch", "tensorflow", "keras", "caffe2", "safetensors", "h5py", "transformers", "ai_edge_litert",
}  # fmt: skip
ROOT = Path(__file__).resolve().parents[2]
PLACES = (
    "tests/convert", "tests/frontends/onnx", "tests/backends/onnx", "tests/test_walls.py", "tests/test_choices.py",
)  # fmt: skip


@cache
def is_core_file(path: Path) -> bool:
    """Return whether a module's tests belong to the core: it is in one of `PLACES`, and imports no framework."""
    inside = any(path.is_relative_to(ROOT / place) for place in PLACES)
    return inside and not imports_framework(path)


@cache
def imports_framework(path: Path) -> bool:
    """Return whether importing a module imports a framework, directly or through another module of the tests."""
    for name in imported_names(path):
        top = name.partition(".")[0]
        if top in FRAMEWORKS or name.startswith(("convert.frontends.pytorch", "convert.frontends.tensorflow")):
            return True
        if name.startswith(("convert.backends.tensorflow", "convert.backends.keras")):
            return True
        other = ROOT / f"{name.replace('.', '/')}.py"
        if top == "tests" and other != path and other.exists() and imports_framework(other):
            return True
    return False


def imported_names(path: Path) -> Iterator[str]:
    """Yield the imports at the module level of a file: modules, and names that may be modules."""
    for node in ast.parse(path.read_text()).body:
        match node:
            case ast.Import():
                yield from (alias.name for alias in node.names)
            case ast.ImportFrom(module=str(module)):
                yield module
                yield from (f"{module}.{alias.name}" for alias in node.names)
            case ast.Assign(value=call) | ast.Expr(value=call):
                yield from _skipped_for(call)


def _skipped_for(call: ast.expr) -> Iterator[str]:
    """Yield the module of `pytest.importorskip("module")`, which imports it."""
    match call:
        case ast.Call(func=ast.Attribute(attr="importorskip"), args=[ast.Constant(value=str(name)), *_]):
            yield name


def loaded() -> set[str]:
    """Return the frameworks that this process has imported."""
    return FRAMEWORKS & sys.modules.keys()


def asked_for(config: pytest.Config) -> bool:
    """Return whether this run is `-m core`."""
    return bool(config.getoption("markexpr") == "core")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Under `-m core`, do not import modules without core tests."""
    if asked_for(config) and collection_path.suffix == ".py" and not is_core_file(collection_path):
        return True
    return None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Add the mark before tests are selected by it."""
    for item in items:
        other = any(item.get_closest_marker(name) for name in ("long", "slow", "not_core"))
        if is_core_file(item.path) and not other:
            item.add_marker("core")
    if asked_for(config) and loaded():
        raise pytest.UsageError(f"collecting the tests of the core has imported {', '.join(sorted(loaded()))}")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Under `-m core`, fail a test that loads a framework."""
    before = loaded()
    yield
    if asked_for(item.config) and (new := loaded() - before):
        pytest.fail(f"imports {', '.join(sorted(new))}: mark it `not_core`", pytrace=False)
