"""The text of `model.py`, and the tensors of its state dict."""

from __future__ import annotations

import re
from collections.abc import Mapping

import torch

from .classes import Writer
from .emitter import Program
from .expressions import plain, size
from .layers import Layer, Path, drop_dead, find_layers
from .program import Weight, read_by
from .tidy import moved_path, place_functions, shared_prefix, tidy
from .tree import Tree
from .usage import USAGE


def source_of(program: Program) -> tuple[str, dict[str, torch.Tensor]]:
    """Return the code of a program and its state dict. Raises `Unsupported`."""
    outputs = [*program.outputs.values(), *(s.after for s in program.states)]
    drop_dead(program.block, outputs, program.symbols)
    layers = find_layers(program.block)
    drop_dead(program.block, outputs, program.symbols)
    tidy(program.block)
    place_functions(program.block, layers)
    moved = shared_prefix(program.block)
    for statement in program.block:
        statement.path = moved_path(statement.path, moved)
    locations: dict[Weight, Path] = {}
    state: dict[str, torch.Tensor] = {}
    for path, layer in layers.items():
        for leaf, weight in layer.weights.items():
            if isinstance(weight, Weight):
                locations[weight] = (*path, leaf)
            content = weight.content if isinstance(weight, Weight) else weight
            assert content is not None
            state[".".join((*path, leaf))] = content
        if layer.kind.startswith("nn.BatchNorm"):
            state[".".join((*path, "num_batches_tracked"))] = torch.zeros((), dtype=torch.int64)
    alive = {x for s in program.block for x in read_by(s)} | set(outputs)
    for weight in program.weights:
        if weight not in locations and weight in alive:
            locations[weight] = _free_place(tuple(weight.place.split(".")), layers)
            assert weight.content is not None
            state[".".join(locations[weight])] = weight.content
    for kept in program.states:
        locations[kept.buffer] = _free_place(tuple(kept.buffer.place.split(".")), layers)
        assert kept.buffer.content is not None
        state[".".join(locations[kept.buffer])] = kept.buffer.content
    tree = Tree(layers, locations, program.symbols)
    tree.arrange(program.block, list(program.inputs.values()), outputs)
    writer = Writer(tree)
    classes = writer.write()
    scope = writer.scope(tree.root)
    for name, value in program.inputs.items():
        scope.add(value, name, exact=True)
    given = [*program.inputs.values(), *(s.before for s in program.states)]
    scope.wanted = {s.after: f"{s.name}_next" for s in program.states}
    scope.wanted |= {value: name for name, value in program.outputs.items()}
    scope.wanted = {value: name for value, name in scope.wanted.items() if value not in given}
    for kept in program.states:
        scope.add(kept.before, kept.name)
    stored = {scope.attribute(locations[s.buffer]) or "": s for s in program.states}
    checks = [f"{scope.names[s.before]} = {place}" for place, s in stored.items()]
    checks += [f"assert {size(guard, scope.symbol)[0]}" for guard in program.guards]
    keys = list(program.outputs) if len(program.outputs) != 1 else None
    body = writer.body(tree.root, writer.method(tree.root, scope, checks, keys, list(stored)))
    code = plain("\n".join([*classes, "class Model(nn.Module):", *body])) + "\n"
    names = ", ".join(map(repr, program.outputs)) + ("," if len(program.outputs) == 1 else "")
    return f"{USAGE}\n{_imports(code)}\n\nOUTPUT_NAMES = ({names})\n\n\n{code}", state


def _imports(code: str) -> str:
    lines = []
    if "itertools." in code:
        lines.append("import itertools\n")
    lines.append("import torch")
    if re.search(r"\bF\.", code):
        lines.append("import torch.nn.functional as F")
    lines.append("from torch import Tensor, nn" if "Tensor" in code else "from torch import nn")
    return "\n".join(lines)


def _free_place(path: Path, layers: Mapping[Path, Layer]) -> Path:
    """Return a free path for a weight that is in no layer."""
    while any(path[: len(p)] == p or p[: len(path)] == path for p in layers):
        path = (*path[:-2], f"{path[-2]}_{path[-1]}") if len(path) > 1 else (f"{path[-1]}_",)
    return path
