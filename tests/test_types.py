"""Test that every function has type annotations, except rules, whose signature is the schema of their operator."""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = sorted(
    p for kind in ("frontends", "backends") for p in (ROOT / kind).iterdir() if (p / "__init__.py").exists()
)
TABLES = {
    "caffe2_op", "channels_last", "elementwise_op", "kernel", "onnx_op", "quantized_tensor",
    "stablehlo_op", "tensor_op", "tf_op", "tflite_op", "torch_op",
}  # fmt: skip
"""Names that register a rule: the tables, and decorators that fill them."""

Function = ast.FunctionDef | ast.AsyncFunctionDef


def registers(node: ast.AST) -> bool:
    """Return whether an expression is a table, a call of one, or one of its methods, such as `onnx_op`,
    `onnx_op("Abs")` and `onnx_op.same`.
    """
    while isinstance(node, (ast.Call, ast.Attribute)):
        node = node.func if isinstance(node, ast.Call) else node.value
    return isinstance(node, ast.Name) and node.id in TABLES


def registered_by_call(tree: ast.Module) -> set[str]:
    """Return names of functions that are passed to a table, or that make what is passed to it.

    Examples: `onnx_op("Max")(maximum)`, `onnx_op("Sum")(reduction(total))`, `onnx_op.same(make, Abs="abs")`.
    """
    handed = [a for n in ast.walk(tree) if isinstance(n, ast.Call) and registers(n.func) for a in n.args]
    return {n.id for a in handed for n in ast.walk(a) if isinstance(n, ast.Name)}


def lacks_annotations(function: Function) -> bool:
    arguments = function.args
    named = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    named += [a for a in (arguments.vararg, arguments.kwarg) if a is not None]
    own = [a for i, a in enumerate(named) if not (i == 0 and a.arg in ("self", "cls"))]
    return function.returns is None or any(a.annotation is None for a in own)


def unannotated(tree: ast.Module) -> Iterator[Function]:
    """Yield functions without full annotations, except rules and functions inside of rules."""
    by_call = registered_by_call(tree)

    def visit(node: ast.AST, within_rule: bool) -> Iterator[Function]:
        for child in ast.iter_child_nodes(node):
            rule = within_rule
            if isinstance(child, Function):
                is_rule = any(registers(d) for d in child.decorator_list)
                handed = child.name in by_call
                makes = handed and any(isinstance(n, Function) for n in ast.walk(child) if n is not child)
                if not within_rule and not is_rule and not (handed and not makes) and lacks_annotations(child):
                    yield child
                rule = within_rule or is_rule or handed
            yield from visit(child, rule)

    return visit(tree, False)


@pytest.mark.slow
@pytest.mark.parametrize("package", PACKAGES, ids=lambda p: f"{p.parent.name}.{p.name}")
def test_every_function_but_rules_is_annotated(package: Path) -> None:
    found = [
        f"{file.relative_to(ROOT)}:{function.lineno}: {function.name}"
        for file in sorted(package.rglob("*.py"))
        for function in unannotated(ast.parse(file.read_text()))
    ]
    assert not found, "\n".join(found)


def test_annotations_ship() -> None:
    """Only with this file does mypy read the annotations of an installed package."""
    data = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["package-data"]
    assert (ROOT / "convert" / "py.typed").exists()
    assert "py.typed" in data["convert"]
