"""Find the private parts of PyTorch that a package names, and the functions that it replaces, from its syntax."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ASKING = {"getattr", "hasattr", "setattr", "delattr", "object"}
"""Functions that take the name of an attribute as text; the last is mock.patch's."""
_PRIVATE = re.compile(r"_[A-Za-z]\w*")
_PRIVATE_MODULE = re.compile(r"torch(\.\w+)*\._[a-zA-Z]\w*(\.\w+)*|torch\.fx\.experimental(\.\w+)*")


def private_uses(file: Path, own: frozenset[str]) -> list[str]:
    """Return `line: what` for each private part of PyTorch that a module names.

    own: private names that the package gives to attributes of its own classes and modules.
    """
    tree = ast.parse(file.read_text())
    return sorted({f"{getattr(node, 'lineno', 0)}: {what}" for node in ast.walk(tree) for what in _named(node, own)})


def own_names(files: list[Path]) -> frozenset[str]:
    """Return the private names that modules define: functions, methods, classes, and attributes that they assign."""
    found: set[str] = set()
    for file in files:
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
                found.add(node.name)
            elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and _is_self(node.value):
                found.add(node.attr)
            elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                found.add(node.target.id)
    return frozenset(found)


def replaces_functions(file: Path) -> bool:
    """Return whether a module imports mock, or assigns to an attribute of something in torch."""
    return any(map(_replaces, ast.walk(ast.parse(file.read_text()))))


def _replaces(node: ast.AST) -> bool:
    match node:
        case ast.Import(names=names):
            return any(name.name.startswith("unittest") for name in names)
        case ast.ImportFrom(module=str(module)):
            return module.startswith("unittest")
        case ast.Call(func=ast.Name(id="setattr"), args=[ast.Attribute() as target, *_]):
            return _is_of_torch(target)
        case ast.Assign(targets=[ast.Attribute(value=ast.Attribute() as target)]):
            return _is_of_torch(target)
    return False


def _is_of_torch(node: ast.expr) -> bool:
    return _dotted(node).partition(".")[0] in ("torch", "nn", "transformers", "torchvision")


def _named(node: ast.AST, own: frozenset[str]) -> Iterator[str]:
    match node:
        case ast.Import(names=names):
            yield from (name.name for name in names if _PRIVATE_MODULE.fullmatch(name.name))
        case ast.ImportFrom(module=str(module), names=names, level=0) if module.split(".")[0] == "torch":
            for name in names:
                if _PRIVATE_MODULE.fullmatch(f"{module}.{name.name}"):
                    yield f"{module}.{name.name}"
        case ast.Attribute(value=value, attr=attr) if _PRIVATE.fullmatch(attr):
            dotted = _dotted(node)
            operator = dotted.startswith("torch.ops.") and dotted.count(".") == 3  # an ATen operator
            if not operator and (dotted.startswith("torch.") or (attr not in own and not _is_self(value))):
                yield dotted
        case ast.Attribute() if _dotted(node) == "torch.fx.experimental":
            yield "torch.fx.experimental"
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name), args=[_, ast.Constant(value=str(attr)), *_]):
            if name in ASKING and _PRIVATE.fullmatch(attr) and attr not in own:
                yield attr


def _is_self(node: ast.expr) -> bool:
    of_super = isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "super"
    return of_super or (isinstance(node, ast.Name) and node.id in ("self", "cls", "sys"))


def _dotted(node: ast.expr) -> str:
    if isinstance(node, ast.Attribute):
        return f"{_dotted(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else "?"
