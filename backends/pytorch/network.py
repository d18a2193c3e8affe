"""The module that is captured: the graph's weights are its parameters and buffers, named as in the source."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Mapping
from typing import Any

import onnx_ir as ir
import torch
from torch import nn

from convert.graph.trainable import non_trainable, single_weights
from convert.graph.values import nodes_of, used_values
from convert.request.naming import WORDS, Naming

from .dtypes import tensor_from
from .torch_internals import own_parts

# Smaller constants are part of the program and not trained.
_SMALL = 1
_FLOATS = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
_PART = Naming(
    r"[\"'\\{}()\[\]=;\x00-\x1f\x7f-\x9f\u2028\u2029]",
    r".",
    reserved=(*WORDS, "T_destination", "training", "forward", "train", "eval"),
)
_DIGITS = re.compile(r"(\d{18})\d+")
_DEPTH = 64
"""Maximum nesting of modules: PyTorch and the code writer walk them by recursion in Python."""

_PROGRAM = frozenset({
    *dir(torch.fx.GraphModule(nn.Module(), torch.fx.Graph())),
    "_guards_fn", "_in_spec", "_out_spec", "shape_env", "validate_inputs",
})  # fmt: skip
"""Attributes of a loaded program's module that other modules lack; `graph` and `code` are among them."""


class Network(nn.Module):
    """Holds the weights of `model`: the initializer `layer1.conv.weight` is a parameter of the module `layer1.conv`.

    Floating-point weights are parameters. Averages of batch norms, integers and what the source does not train are
    buffers. Scalars are left out unless they are known to be weights. Weights may share the memory of a mapped file, so
    nothing may write to them; states have memory of their own.
    """

    def __init__(self, model: ir.Model, states: Mapping[str, torch.Tensor] | None = None) -> None:
        """Create the module. `states` are buffers by path; weights of the same path get another one."""
        super().__init__()
        for place, content in (states or {}).items():
            self._register(place, content, trained=False)
        self._places: dict[str, str] = {}
        fixed, single = non_trainable(model), single_weights(model)
        used = {*model.graph.outputs, *(v for node in nodes_of(model.graph) for v in used_values(node))}
        for value in _weights(model.graph):
            if value not in used:  # a weight that the reader has replaced by another
                continue
            if value.name in self._places or value.const_value is None:
                continue
            if value.const_value.size <= _SMALL and value not in single:
                continue
            if value.const_value.dtype == ir.DataType.STRING:
                continue
            small = value.const_value.size <= 64
            content = tensor_from(value.const_value.numpy(), only_read=True)
            trained = content.dtype in _FLOATS and value not in fixed
            if trained or not small or content.dtype in _FLOATS:
                self._places[value.name or ""] = self._register(value.name or "weight", content, trained)

    def place_of(self, name: str) -> str | None:
        """Return the path of the parameter or buffer that holds the initializer `name`; None if there is none."""
        return self._places.get(name)

    def tensor_named(self, name: str) -> torch.Tensor | None:
        """Return the parameter or buffer that holds the initializer `name`; None if there is none."""
        place = self._places.get(name)
        if place is None:
            return None
        owner, _, last = place.rpartition(".")
        found: Any = self.get_submodule(owner)
        return getattr(found, last)

    def _register(self, name: str, content: torch.Tensor, trained: bool) -> str:
        """Register a tensor at the path given by its name, and return the path."""
        parts = path_of(name) or ["weight"]
        owner: nn.Module = self
        path = []
        for part in parts[:-1]:
            part = self._free(owner, part, modules=True)
            if part not in own_parts(owner):
                owner.add_module(part, nn.Module())
            owner = own_parts(owner)[part]  # type: ignore[assignment]
            path.append(part)
        last = self._free(owner, parts[-1], modules=False)
        if trained:
            owner.register_parameter(last, nn.Parameter(content))
        else:
            owner.register_buffer(last, content)
        return ".".join([*path, last])

    def _free(self, owner: nn.Module, name: str, modules: bool) -> str:
        """Return `name`, with a number appended if the module already has another attribute of this name."""
        own = _PROGRAM if owner is self else ()
        taken, number = name, 0
        while (taken in own or hasattr(owner, taken)) and not (modules and taken in own_parts(owner)):
            number += 1
            taken = f"{name}_{number}"
        return taken


def is_free(name: str) -> bool:
    """Return whether a program's module has no attribute of this name."""
    return name not in _PROGRAM


def path_of(name: str) -> list[str]:
    """Return the module path in a dotted or slashed name. Parts beyond the maximum depth are joined into one."""
    # Python normalizes names (NFKC) in the code that PyTorch generates, so names that are NFKC-equal would clash.
    # PyTorch reads digits as a number, in Python and in 64 bits.
    name = _DIGITS.sub(r"\1", unicodedata.normalize("NFKC", name))
    parts = [_PART.legal(p) for p in re.split(r"[./]+|::", name) if p]
    return bounded(parts, "_")


def bounded(parts: list[str], mark: str) -> list[str]:
    """Return the parts of a name; those that are too deep for modules are joined into one by `mark`."""
    return parts if len(parts) <= _DEPTH else [*parts[:_DEPTH], mark.join(parts[_DEPTH:])]


def _weights(graph: ir.Graph) -> Iterator[ir.Value]:
    yield from graph.initializers.values()
    for node in nodes_of(graph):
        for attribute in node.attributes.values():
            if attribute.type == ir.AttributeType.GRAPH:
                yield from attribute.as_graph().initializers.values()
