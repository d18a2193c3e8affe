"""Writes the classes of the modules. Modules with the same structure share a class, with arguments for differing
numbers.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

import torch

from . import expressions as py
from .expressions import SLOT, slot
from .layers import Layer, Path
from .printer import Printer
from .program import Value, Weight
from .scope import Scope, identifier, is_attribute, unique
from .tree import Module, Tree


@dataclass
class Class:
    """A class of the code, and the expression that constructs each module of this class."""

    name: str
    text: list[str]
    made: dict[Path, str] = field(default_factory=dict)


class Writer:
    """Writes the modules of a tree, innermost first."""

    def __init__(self, tree: Tree) -> None:
        self.tree = tree
        self.classes: list[Class] = []
        self.making: dict[Path, str] = {}
        """The expression that constructs a module in the `__init__` of its parent."""
        self.lists = {p: len(m.children) for p, m in tree.modules.items() if m.form != "class"}
        self.names: set[str] = {"Model"}

    def write(self) -> list[str]:
        """Return the lines of all classes except the root's."""
        for height in range(self.tree.root.height):
            level = [m for m in self.tree.modules.values() if m.height == height and m.path]
            for module in level:
                if module.form != "class":
                    self.making[module.path] = self._container(module)
            self._share([m for m in level if m.form == "class"])
        return [line for c in self.classes for line in [*c.text, "", ""]]

    def _container(self, module: Module) -> str:
        """Return `nn.Sequential(...)` or `nn.ModuleList([...])` with the children."""
        made = [self.child(c, (*module.path, n)) for n, c in module.children.items()]
        kind = "nn.Sequential" if module.form == "sequential" else "nn.ModuleList"
        if len(made) > 1 and len(set(made)) == 1 and "\n" not in made[0]:
            many = f"[{made[0]} for _ in range({slot('depth', len(made))})]"
            return f"{kind}({'*' if module.form == 'sequential' else ''}{many})"
        inner = ",\n".join(_shifted(m) for m in made)
        if module.form == "sequential":
            return f"nn.Sequential(\n{inner},\n)"
        return f"nn.ModuleList([\n{inner},\n])"

    def child(self, child: Module | Layer | Weight, path: Path) -> str:
        """Return the expression that constructs a child."""
        if isinstance(child, Module):
            return self.making[child.path]
        if isinstance(child, Layer):
            return _layer(child)
        return _parameter(child)

    def _share(self, modules: Sequence[Module]) -> None:
        """Create one class for all modules whose code differs in numbers only."""
        alike: dict[str, list[tuple[Module, list[str]]]] = {}
        for module in modules:
            text = self.body(module)
            alike.setdefault(SLOT.sub(lambda m: f"\x00{m[1]}\x01", "\n".join(text)), []).append((module, text))
        for group in alike.values():
            self._class(group)

    def _class(self, group: Sequence[tuple[Module, list[str]]]) -> None:
        name = unique(_class_name([m.path for m, _ in group]), self.names)
        self.names.add(name)
        rows = [[int(m[2]) for m in SLOT.finditer("\n".join(text))] for _, text in group]
        first = "\n".join(group[0][1])
        slots = list(SLOT.finditer(first))
        split = first.index("    def forward") if "    def forward" in first else len(first)
        arguments: dict[tuple[int, ...], str] = {}
        kept: dict[tuple[int, ...], str] = {}
        for i, match in enumerate(slots):
            column = tuple(row[i] for row in rows)
            if len(set(column)) == 1:
                continue
            if column not in arguments:
                arguments[column] = unique(match[1], {*arguments.values(), "self"})
            if match.start() >= split:
                kept[column] = arguments[column]
        numbers = iter(range(len(slots)))

        def shown(match: re.Match[str]) -> str:
            i = next(numbers)
            column = tuple(row[i] for row in rows)
            if len(set(column)) == 1:
                return match[2]
            return f"self.{arguments[column]}" if match.start() >= split else arguments[column]

        lines = SLOT.sub(shown, first).split("\n")
        if arguments:
            place = next(i for i, line in enumerate(lines) if line.startswith("    def __init__"))
            lines[place] = f"    def __init__(self, {', '.join(f'{a}: int' for a in arguments.values())}):"
            lines[place + 2 : place + 2] = [f"        self.{a} = {a}" for a in kept.values()]
        found = Class(name, [f"class {name}(nn.Module):", *lines])
        self.classes.append(found)
        for row, (module, _) in enumerate(group):
            given = ", ".join(f"{a}={slot(a, column[row])}" for column, a in arguments.items())
            self.making[module.path] = f"{name}({given})"

    def body(self, module: Module, forward: Sequence[str] | None = None) -> list[str]:
        """Return the methods of a class, with marks for numbers that may differ."""
        lines = ["    def __init__(self):", "        super().__init__()"]
        for name, child in module.children.items():
            made = self.child(child, (*module.path, name))
            if isinstance(child, Weight) and not child.parameter:
                lines.append(f"        self.register_buffer({name!r}, {made})")
            elif is_attribute(name):
                lines += _assigned(f"self.{name} = ", made)
            else:
                method = "register_parameter" if isinstance(child, Weight) else "add_module"
                lines += _assigned(f"self.{method}({name!r}, ", f"{made})")
        if forward is None and module.called:
            forward = self.forward(module)
        return [*lines, "", *forward] if forward else lines

    def forward(self, module: Module) -> list[str]:
        """Return the lines of `forward`."""
        scope = self.scope(module)
        first = next((v for v in module.inputs if isinstance(v.fake, torch.Tensor)), None)
        for v in module.inputs:
            scope.add(v, "x", exact=v is first)
        return self.method(module, scope)

    def scope(self, module: Module) -> Scope:
        """Return the scope with the names in a module's forward."""
        return Scope(module.path, self.tree.locations, self.tree.symbols, self.lists)

    def method(
        self,
        module: Module,
        scope: Scope,
        before: Sequence[str] = (),
        keys: Sequence[str] | None = None,
        states: Sequence[str] = (),
    ) -> list[str]:
        """Return the lines of `forward`, starting with `before`; it returns a dict if `keys` are given.

        The last outputs are what the attributes `states` hold after the call.
        """
        names = [scope.names[v] for v in module.inputs]
        first = next((scope.names[v] for v in module.inputs if isinstance(v.fake, torch.Tensor)), None)
        printer = Printer(scope, f"{first}.device" if first else "")
        block = printer.lines(module.body, wanted=module.outputs)
        block = [] if block == ["pass"] else block
        results = [printer.text(v) for v in module.outputs]
        ends, results = results[len(results) - len(states) :], results[: len(results) - len(states)]
        # Gradients stop at the end of a call, and a tensor of the caller is copied.
        kept = [f"{place} = {text}.detach().clone()" for place, text in zip(states, ends, strict=True)]
        given = ", ".join(["self", *(f"{n}{_annotation(v)}" for v, n in zip(module.inputs, names, strict=True))])
        returned = ", ".join(results)
        if keys is not None:
            returned = f"{{{', '.join(f'{k!r}: {r}' for k, r in zip(keys, results, strict=True))}}}"
        return [f"    def forward({given}):", *(f"        {line}" for line in [*before, *block, *kept]),
                f"        return {returned}"]  # fmt: skip


def _annotation(value: Value) -> str:
    return ": Tensor" if isinstance(value.fake, torch.Tensor) else ": int"


def _assigned(target: str, made: str) -> list[str]:
    first, *rest = made.split("\n")
    return [f"        {target}{first}", *(f"        {line}" for line in rest)]


def _shifted(text: str) -> str:
    return "\n".join(f"    {line}" for line in text.split("\n"))


_POSITIONAL = {
    "in_channels", "out_channels", "in_features", "out_features", "num_embeddings", "embedding_dim", "num_features",
    "normalized_shape", "num_groups", "num_channels", "input_size", "hidden_size",
}  # fmt: skip
"""The first arguments of layers, which people pass by position."""


def _layer(layer: Layer) -> str:
    kind = next((w.fake.dtype if isinstance(w, Weight) else w.dtype for w in layer.weights.values()), torch.float32)
    parts = []
    for name, value in layer.arguments.items():
        if isinstance(value, tuple):
            text = f"({', '.join(slot(name, v) for v in value)}{',' if len(value) == 1 else ''})"
        elif isinstance(value, bool) or value is None:
            text = str(value)
        elif isinstance(value, int):
            text = slot(name, value)
        elif isinstance(value, str):
            text = repr(value)
        else:
            text = py.number(value, single=kind != torch.float64)
        parts.append(text if name in _POSITIONAL else f"{name}={text}")
    if kind != torch.float32:
        parts.append(f"dtype={kind}")
    return f"{layer.kind}({', '.join(parts)})"


def _parameter(weight: Weight) -> str:
    dtype = weight.fake.dtype
    dims = ", ".join(slot("size", n) for n in weight.fake.shape)
    made = f"torch.zeros({dims if weight.fake.dim() else '()'}{'' if dtype == torch.float32 else f', dtype={dtype}'})"
    if dtype in _NOT_FILLED:
        made = f"torch.empty({dims}, dtype={dtype})"
    return f"nn.Parameter({made})" if weight.parameter else made


_NOT_FILLED = (torch.float8_e4m3fn, torch.float8_e5m2, torch.float8_e4m3fnuz, torch.float8_e5m2fnuz,
               torch.uint16, torch.uint32, torch.uint64)  # fmt: skip


def _class_name(paths: Sequence[Path]) -> str:
    """Return a class name for modules: `layer1.0` and `encoder.layers.3` give Layer, `blocks.2.attn` gives Attn."""
    words = [next((p for p in reversed(path) if not p.isdigit()), "") for path in paths]
    plain_words = [re.sub(r"\d+$", "", w) or w for w in words]
    word = max(dict.fromkeys(plain_words), key=plain_words.count)
    numbered = any(p[-1].isdigit() for p in paths)
    word = identifier(word) or "block"
    if numbered and word.endswith("s") and not word.endswith("ss"):
        word = word[:-1]
    return "".join(part.capitalize() for part in word.split("_")) or "Block"
