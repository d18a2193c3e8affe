"""Sorts statements into modules. A module whose inputs and outputs are a clean cut gets its own forward."""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from .layers import Layer, Path
from .modules import number_of
from .program import Call, Literal, Size, Statement, Value, Weight, all_statements, made_by, read_by, values_read


@dataclass(eq=False)
class Module:
    """A module of the code; `body` has the statements of its forward, including calls of children that have a forward.

    form: `class`, `list` or `sequential`.
    """

    path: Path
    children: dict[str, Module | Layer | Weight] = field(default_factory=dict)
    body: list[Statement] = field(default_factory=list)
    inputs: list[Value] = field(default_factory=list)
    outputs: list[Value] = field(default_factory=list)
    form: str = "class"
    called: bool = False
    height: int = 0


class Tree:
    """The modules of a program by their paths."""

    def __init__(
        self, layers: Mapping[Path, Layer], locations: Mapping[Weight, Path], symbols: Mapping[Any, Value]
    ) -> None:
        self.symbols = symbols
        self.locations = locations
        self.layers = layers
        self.root = Module(())
        self.modules: dict[Path, Module] = {(): self.root}
        owned = {w for layer in layers.values() for w in layer.weights.values()}
        for path, layer in layers.items():
            self._owner(path).children[path[-1]] = layer
        for weight, place in locations.items():
            if weight not in owned:
                self._owner(place).children[place[-1]] = weight
        self._set_heights(self.root)
        for module in self.modules.values():
            self._make_list(module)

    def _make_list(self, module: Module) -> None:
        """Turn a module with numbered children into a list; missing numbers get an identity."""
        numbers = [number_of(n) for n in module.children]
        if not module.path or not numbers or None in numbers:
            return
        count = max(n for n in numbers if n is not None) + 1
        if count > 2 * len(numbers) + 2 or any(isinstance(c, Weight) for c in module.children.values()):
            return
        module.form = "list"
        own = {str(i): (*module.path, str(i)) for i in range(count)}
        module.children = {n: module.children.get(n) or Layer("nn.Identity", {}, {}, [], p) for n, p in own.items()}

    def _owner(self, path: Path) -> Module:
        """Return the module that contains a path."""
        module = self.root
        for i, part in enumerate(path[:-1]):
            found = module.children.get(part)
            if found is None:
                found = Module(path[: i + 1])
                module.children[part] = found
                self.modules[found.path] = found
            assert isinstance(found, Module)
            module = found
        return module

    def _set_heights(self, module: Module) -> int:
        below = [self._set_heights(c) for c in module.children.values() if isinstance(c, Module)]
        module.height = 1 + max(below, default=-1)
        return module.height

    def module_of(self, statement: Statement) -> Path:
        """Return the path of the innermost module that a statement belongs to."""
        path = statement.path
        layers = [s.args[0] for s in all_statements([statement]) if isinstance(s, Call) and s.target == "layer"]
        if layers:
            path = layers[0][:-1]
            for other in layers[1:]:
                while other[: len(path)] != path:
                    path = path[:-1]
        while path not in self.modules:
            path = path[:-1]
        return path

    def arrange(self, block: Sequence[Statement], inputs: Sequence[Value], outputs: Sequence[Value]) -> None:
        """Assign each module its statements."""
        places = {statement: self.module_of(statement) for statement in block}
        self.root.inputs, self.root.outputs, self.root.called = list(inputs), list(outputs), True
        self.root.body = self._body((), list(block), places, set(outputs))

    def _body(
        self, path: Path, statements: list[Statement], places: Mapping[Statement, Path], wanted: set[Value]
    ) -> list[Statement]:
        """Return the statements of a module's forward; `wanted` are the values that are read outside it."""
        apart: set[Path] = set()
        while True:
            units = _grouped(statements, places, path, apart)
            ordered = _ordered(units, self.symbols)
            if ordered is None:
                tangled = [p for p, _ in units if p is not None]
                apart |= set(_in_circles(units, self.symbols) or tangled)
                continue
            readers: dict[Value, set[int]] = {}
            for i, (_, own) in enumerate(ordered):
                for s in own:
                    for v in values_read(s, self.symbols):
                        readers.setdefault(v, set()).add(i)
            for p, module in self.modules.items():
                if p[: len(path)] == path != p:
                    module.called = False
            found: list[Statement] = []
            for i, (place, own) in enumerate(ordered):
                if place is None:
                    found += own
                    continue
                read = {v for s in own for v in made_by(s) if v in wanted or readers.get(v, set()) - {i}}
                call = self._call(place, own, places, read)
                if call is None:
                    apart.add(place)
                    break
                found.append(call)
            else:
                return found

    def _call(
        self, path: Path, own: list[Statement], places: Mapping[Statement, Path], read: set[Value]
    ) -> Call | None:
        """Return the call of a module with these statements, or None if they cannot be a module."""
        made = {v for s in own for v in made_by(s)}
        needed: dict[Value, None] = {}
        for s in own:
            for v in values_read(s, self.symbols):
                inside = isinstance(v, Weight) and self.locations[v][: len(path)] == path
                if v not in made and not isinstance(v, Literal) and not inside:
                    needed[v] = None
        outputs = [v for v in dict.fromkeys(v for s in own for v in made_by(s)) if v in read]
        layers = [s.args[0] for s in all_statements(own) if isinstance(s, Call) and s.target in ("layer", "module")]
        if (
            not outputs
            or any(p[: len(path)] != path for p in layers)
            or any(v.fake is None for v in (*needed, *outputs))
        ):
            return None
        if not _sizes_known(own, list(needed), made, self.symbols):
            return None
        module = self.modules[path]
        module.inputs, module.outputs, module.called = list(needed), outputs, True
        module.body = self._body(path, own, places, set(outputs))
        if module.form != "class":
            module.form = "sequential" if _is_chain(module) else "list"
            if module.form == "list":
                module.called = False
                return None
        return Call("module", [path, *needed], {}, outputs, None, len(outputs) > 1, path=path[:-1])


def _is_chain(module: Module) -> bool:
    """Return whether the modules of a list are called one after the other, with no other statement."""
    if len(module.inputs) != 1 or len(module.outputs) != 1:
        return False
    value, calls = module.inputs[0], {s.args[0]: s for s in module.body if isinstance(s, Call) and s.args}
    own = {name: (*module.path, name) for name in module.children}
    called = [calls[p] for p in own.values() if p in calls]
    if len(called) != len(module.body) or called != list(module.body):
        return False
    for call in called:
        if call.target not in ("layer", "module") or list(call.args[1:]) != [value] or len(call.outputs) != 1:
            return False
        value = call.outputs[0]
    identities = [c for n, c in module.children.items() if own[n] not in calls]
    return value is module.outputs[0] and all(isinstance(c, Layer) and c.kind == "nn.Identity" for c in identities)


Unit = tuple[Path | None, list[Statement]]


def _grouped(
    statements: Sequence[Statement], places: Mapping[Statement, Path], path: Path, apart: set[Path]
) -> list[Unit]:
    """Return statements grouped by the child module of `path` that they belong to; the key is None for its own."""
    units: list[Unit] = []
    groups: dict[Path, list[Statement]] = {}
    for statement in statements:
        place = places[statement]
        inner: Path | None = None
        for i in range(len(path) + 1, len(place) + 1):
            if place[:i] not in apart:
                inner = place[:i]
                break
        if inner is None:
            units.append((None, [statement]))
        elif inner in groups:
            groups[inner].append(statement)
        else:
            groups[inner] = [statement]
            units.append((inner, groups[inner]))
    return units


def _needs(units: Sequence[Unit], symbols: Mapping[Any, Value]) -> list[set[int]]:
    """Return, for each unit, the indices of the units that it reads."""
    makers: dict[Value, list[int]] = {}
    for i, (_, own) in enumerate(units):
        for s in own:
            for v in made_by(s):
                makers.setdefault(v, []).append(i)
            for inner in all_statements([s]):  # a collected list is read when it is complete
                if isinstance(inner, Call) and inner.target == "append":
                    makers.setdefault(inner.args[0], []).append(i)
    return [
        {m for s in own for v in values_read(s, symbols) for m in makers.get(v, ()) if m != i}
        for i, (_, own) in enumerate(units)
    ]


def _ordered(units: Sequence[Unit], symbols: Mapping[Any, Value]) -> list[Unit] | None:
    """Sort units so that each follows the units that it reads; otherwise keep their order. Return None for a cycle."""
    if all(place is None for place, _ in units):
        return list(units)
    needs = _needs(units, symbols)
    users: dict[int, list[int]] = {}
    for i, needed in enumerate(needs):
        for n in needed:
            users.setdefault(n, []).append(i)
    left = [len(needed) for needed in needs]
    free = [i for i, n in enumerate(left) if n == 0]
    found = []
    while free:
        i = heapq.heappop(free)
        found.append(units[i])
        for user in users.get(i, ()):
            left[user] -= 1
            if left[user] == 0:
                heapq.heappush(free, user)
    return found if len(found) == len(units) else None


def _in_circles(units: Sequence[Unit], symbols: Mapping[Any, Value]) -> list[Path]:
    """Return the modules that would have to be called both before and after another unit."""
    needs = _needs(units, symbols)
    left = set(range(len(units)))
    while free := [i for i in left if not needs[i] & left]:
        left -= set(free)
    while free := [i for i in left if not any(i in needs[j] for j in left)]:
        left -= set(free)
    return [place for i in left if (place := units[i][0]) is not None]


def _sizes_known(
    own: Sequence[Statement], given: Sequence[Value], made: set[Value], symbols: Mapping[Any, Value]
) -> bool:
    """Return whether each size in the statements is a size of a tensor that exists by then."""
    seen = {n.node.expr for v in given for n in _dims(v)}

    def known(block: Sequence[Statement]) -> bool:
        for statement in block:
            for x in read_by(statement):
                free = x.expression.free_symbols if isinstance(x, Size) and isinstance(statement, Call) else ()
                if free and x.expression not in seen and not all(s in seen or s in symbols for s in free):
                    return False
            if not isinstance(statement, Call):
                free = {s for x in read_by(statement) if isinstance(x, Size) for s in x.expression.free_symbols}
                inner = {n.node.expr for v in made_by(statement) for n in _dims(v)}
                if not all(s in seen or s in inner or s in symbols for s in free):
                    return False
            seen.update(n.node.expr for v in made_by(statement) for n in _dims(v))
        return True

    return known(own)


def _dims(value: Value) -> list[Any]:
    if not isinstance(value.fake, torch.Tensor):
        return []
    return [n for n in value.fake.shape if isinstance(n, torch.SymInt)]
