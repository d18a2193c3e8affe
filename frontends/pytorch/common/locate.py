"""Finds the origin of a node in a captured graph: module path and source line, for names and error messages."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import torch

from convert.errors import Location

from ..torch_internals import OpOverload

_FRAME = re.compile(r'File "(?P<file>[^"]+)", line (?P<line>\d+)')
TORCH = f"{Path(torch.__file__).parent}/"
"""The path prefix of PyTorch's files; files of torchvision have another."""
_NO_MODULE = "_empty_nn_module_stack_from_metadata_hook"
"""The source of nodes that torch.export creates for symbolic sizes, which belong to no module."""
_OWN = str(Path(__file__).parent.parent)


def module_of(node: torch.fx.Node) -> str:
    """Return the path of the innermost module whose forward made the node: "layer1.0.conv1", "" for the outermost."""
    stack = node.meta.get("nn_module_stack") or {}
    if not stack:
        return ""
    path = str(list(stack.values())[-1][0])
    if path == _NO_MODULE:
        return ""
    return path.removeprefix("L['self'].").replace("L['self']", "")


def source_of(trace: str) -> str:
    """Return "file.py:12" of the innermost frame outside PyTorch, else of the innermost one."""
    frames = [(m["file"], m["line"]) for m in _FRAME.finditer(trace or "")]
    # Callers of the capture are not part of the model, nor are replacements of PyTorch's functions.
    ours = [i for i, (file, _) in enumerate(frames) if file.startswith(_OWN)]
    frames = [f for f in frames[ours[0] + 1 :] if not f[0].startswith(_OWN)] if ours else frames
    if not frames:
        return ""
    own = [f for f in frames if not f[0].startswith(TORCH) and not f[0].startswith("torch/")]
    file, line = (own or frames)[-1]
    return f"{shown_path(file)}:{line}"


def shown_path(file: str) -> str:
    """Return a path relative to site-packages or the current folder if possible."""
    _, found, inside = file.rpartition("/site-packages/")
    if found:
        return inside
    try:
        return str(Path(file).relative_to(Path.cwd()))
    except ValueError:
        return file


class Locator:
    """Gives each node of a program its `Location`: its module, and the operator if the module has several."""

    def __init__(self, graph: torch.fx.Graph, reserved: set[str]) -> None:
        calls = [n for n in graph.nodes if n.op == "call_function"]
        self.count = Counter(module_of(n) for n in calls if isinstance(n.target, OpOverload))
        self.reserved = reserved

    def __call__(self, node: torch.fx.Node, operator: str) -> Location:
        path = module_of(node)
        short = operator.rpartition("::")[2].partition(".")[0]
        name = path if path and self.count[path] == 1 else f"{path}.{short}" if path else short
        if name in self.reserved:
            name += "_"
        return Location(operator, name, path, source_of(node.meta.get("stack_trace") or ""))
