"""The state of a walk over one TorchScript program: the graph, the writes, the missing rules, and the current
position.
"""

from __future__ import annotations

import enum
import re
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import torch

from convert.errors import BadInput, Location, Problem, Unsupported
from convert.graph import Graph
from convert.outcome.report import Report

from ..common.complexes import constant_pair
from ..common.locate import shown_path
from ..common.quantization import quantized_constant
from ..common.weights import identity_of, tensor_of
from ..torch_internals import ScriptModuleObject, ScriptObject, script_class
from .values import Dict, List, Memory, Object, Tensor, TensorState

Env = dict[int, Any]


class ProgramError(Exception):
    """The program raises an exception on this path."""


@dataclass
class Walk:
    """The state of one walk over a program.

    `calls` holds the source lines of the calls around the current node, `states` the attributes that are graph inputs.
    `seeded` is True once the program has set the seed of random numbers. `trainable` holds the parameters among the
    constants, `longer` the names of dims whose length must not be 1.
    """

    g: Graph
    report: Report
    memory: Memory = field(default_factory=Memory)
    problems: dict[tuple[str, str], tuple[Location, set[str]]] = field(default_factory=dict)
    weights: dict[tuple[object, ...], tuple[Any, torch.Tensor]] = field(default_factory=dict)
    names: dict[tuple[object, ...], str] = field(default_factory=dict)
    graphs: dict[Any, Any] = field(default_factory=dict)
    objects: list[Object] = field(default_factory=list)
    states: dict[str, Any] = field(default_factory=dict)
    path: str = ""
    node: Any = None
    calls: list[str] = field(default_factory=list)
    seeded: bool = False
    trainable: set[Tensor] = field(default_factory=set)
    longer: set[str] = field(default_factory=set)

    def problem(self, error: Unsupported, at: Location) -> None:
        """Note what has no rule; `check` reports all such notes together."""
        for problem in error.with_location(at).problems:
            _, places = self.problems.setdefault((problem.why, problem.at.operator), (problem.at, set()))
            places.add(f"{problem.at.module} {problem.at.source} {problem.at.node}")

    def check(self) -> None:
        """Raise one `Unsupported` that lists all notes, if there are any."""
        if self.problems:
            listed = [Problem(why, at, len(places)) for (why, _), (at, places) in self.problems.items()]
            raise Unsupported(
                problems=listed, hint="add a rule with --rules FILE, or replace the operator in the model"
            )

    def location(self, node: Any, operator: str = "") -> Location:
        """Return the location of a TorchScript node."""
        kind = operator or node.kind().removeprefix("aten::")
        short = kind.rpartition("::")[2].partition(".")[0]
        name = f"{self.path}.{short}" if self.path else short
        return Location(kind, name, self.path, _source(node, self.calls))

    def value(self, content: Any) -> Any:
        """Return a tensor's content as a value of the graph; constants become initializers, one for shared memory."""
        if not isinstance(content, torch.Tensor):
            return content
        key = identity_of(content)
        if key not in self.weights:
            name = self.names.get(key, "const")
            # Keep the tensor as well, so that no other tensor gets its address.
            made: Any = quantized_constant(self.g, content, name) if content.is_quantized else None
            made = constant_pair(self.g, content) if content.is_complex() else made
            made = self.g.initializer(name, tensor_of(content, name)) if made is None else made
            self.weights[key] = made, content
        return self.weights[key][0]

    def tensor(self, content: Any, example: torch.Tensor | None = None) -> Tensor:
        """Return a new tensor of the program, which shares memory with no other."""
        if example is None and isinstance(content, torch.Tensor):
            example = example_of(content)
        return Tensor(TensorState(content, example, self.memory.version()), scope=self.memory.scope)

    def lift_object(self, value: Any, path: str = "") -> Any:
        """Return a Python object of TorchScript (an attribute, a literal, a default) as a value of the program.

        Raises `Unsupported` for an object of a class that this process has scripted itself.
        """
        if isinstance(value, torch.Tensor):
            tensor = value.detach()
            if path:
                self.names.setdefault(identity_of(tensor), path)
            return self.tensor(tensor)
        if isinstance(value, list):
            return List(tuple(self.lift_object(v, f"{path}.{i}") for i, v in enumerate(value)), self.memory.scope)
        if isinstance(value, dict):
            return Dict({k: self.lift_object(v, f"{path}.{k}") for k, v in value.items()}, self.memory.scope)
        if isinstance(value, tuple):
            return tuple(self.lift_object(v, f"{path}.{i}") for i, v in enumerate(value))
        if isinstance(value, (ScriptModuleObject, ScriptObject)):
            obj = Object(value, path)
            self.objects.append(obj)
            return obj
        if not isinstance(value, enum.Enum) and script_class(type(value)) is not None:
            # PyTorch copies such an object to Python, and the copy does not follow changes of the object itself.
            raise Unsupported(
                f"{path} is an object of the class {type(value).__name__}, which this process has scripted itself",
                hint="save the module with torch.jit.save, and convert the file in another process",
            )
        return value


def example_of(tensor: torch.Tensor) -> torch.Tensor:
    """Return a tensor like `tensor` on the meta device; for a quantized one, the float tensor that it stands for."""
    dtype = torch.float32 if tensor.is_quantized else tensor.dtype
    return torch.empty_strided(tensor.shape, tensor.stride(), dtype=dtype, device="meta")


# -- sources ----------------------------------------------------------------------------------------------------------

_FRAME = re.compile(r'File "(?P<file>[^"]+)", line (?P<line>\d+)|^(?P<traced>[^\s()]+\.py)\((?P<at>\d+)\)', re.M)


@cache
def _frames(text: str) -> tuple[str, ...]:
    return tuple(f"{shown_path(m['file'] or m['traced'])}:{m['line'] or m['at']}" for m in _FRAME.finditer(text))


_INNERMOST = re.compile(r"(?P<file>.+):(?P<line>\d+):\d+")


def own_source(node: Any) -> str:
    """Return the source line of a node; of a traced node's stack, the innermost frame outside PyTorch.

    Raises `BadInput` if the archive's debug information, which is read only now, is damaged.
    """
    try:
        # A printed node names its innermost frame only. To name all frames, PyTorch searches the text of the file.
        if next(node.blocks(), None) is None and (m := _INNERMOST.fullmatch(str(node).strip().rpartition(" # ")[2])):
            line = f"{shown_path(m['file'])}:{m['line']}"
            if not line.startswith("torch/"):
                return line
        frames = _frames(node.sourceRange())
    except (RuntimeError, UnicodeDecodeError) as error:  # raised when PyTorch's strings become Python strings
        reason = str(error).split("\n")[0]
        raise BadInput(
            f"the debug information in the archive is damaged: {reason}",
            hint="get the file again and compare its checksum with the source's",
        ) from error
    own = [f for f in frames if not f.startswith("torch/")]
    return (own or frames or ("",))[0]


def _source(node: Any, calls: list[str]) -> str:
    """Return the innermost line outside PyTorch's own layers and functions."""
    lines = [own_source(node), *reversed(calls)]
    lines = [line for line in lines if line]
    own = [line for line in lines if not line.startswith("torch/")]
    return (own or lines or [""])[0]
