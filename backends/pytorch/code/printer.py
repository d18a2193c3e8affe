"""Prints the statements of one function."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

import torch

from . import expressions as py
from .expressions import ATOM, INFIX, REVERSED, UNARY, grouped, infix, plain, slot
from .modules import number_of
from .program import (
    Assign,
    Break,
    Call,
    ForEach,
    If,
    Literal,
    Loop,
    Size,
    Statement,
    Value,
    leaves,
    own_values_read,
    read_by,
    values_read,
)
from .scope import Scope, identifier, unique

_DOUBLE = (torch.float64, torch.complex128)
_FACTORIES = {"arange", "zeros", "ones", "full", "eye", "rand", "randn", "empty", "scalar_tensor", "tensor"}
_SPLAT = {"reshape", "permute", "expand", "repeat", "view"}
_WIDTH = 116
_INLINE = 72


class Printer:
    """Prints the lines of one function; `device` is the code of the device on which tensors are created."""

    def __init__(self, scope: Scope, device: str) -> None:
        self.scope = scope
        self.device = device
        self.single = True
        """Whether the numbers in the current call are float32 or narrower."""

    # -- expressions --------------------------------------------------------------------------------------------------

    def text(self, x: Any) -> str:
        """Return the code of an argument."""
        return self.expression(x)[0]

    def expression(self, x: Any) -> tuple[str, float]:
        match x:
            case Literal():
                return self._literal(x)
            case Value():
                return self.scope.value(x)
            case Size():
                return self.scope.size(x)
            case bool() | None:
                return str(x), ATOM
            case int():
                return slot("size", x), ATOM if x >= 0 else 8
            case float() | complex():
                return py.number(x, single=self.single), ATOM if x == x and not (isinstance(x, float) and x < 0) else 8
            case str():
                return repr(x), ATOM
            case torch.dtype():
                return py.dtype(x), ATOM
            case torch.memory_format():
                return str(x), ATOM
            case slice():
                return f"slice({', '.join(self.text(v) for v in (x.start, x.stop, x.step))})", ATOM
            case list():
                return f"[{', '.join(map(self.text, x))}]", ATOM
            case tuple():
                inner = ", ".join(map(self.text, x))
                return f"({inner}{',' if len(x) == 1 else ''})", ATOM
            case torch.device():
                return repr(str(x)), ATOM
        if x is Ellipsis:
            return "...", ATOM
        raise NotImplementedError(f"{type(x).__name__} as an argument")

    def _literal(self, x: Literal) -> tuple[str, float]:
        """Return a small constant as a tensor."""
        dtype = x.fake.dtype
        shown = self._number(x)[0] if x.array is None else py.content(x.array, single=dtype not in _DOUBLE)
        usual = torch.float32 if dtype.is_floating_point else torch.bool if dtype == torch.bool else torch.int64
        more = "" if dtype == usual and (dtype != torch.float32 or "." in shown) else f", dtype={py.dtype(dtype)}"
        if x.array is not None and x.array.size == 0:
            return f"torch.zeros({list(x.array.shape)}, dtype={py.dtype(dtype)}{self._on()})", ATOM
        return f"torch.tensor({shown}{more}{self._on()})", ATOM

    def _on(self) -> str:
        return f", device={self.device}" if self.device else ""

    def _number(self, x: Literal) -> tuple[str, float]:
        if isinstance(x.number, Size):
            return self.scope.size(x.number)
        negative = x.number is not True and x.number is not False and not (x.number >= 0 or x.number != x.number)
        return py.number(x.number, single=x.fake.dtype not in _DOUBLE), 8 if negative else ATOM

    def _operand(self, x: Any, other: Any) -> tuple[str, float]:
        """Return the code of an operand; a scalar is a number if the other operand has its dtype."""
        if isinstance(x, Literal) and x.number is not None and x.fake.dtype != torch.bool and _is_like(other, x):
            return self._number(x)
        return self.expression(x)

    # -- calls --------------------------------------------------------------------------------------------------------

    def call(self, call: Call) -> tuple[str, float]:
        """Return the code of a call, and its precedence."""
        target, args, kwargs = call.target, list(call.args), call.kwargs
        self.single = not any(
            _dtype(x) in _DOUBLE for x in leaves((args, kwargs, call.outputs)) if isinstance(x, Value)
        )
        if target in ("layer", "module"):
            return f"{self.scope.attribute(args[0])}({self._arguments(args[1:], {})})", ATOM
        if target == "list":
            return "[]", ATOM
        if target == "append":
            return f"{self.text(args[0])}.append({self.text(args[1])})", ATOM
        if target == "stack":
            return self._stack(*args)
        name = target.rpartition(".")[2]
        if target.endswith(".__get__"):
            return f"{grouped(*self.expression(args[0]), ATOM)}.{target.split('.')[-2]}", ATOM
        if name == "__getitem__":
            return f"{grouped(*self.expression(args[0]), ATOM)}[{self._index(args[1])}]", ATOM
        if name in UNARY and len(args) == 1:
            return UNARY[name] + grouped(*self.expression(args[0]), 8), 8
        if name in INFIX and len(args) == 2 and not kwargs and target.startswith(("torch.Tensor.", "torch.")):
            return infix(*INFIX[name], self._operand(args[0], args[1]), self._operand(args[1], args[0]))
        if name in REVERSED and len(args) == 2 and not kwargs:
            return infix(*REVERSED[name], self._operand(args[1], args[0]), self._operand(args[0], args[1]))
        if name in ("maximum", "minimum") and len(args) == 2 and not kwargs:
            bounded = self._clamped(name, args)
            if bounded is not None:
                return bounded, ATOM
        if name == "where" and len(args) == 3:
            first, second = self._operand(args[1], args[2])[0], self._operand(args[2], args[1])[0]
            return f"torch.where({self.text(args[0])}, {first}, {second})", ATOM
        if target.startswith("torch.Tensor."):
            if name in _SPLAT and len(args) == 2 and isinstance(args[1], (list, tuple)) and len(args[1]):
                args = [args[0], *args[1]]
            return f"{grouped(*self.expression(args[0]), ATOM)}.{name}({self._arguments(args[1:], kwargs)})", ATOM
        if name in _FACTORIES and self.device:
            return f"{_function(target)}({self._arguments(args, kwargs)}{self._on()})", ATOM
        return f"{_function(target)}({self._arguments(args, kwargs)})", ATOM

    def _arguments(self, args: Sequence[Any], kwargs: dict[str, Any]) -> str:
        return ", ".join([*map(self.text, args), *(f"{k}={self.text(v)}" for k, v in kwargs.items())])

    def _clamped(self, name: str, args: Sequence[Any]) -> str | None:
        """Return the code of the maximum or minimum of a tensor and a number; None if it is no such call."""
        x, bound = args
        if isinstance(x, Literal):
            x, bound = bound, x
        if not isinstance(bound, Literal) or bound.number is None or not _is_like(x, bound):
            return None
        return f"torch.clamp({self.text(x)}, {'min' if name == 'maximum' else 'max'}={self._number(bound)[0]})"

    def _index(self, index: Any) -> str:
        parts = list(index) if isinstance(index, tuple) else [index]
        while len(parts) > 1 and parts[-1] == slice(None) and not any(p is Ellipsis for p in parts):
            parts.pop()
        shown = []
        for part in parts:
            if isinstance(part, slice):
                start = None if type(part.start) is int and part.start == 0 else part.start
                ends = ["" if v is None else self.text(v) for v in (start, part.stop)]
                shown.append(":".join(ends) + ("" if part.step in (None, 1) else f":{self.text(part.step)}"))
            else:
                shown.append(self.text(part))
        return ", ".join(shown) if shown else "()"

    def _stack(self, rows: Value, dims: Sequence[Any], dtype: torch.dtype, backwards: bool) -> tuple[str, float]:
        name = self.text(rows)
        whole = f"torch.stack({name}[::-1])" if backwards else f"torch.stack({name})"
        try:
            empty = ", ".join(["0", *map(self.text, dims)])
        except KeyError:  # a size that exists only inside the loop
            return whole, ATOM
        return f"{whole} if {name} else torch.zeros({empty}, dtype={py.dtype(dtype)}{self._on()})", 1

    # -- statements ---------------------------------------------------------------------------------------------------

    def lines(self, block: Sequence[Statement], *, wanted: Sequence[Any] = ()) -> list[str]:
        """Return the lines of a block; `wanted` are the values that are read after it."""
        symbols = self.scope.symbols
        block = rolled(block, self.scope.lists, wanted)
        counts = Counter(x for s in block for x in values_read(s, symbols))
        counts.update(x for x in leaves(list(wanted)) if isinstance(x, Value))
        own = Counter(x for s in block if not isinstance(s, Break) for x in own_values_read(s, symbols))
        found: list[str] = []
        for statement in block:
            found += self._statement(statement, counts, own, set(wanted))
        return found or ["pass"]

    def _statement(self, statement: Statement, counts: Any, own: Any, wanted: set[Any]) -> list[str]:
        match statement:
            case Call():
                return self._call_lines(statement, counts, own, wanted)
            case Assign():
                for v in statement.outputs:
                    self.scope.names.get(v) or self.scope.add(v)
                pairs = [
                    (self.scope.names[v], self.text(x))
                    for v, x in zip(statement.outputs, statement.values, strict=True)
                ]
                pairs = [(name, text) for name, text in pairs if name != text]
                if not pairs:
                    return []
                return [f"{', '.join(n for n, _ in pairs)} = {', '.join(t for _, t in pairs)}"]
            case Break():
                return [f"if not {grouped(*self.expression(statement.condition), 2)}:", "    break"]
            case If():
                for v in statement.outputs:
                    self.scope.add(v)
                lines = [f"if {self.text(statement.condition)}:", *_indented(self._inner(statement.then))]
                other = self._inner(statement.other)
                return lines if other == ["pass"] else [*lines, "else:", *_indented(other)]
            case Loop():
                return self._loop(statement)
            case ForEach():
                return self._for_each(statement)
        raise NotImplementedError(type(statement).__name__)

    def _inner(self, block: Sequence[Statement]) -> list[str]:
        kept = list(self.scope.tensors)
        found = self.lines(block)
        self.scope.tensors[:] = kept
        return found

    def _loop(self, loop: Loop) -> list[str]:
        head = "while True:"
        if loop.counter is not None:
            read = any(x is loop.counter or _has(x, loop.counter) for s in loop.block for x in read_by(s))
            name = self.scope.add(loop.counter, "i") if read else "_"
            limit = 2**63 - 1
            head = (
                f"for {name} in itertools.count():"
                if loop.count == limit
                else f"for {name} in range({self.text(loop.count)}):"
            )
        if loop.counter is None and isinstance(loop.block[-1], Assign):
            ends = [(place, s.condition) for place, s in enumerate(loop.block) if isinstance(s, Break)]
            if len(ends) == 1 and ends[0][0] <= 2:  # a condition that is a single expression
                (place, asked), kept = ends[0], list(self.scope.tensors)
                before = self.lines(loop.block[:place], wanted=[asked])
                condition = self.expression(asked)
                if before == ["pass"]:
                    body = self.lines(loop.block[place + 1 :])
                    self.scope.tensors[:] = kept
                    return [f"while {condition[0]}:", *_indented(body)]
                self.scope.tensors[:] = kept
        return [head, *_indented(self._inner(loop.block))]

    def _for_each(self, loop: ForEach) -> list[str]:
        first = loop.calls[0]
        listed = first.args[0][:-1]
        start = self.text(first.args[1 + loop.place])
        name = self.scope.add(loop.outputs[0], "x")
        item = unique(identifier(re.sub(r"s$", "", listed[-1])) or "layer", self.scope.used)
        given = [name if i == loop.place else self.text(a) for i, a in enumerate(first.args[1:])]
        before = [] if start == name else [f"{name} = {start}"]
        return [*before, f"for {item} in {self.scope.attribute(listed)}:", f"    {name} = {item}({', '.join(given)})"]

    def _call_lines(self, call: Call, counts: Any, own: Any, wanted: set[Any]) -> list[str]:
        code, binds = self.call(call)
        if not call.outputs:
            return [code]
        if call.several or len(call.outputs) > 1:
            names = [self.scope.add(v, _hint(call)) if counts[v] else "_" for v in call.outputs]
            if call.states:
                rest = names[1] if len(names) == 2 else "_" if set(names[1:]) == {"_"} else f"({', '.join(names[1:])})"
                return [f"{names[0]}, {rest} = {code}"]
            ends = "," if len(names) == 1 else ""
            return [f"{', '.join(names)}{ends} = {code}"]
        value = call.outputs[0]
        inline = counts[value] == 1 and own[value] == 1 and not value.name and len(plain(code)) <= _INLINE
        inline = inline and call.target not in ("list", "append") and value not in wanted
        if inline:
            self.scope.pending[value] = (code, binds)
            return []
        return [f"{self.scope.add(value, _hint(call))} = {code}"]


def rolled(block: Sequence[Statement], lists: Any, wanted: Sequence[Any]) -> list[Statement]:
    """Return the block with consecutive calls of all modules of a list joined into one `ForEach`.

    Each module must get the result of the one before it.
    """
    reads = Counter(x for s in block for x in read_by(s) if isinstance(x, Value))
    reads.update(x for x in leaves(list(wanted)) if isinstance(x, Value))
    found: list[Statement] = []
    i = 0
    while i < len(block):
        run = [block[i]]
        while i + len(run) < len(block) and _follows(run[-1], block[i + len(run)]):
            run.append(block[i + len(run)])
        whole = _for_each(run, reads, lists) if len(run) > 1 else None
        found += [whole] if whole is not None else run
        i += len(run)
    return found


def _follows(one: Statement, other: Statement) -> bool:
    """Return whether two calls are calls of consecutive modules of a list."""
    if (
        not isinstance(one, Call)
        or not isinstance(other, Call)
        or not {one.target, other.target} <= {"layer", "module"}
    ):
        return False
    a, b = one.args[0], other.args[0]
    before, number = number_of(a[-1]), number_of(b[-1])
    return a[:-1] == b[:-1] and before is not None and number == before + 1


def _for_each(run: Sequence[Any], reads: Any, lists: Any) -> ForEach | None:
    path = run[0].args[0]
    if path[:-1] not in lists or path[-1] != "0" or any(len(c.outputs) != 1 or c.several for c in run):
        return None
    if lists[path[:-1]] != len(run) or len({len(c.args) for c in run}) > 1:
        return None
    places = [i for i, x in enumerate(run[1].args[1:]) if x is run[0].outputs[0]]
    if len(places) != 1:
        return None
    place = places[0]
    for before, call in itertools.pairwise(run):
        given = list(call.args[1:])
        if given.pop(place) is not before.outputs[0] or reads[before.outputs[0]] != 1:
            return None
        if given != [a for i, a in enumerate(run[0].args[1:]) if i != place]:
            return None
    return ForEach(list(run), place, run[-1].outputs, path=run[0].path)


def _has(x: Any, counter: Value) -> bool:
    return isinstance(x, Size) and counter.fake.node.expr in x.expression.free_symbols


def _is_like(x: Any, literal: Literal) -> bool:
    """Return whether a Python number can replace the constant next to x: x is a tensor of the same dtype."""
    return isinstance(x, Value) and not isinstance(x, Literal) and _dtype(x) == literal.fake.dtype


def _dtype(x: Value) -> Any:
    return x.fake.dtype if isinstance(x.fake, torch.Tensor) else None


def _function(target: str) -> str:
    """Return the name of a function in code: `F.relu`, `torch.cat`."""
    if target.startswith("torch.nn.functional."):
        return f"F.{target.removeprefix('torch.nn.functional.')}"
    return target.replace("torch.functional.", "torch.")


def _hint(call: Call) -> str:
    name = call.target.rpartition(".")[2]
    if call.target in ("layer", "module"):
        return next((p for p in reversed(call.args[0]) if not p.isdigit()), "x")
    return {"__getitem__": "x", "__get__": "x", "stack": "rows", "list": "rows", "tolist": "n", "item": "n"}.get(
        name, name.strip("_")
    )


def _indented(lines: Sequence[str]) -> list[str]:
    return [f"    {line}" if line else line for line in lines]
