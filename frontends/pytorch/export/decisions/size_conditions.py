"""Conditions on sizes under which a captured program holds: reported, stored in the metadata, and checked by the
graph.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from itertools import product
from typing import Any

import onnx_ir as ir
import sympy
import torch
from torch.export import ExportedProgram

from convert.errors import Unsupported
from convert.graph import Graph
from convert.graph.metadata import DIMS_KEY, GUARDS_KEY
from convert.graph.size_checks import check_sizes, conditions_of, holds, in_words
from convert.outcome.report import Report
from convert.parity.inputs.size_guards import broken_guards, evaluate

from ...torch_internals import schema_of
from ...torch_internals.symbols import PythonPrinter, SymT, symbol_is_type
from ..capture import dims as naming
from ..capture.dims import Dims, is_fixed
from ..capture.guards import BUILT_IN, Place, guards_of
from ..lowering.dynamic_split import unused_counts
from .branches import Branch, short_lengths, ties_inputs

_NAME = re.compile(r"[A-Za-z_]\w*")
_FUNCTIONS = frozenset(("min", "max", "Min", "Max", "abs", "round", "and", "or", "not"))
_BOUND = re.compile(r"(?P<name>\w+) (?P<sign>!=|>=|>|<=|<) (?P<number>\d+)")


class SizeConditions:
    """Conditions that sizes must meet: bounds of dims by name, and other conditions.

    bounds, guards: all that capture found. checks: those that the graph checks, because other sizes would silently give
    other numbers: forward's decisions in Python. Requirements of PyTorch's operators are also requirements of the
    target's. If the decisions were not recorded (a program from a file), everything is checked, as PyTorch does.
    """

    def __init__(
        self,
        program: ExportedProgram,
        inputs: Sequence[torch.fx.Node],
        dims: Dims,
        branches: Sequence[Branch] | None = None,
        way: SizePath | None = None,
    ) -> None:
        self.way = way or SizePath()
        self.inputs = [n for n in inputs if isinstance(n.meta.get("val"), torch.Tensor)]
        shapes = [n.meta["val"].shape for n in self.inputs]
        self.bounds: dict[str, list[int | None]] = json.loads(
            naming.bounds_json(dims, program.range_constraints, shapes)
        )
        self.guards = [text for text in guards_of(program, inputs, dims) if not _always_holds(text)]
        asked = {} if branches is None else decided_conditions(branches, dims)
        asked = {c: branch for c, branch in asked.items() if not branch.bound and not self.way.settles(c)}
        decided = [(text, branch.line) for c, branch in asked.items() for text in condition_texts(c)]
        self.decided = {text for text, _ in decided}
        self.lines = list(dict.fromkeys(line for _, line in decided if line))
        built_in = (t for t in self.guards if BUILT_IN.match(t) and not _holds_within(t, self.bounds))
        found = list(
            dict.fromkeys(
                [
                    *(t for t, _ in decided),
                    *_counted(program, dims),
                    *_squeezed(program, dims),
                    *_cut(program, dims, self.bounds),
                    *built_in,
                ]
            )
        )
        others = [text for text in found if not self._is_bound(text)]
        self.guards += [text for text in others if text not in self.guards]
        known = {name for text in found for name in _NAME.findall(text)}
        if branches is None:
            self.checks = conditions_of(self.bounds, self.guards)
        else:
            checks = conditions_of({n: pair for n, pair in self.bounds.items() if n in known}, others)
            self.checks = [text for text in checks if not self.way.implies(text)]
        self.tied = _dependent_dims(self.inputs, dims, self.way) if way or ties_inputs(branches or ()) else []
        self.dims = dims
        self.checked: list[ir.Value] = []
        self.fits: ir.Value | None = None
        self.texts: list[str] = []
        self.untold: set[str] = set()
        self.unchecked: list[str] = []

    def _is_bound(self, text: str) -> bool:
        """Record a condition if it is a bound of one dim; return whether it is."""
        found = _BOUND.fullmatch(text)
        pair = self.bounds.get(found["name"]) if found else None
        if not found or pair is None:
            return False
        number, sign = int(found["number"]), found["sign"]
        if sign in ("<", "<="):
            number -= sign == "<"
            pair[1] = number if pair[1] is None else min(pair[1], number)
        elif sign == "!=" and number != 1:
            return False
        else:
            pair[0] = max(pair[0] or 1, number + (sign != ">="))
        return True

    def note(self, report: Report) -> None:
        """Note which sizes the converted model refuses."""
        if shown := [text for text in self.texts if text not in self.untold]:
            at = f", at {', '.join(self.lines)}" if self.lines else ""
            where = f" with {self.way.text}" if self.way.known else ""
            report.note(
                f"the way that forward takes depends on sizes{where}{at}: the converted model takes that for "
                f"{', '.join(map(_with_words, shown))}, and fails when it runs for others",
                code="size-limits",
            )
        if self.unchecked:
            report.note(
                f"the program holds for sizes with {', '.join(self.unchecked)}: the converted model does not check it",
                code="unchecked-sizes",
            )

    def check_inputs(self, g: Graph, env: dict[torch.fx.Node, Any]) -> None:
        """Make the inputs in `env` fail for other sizes."""
        asked = [*self.checks, *(text for _, text, _ in self.tied)]
        wanted = {name for text in asked for name in _NAME.findall(text)} - _FUNCTIONS
        places = {name: place for name, place in self._places(env).items() if name in wanted}
        sizes = {name: g.Shape(env[node], start=i, end=i + 1) for name, (node, i) in places.items()}
        for text in self.checks:
            made = holds(g, text, sizes)
            if made is not None:
                self._require(g, made, text)
                self.untold |= {text} if self.way.known and self.way.seems_to_imply(text) else set()
            elif text in self.decided:
                raise self._refusal(text)
            else:
                self.unchecked.append(text)
        for (node, i), text, is_told in self.tied:
            size = g.Shape(env[node], start=i, end=i + 1)
            made = holds(g, f"{_OWN_SIZE} == {text}", {**sizes, _OWN_SIZE: size})
            other = f"{places[text][0].name}.shape[{places[text][1]}]" if text in places else text
            own = self.way.names.get((node.name, i))
            is_named = own is not None and own != text  # dims that share a name are told apart by their inputs
            condition = f"{own} == {text}" if is_named else f"{node.name}.shape[{i}] == {other}"
            if made is None:
                raise self._refusal(condition)
            self._require(g, made, condition)
            self.untold |= set() if is_told else {condition}
        if self.fits is None:
            return
        touched = {node for node, _ in places.values()} | {node for (node, _), _, _ in self.tied}
        for node in self.inputs:
            if node in touched:
                env[node] = check_sizes(g, env[node], self.fits, self.texts, self.way.only_there)
                self.checked.append(env[node])

    def check_output(self, g: Graph, value: ir.Value) -> ir.Value:
        """Return `value`, with a check of the sizes if it does not depend on a checked value."""
        if self.fits is None or _depends(value, {id(v) for v in self.checked}):
            return value
        return check_sizes(g, value, self.fits, self.texts, self.way.only_there)

    def write_metadata(self, model: ir.Model) -> None:
        """Write bounds and conditions into the model's metadata, for the report and the inputs of a verification."""
        model.metadata_props[DIMS_KEY] = json.dumps(self.bounds)
        if self.guards:
            model.metadata_props[GUARDS_KEY] = json.dumps(self.guards)

    def _refusal(self, condition: str) -> Unsupported:
        """Return the error for a decision that the graph cannot check, because other sizes would give other numbers."""
        at = f" at {', '.join(self.lines)}" if self.lines else ""
        return Unsupported(
            f"forward decides on sizes in Python{at}, and a graph cannot check whether {condition}",
            hint=_ONE_SIZE,
        )

    def _require(self, g: Graph, condition: ir.Value, text: str) -> None:
        self.fits = condition if self.fits is None else g.And(self.fits, condition)
        self.texts.append(text)

    def _places(self, env: Mapping[torch.fx.Node, Any]) -> dict[str, tuple[torch.fx.Node, int]]:
        """Return where each named dim can be read."""
        found: dict[str, tuple[torch.fx.Node, int]] = {}
        for node in self.inputs:
            if isinstance(env[node], ir.Value):
                for i, dim in enumerate(node.meta["val"].shape):
                    name = self.dims.of(dim)
                    if isinstance(name, str) and name.isidentifier():
                        found.setdefault(name, (node, i))
        return found


def decided_conditions(branches: Iterable[Branch], dims: Dims) -> dict[sympy.Basic, Branch]:
    """Return the conditions of forward's decisions, in names of dims, each with its decision.

    Raises `Unsupported` for a condition on sizes that no input has. Conditions on data are not included: PyTorch
    refuses to decide on data, and code that decides on it regardless reports it itself (torch._check, or
    `without_checks` in `export/patches/pytorch/checks.py`).
    """
    found: dict[sympy.Basic, Branch] = {}
    for branch in branches:
        if branch.ties or (not branch.guarded and not short_lengths(branch)):
            continue  # implied by the dims of the inputs, or true for all lengths
        unknown = branch.condition.free_symbols - set(dims.symbols)
        if any(symbol_is_type(symbol, _OF_DATA) for symbol in unknown):
            continue
        if unknown:
            raise Unsupported(
                f"forward decides in Python on {branch.path_condition} at {branch.line}, "
                f"and no input has a dim that tells {', '.join(sorted(map(str, unknown)))}",
                hint=_ONE_SIZE,
            )
        found.setdefault(in_order(branch.path_condition.xreplace(dims.symbols)), branch)
    return found


_OF_DATA = (SymT.UNBACKED_INT, SymT.UNBACKED_FLOAT)
"""Symbols of run-time numbers, such as the count of nonzero elements."""


def in_order(condition: sympy.Basic) -> sympy.Basic:
    """Return the condition with the sides of an equation in canonical order, so that equal conditions compare equal."""
    if isinstance(condition, (sympy.Eq, sympy.Ne)):
        return condition.func(*sorted(condition.args, key=lambda side: (side.is_number, sympy.default_sort_key(side))))
    return condition


@lru_cache(1 << 10)
def condition_texts(condition: sympy.Basic) -> list[str]:
    """Return a condition in names of dims as Python text, as bounds if these are equivalent."""
    return _as_bounds(printed(condition))


@dataclass(frozen=True)
class SizePath:
    """One of several paths of forward: the sizes for which an If selects its graph.

    known: conditions that hold there, in `names`, which name the dims of the inputs by position. given: equal dims that
    operators require, which no check needs to mention.
    """

    known: tuple[sympy.Basic, ...] = ()
    names: Mapping[Place, str] = field(default_factory=dict)
    given: frozenset[sympy.Basic] = frozenset()

    @property
    def texts(self) -> list[str]:
        """Return the conditions as Python text."""
        return [text for c in self.known for text in condition_texts(c)]

    @property
    def text(self) -> str:
        """Return all conditions as one text, without those implied by others on the same dim."""
        left = self.texts
        for text in self.texts:
            others = [t for t in left if t != text]
            if _follows(text, others):
                left = others
        return " and ".join(f"({text})" for text in left) if len(left) > 1 else "".join(left)

    @cached_property
    def all_known(self) -> set[sympy.Basic]:
        """Return the known conditions, and those that follow for dims that equal a number or another dim."""
        found = set(self.known)
        for equal in self.known:
            if isinstance(equal, sympy.Eq):
                pairs = [(a, b) for a, b in (equal.args, equal.args[::-1]) if a.is_symbol and a not in b.free_symbols]
                found |= {in_order(c.xreplace({a: b})) for a, b in pairs for c in self.known if c is not equal}
        return found

    def settles(self, condition: sympy.Basic, least: int = 0) -> bool:
        """Return whether the condition holds for all sizes of this path that are at least `least`."""
        if condition in self.all_known or condition in self.given:
            return True
        return all(self.implies(text, least) for text in condition_texts(condition))

    def implies(self, text: str, least: int = 0) -> bool:
        """Return whether all sizes of this path from `least` on meet a condition; False for one on several dims.

        Every size is tried, as in `_as_bounds`.
        """
        return _follows(text, [t for c in self.all_known for t in condition_texts(c)], least)

    def seems_to_imply(self, text: str, least: int = 1) -> bool:
        """Return whether all sizes of this path from `least` on meet a condition, judging by small sizes."""
        known = [t for t in self.texts if names_in(t) & names_in(text)]
        names = sorted(names_in(text).union(*map(names_in, known)))
        if len(names) > _MOST_NAMES:
            return False
        for sizes in product(range(least, _SMALL), repeat=len(names)):
            found = dict(zip(names, sizes, strict=True))
            if broken_guards([text], found) and not broken_guards(known, found):
                return False
        return True

    def only_there(self, text: str) -> str:
        """Return a condition that requires `text` only for the sizes of this path."""
        return f"not ({self.text}) or ({text})" if self.known else text


def _with_words(text: str) -> str:
    """Return a condition with a readable explanation in brackets, if it helps: `h % 8 == 0 (h is a multiple of 8)`."""
    return text if in_words(text) == text else f"{text} ({in_words(text)})"


_SMALL, _MOST_NAMES = 10, 3


def _follows(text: str, known: Iterable[str], least: int = 0) -> bool:
    """Return whether all sizes from `least` on that meet the known conditions on a dim meet another condition on it."""
    names = names_in(text)
    about = [sizes_met(t) for t in known if names_in(t) == names] if len(names) == 1 else []
    if not about:
        return False
    return {size for size in frozenset.intersection(*about) if size >= least} <= sizes_met(text)


@lru_cache(1 << 10)
def sizes_met(text: str) -> frozenset[int]:
    """Return those of `SIZES` that meet a condition on one dim; an undefined result does not."""
    (name,) = names_in(text)
    return frozenset(size for size in SIZES if not broken_guards([text], {name: size}))


def printed(expression: sympy.Basic) -> str:
    """Return an expression of sizes as Python text."""
    try:
        return PythonPrinter().doprint(expression)
    except NotImplementedError:  # from a function that PyTorch itself does not print
        return str(expression)


_ONE_SIZE = "give numbers for the dims in --input, or rewrite that line so that it does not decide on sizes"


def _counted(program: ExportedProgram, dims: Dims) -> Iterable[str]:
    """Yield what forward knows about a dim because it split the dim into a counted number of pieces."""
    for length, each, count in unused_counts(program):
        length, each = (sympy.sympify(n if isinstance(n, int) else n.node.expr) for n in (length, each))
        if (length.free_symbols | each.free_symbols) <= set(dims.symbols):
            for condition in (length >= each * (count - 1) + 1, length <= each * count):
                yield printed(condition.xreplace(dims.symbols))


def _squeezed(program: ExportedProgram, dims: Dims) -> Iterable[str]:
    """Yield conditions of squeezes: a dim of length 1 would be dropped, so dims that are kept are longer."""
    for node in program.graph.nodes:
        name = getattr(schema_of(node.target), "name", "")
        if name not in ("aten::squeeze", "aten::squeeze_", "aten::squeeze_copy"):
            continue
        shape = node.args[0].meta["val"].shape
        asked = node.args[1] if len(node.args) > 1 else range(len(shape))
        for place in [asked] if isinstance(asked, int) else asked:
            if shape and not is_fixed(shape[place]) and shape[place].node.expr.free_symbols <= set(dims.symbols):
                yield f"{dims.name(shape[place].node.expr)} != 1"


def _cut(program: ExportedProgram, dims: Dims, bounds: Mapping[str, Sequence[int | None]]) -> Iterable[str]:
    """Yield conditions of slices with constant bounds: their length depends on whether a dynamic dim reaches the
    bounds.

    `x[-2:]` has 2 rows for a batch of 2 or more, and 1 row for a batch of 1. PyTorch records part of this in the bounds
    of the dim, and assumes 2 or more anyway.
    """
    for node in program.graph.nodes:
        name = getattr(schema_of(node.target), "name", "")
        if name not in ("aten::slice", "aten::slice_copy", "aten::narrow", "aten::narrow_copy"):
            continue
        given = dict(zip(("x", "dim", "start", "end", "step"), node.args, strict=False)) | node.kwargs
        place, start, end = given.get("dim") or 0, given.get("start") or 0, given.get("end")
        dim, kept = node.args[0].meta["val"].shape[place], node.meta["val"].shape[place]
        if is_fixed(dim) or not isinstance(start, int) or not isinstance(end, int | None):
            continue
        if not dim.node.expr.free_symbols <= set(dims.symbols):
            continue
        if "narrow" in name and isinstance(end, int):
            end = start + end if start >= 0 else None
        ends = [abs(n) for n in (start, end) if n is not None and abs(n) < 2**31 - 1]
        reached = max(ends, default=0)
        label = str(dims.name(dim.node.expr))
        low, high = bounds.get(label) or (None, None)
        if is_fixed(kept):
            low, high = _sizes_that_keep(int(kept), slice(start, end, given.get("step") or 1), reached, low, high)
        if reached > 1 and (low or 1) > 1:
            yield f"{label} >= {low}"
        if reached > 1 and high is not None:
            yield f"{label} <= {high}"


def _sizes_that_keep(
    kept: int, part: slice, reached: int, low: int | None, high: int | None
) -> tuple[int | None, int | None]:
    """Return the smallest and largest size for which `part` has length `kept`, around those that capture allows.

    A bound is None if all sizes on that side keep the length. Beyond twice the bounds of `part`, all sizes behave
    equally.
    """
    limit = 2 * reached + 2
    if limit > 2**16:
        return low, high
    fits = [len(range(size)[part]) == kept for size in range(limit + 1)]
    last = limit if high is None else min(high, limit)
    while last > (low or 1) and not fits[last]:
        last -= 1
    first = last
    while first > 1 and fits[first - 1]:
        first -= 1
    while last < limit and fits[last + 1]:
        last += 1
    return first, None if last == limit else last


def _as_bounds(text: str) -> list[str]:
    """Return a condition with fractions on one size as bounds, if it holds for a single range; else unchanged.

    Every size up to 4096 is tried, and powers of 2 beyond: `int(t * 0.5) > 2` is `t >= 6`.
    """
    names = names_in(text)
    if len(names) != 1 or not _FRACTIONS.search(text):
        return [text]
    (name,) = names
    try:
        fits = [size for size in SIZES if evaluate(text, {name: size})]
    except ValueError:
        return [text]
    low, high = (fits[0], fits[-1]) if fits else (0, -1)
    if not fits or len(fits) != len([s for s in SIZES if low <= s <= high]) or _TRIED <= high < SIZES[-1]:
        return [text]
    return [*([f"{name} >= {low}"] if low > 0 else []), *([f"{name} <= {high}"] if high < _TRIED else [])]


_TRIED = 4096
SIZES = (*range(_TRIED), *(2**k for k in range(12, 40)))
_FRACTIONS = re.compile(r"[^/]/[^/]|\d\.\d|\*\*|\b(math|torch)\.|\bround\(")


def names_in(text: str) -> set[str]:
    """Return the names of dims in a condition."""
    return set(_NAME.findall(re.sub(r"\b(math|torch)\.\w+", "", text))) - _FUNCTIONS


def _always_holds(text: str) -> bool:
    """Return whether all sizes up to 256 meet a condition on one size."""
    names = set(_NAME.findall(text)) - _FUNCTIONS
    if len(names) != 1:
        return False
    try:
        return all(evaluate(text, {name: size}) for name in names for size in range(257))
    except ValueError:
        return False


def _holds_within(text: str, bounds: Mapping[str, Sequence[int | None]]) -> bool:
    """Return whether every size within its bounds meets a condition on one size."""
    names = set(_NAME.findall(text)) - _FUNCTIONS
    low, high = bounds.get(next(iter(names), ""), (None, None)) if len(names) == 1 else (None, None)
    if low is None or high is None or high - low > _TRIED:
        return False
    try:
        return all(evaluate(text, {name: size}) for name in names for size in range(low, high + 1))
    except ValueError:
        return False


_OWN_SIZE = "_own_size"
Tie = tuple[tuple[torch.fx.Node, int], str, bool]
"""A dim of an input, its expression in names of other dims, and whether sizes from 1 on may violate the equation."""


def _dependent_dims(inputs: Sequence[torch.fx.Node], dims: Dims, way: SizePath) -> list[Tie]:
    """Return the dims that have the symbol of an earlier dim, an expression of symbols, or a fixed size on this path
    only.
    """
    seen: set[sympy.Expr] = set()
    found: list[Tie] = []
    for node in inputs:
        for i, dim in enumerate(node.meta["val"].shape):
            fact = dim_fact(dim, (node.name, i), dims, way.names)
            if fact is not None and way.settles(fact):
                continue
            is_told = fact is None or not way.settles(fact, 1)
            if is_fixed(dim):
                found += [((node, i), str(int(dim)), is_told)] if fact is not None else []
            elif dim.node.expr in seen or not dim.node.expr.is_symbol:
                found.append(((node, i), printed(dim.node.expr.xreplace(dims.symbols)), is_told))
            elif not is_fixed(dim):
                seen.add(dim.node.expr)
    return found


def dim_fact(dim: int | torch.SymInt, place: Place, dims: Dims, names: Mapping[Place, str]) -> sympy.Basic | None:
    """Return the equation by which a capture fixes a dim with its own name in `names`: to a number, or to another dim.

    None if there is no such equation.
    """
    if place not in names:
        return None
    own = sympy.Symbol(names[place], integer=True, positive=True)
    fact = sympy.Integer(dim) if isinstance(dim, int) else dim.node.expr.xreplace(dims.symbols)
    return None if fact == own else in_order(sympy.Eq(own, fact))


def _depends(value: ir.Value, on: set[int]) -> bool:
    """Return whether one of the values with the ids `on` is needed for `value`."""
    seen: set[int] = set()
    left = [value]
    while left:
        current = left.pop()
        if id(current) in on:
            return True
        node = current.producer()
        if node is None or id(node) in seen:
            continue
        seen.add(id(node))
        left += _read(node)
    return False


def _read(node: ir.Node) -> list[ir.Value]:
    """Return the values that a node reads, including in its subgraphs."""
    found = [v for v in node.inputs if v is not None]
    for attribute in node.attributes.values():
        if attribute.type == ir.AttributeType.GRAPH:
            for inner in attribute.as_graph():
                found += _read(inner)
    return found
