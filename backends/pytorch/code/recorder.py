"""Records what the rules call, function by function, on tensors that have dims but no content."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import Any

import numpy as np
import sympy
import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode, resolve_name

from convert.errors import Unsupported

from .. import torch_internals
from ..torch_internals import TLS, DisableTorchFunction, check
from .program import Assign, Break, Call, If, Literal, Loop, Size, Statement, Value, read_by

_SCALARS = (torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.int8, torch.int16, torch.int32,
            torch.int64, torch.uint8, torch.bool)  # fmt: skip
_HIGHER = {getattr(torch.ops.higher_order, name): name for name in ("while_loop", "scan", "cond")}
_TRIALS = 4
"""Maximum number of runs of a loop's body until the dims of its tensors no longer change."""


class Sizes(torch_internals.Sizes):
    """Sizes as symbols.

    If a function of PyTorch asks about a size, no guard is needed, because the function asks again at run time. If a
    rule asks, or a function fixes a size to the example's number, a guard is recorded.
    """

    def on_guard(self, prefix: str, guard: Any) -> None:
        """Record a guard by which a function fixed a size to a number."""
        # Divisibility does not fix a size.
        whole = isinstance(guard, sympy.Eq) and not any("Mod" in type(side).__name__ for side in guard.args)
        if "suppressed" in prefix and whole and any(side.is_number for side in guard.args):
            self.taken.append(guard)

    def guard_or_defer_runtime_assert(self, *args: Any, **kwargs: Any) -> bool:  # type: ignore[override]
        """Keep facts that functions state about run-time sizes, because later functions need them."""
        with self._unsuppressed():
            return super().guard_or_defer_runtime_assert(*args, **kwargs)

    @contextmanager
    def _unsuppressed(self) -> Iterator[None]:
        before, TLS.suppress_guards = self.suppresses_guards(), False
        try:
            yield
        finally:
            TLS.suppress_guards = before

    @cached_property
    def taken(self) -> list[sympy.Eq]:
        """Conditions by which functions fixed sizes to numbers."""
        return []


class Recorder(TorchFunctionMode):
    """A mode that records every PyTorch function on tensors as a `Call` in the current block."""

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.sizes = sizes
        self.block: list[Statement] = []
        self.path: tuple[str, ...] = ()
        self._values: dict[int, Value] = {}
        self._symbols: dict[Any, Value] = {}

    # -- values -------------------------------------------------------------------------------------------------------

    def hold(self, value: Value) -> Value:
        """Register a value under its tensor or its symbol."""
        if isinstance(value.fake, (torch.SymInt, torch.SymFloat, torch.SymBool)):
            self._symbols[value.fake.node.expr] = value
        else:
            self._values[id(value.fake)] = value
        return value

    def value(self, tensor: Tensor) -> Value:
        """Return the value of a tensor. A tensor that was not recorded becomes a constant."""
        found = self._values.get(id(tensor))
        if found is None:
            raise Unsupported("a tensor that is made outside of the graph")
        return found

    def symbol(self, symbol: Any) -> Value | None:
        """Return the run-time int with this symbol, or None."""
        return self._symbols.get(symbol)

    @property
    def symbols(self) -> dict[Any, Value]:
        """The run-time ints by their symbols."""
        return self._symbols

    def literal(self, array: np.ndarray, dtype: torch.dtype) -> Tensor:
        """Return a small constant as a tensor."""
        fake = torch.empty(array.shape, dtype=dtype)
        number = array.item() if array.ndim == 0 and dtype in _SCALARS else None
        if number is not None and dtype.is_floating_point:
            number = float(number)
        self.hold(Literal(fake, array=array, number=number))
        return fake

    # -- calls --------------------------------------------------------------------------------------------------------

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func in _HIGHER:
            with self:
                return getattr(self, f"_{_HIGHER[func]}")(*args, **kwargs)
        made = self._as_literal(func, args, kwargs)
        if made is not None:
            return made
        with self.sizes.suppress_guards():
            out = func(*args, **kwargs)
        return self.record(resolve_name(func) or "", args, kwargs, out, func)

    def record(self, target: str, args: Sequence[Any], kwargs: dict[str, Any], out: Any, function: Any = None) -> Any:
        """Record a call that returned `out`. Results that are neither tensors nor run-time numbers are left out."""
        several = isinstance(out, (tuple, list)) and not isinstance(out, torch.Size)
        parts = list(out) if several else [out]
        is_number = target.endswith((".item", ".tolist"))
        new = [
            p for p in parts if (isinstance(p, Tensor) and id(p) not in self._values) or (is_number and _is_symbol(p))
        ]
        if not new or (is_number and not any(_is_symbol(p) for p in parts)):
            return out
        call = Call(target, self._tree(args), self._tree(kwargs), [], function, several, path=self.path)
        for part in parts:
            known = self._values.get(id(part))
            call.outputs.append(Value(part) if known is not None else self.hold(Value(part)))
        self.block.append(call)
        return out

    def _tree(self, tree: Any) -> Any:
        """Return an argument with values in place of tensors, and sizes in place of symbols."""
        if isinstance(tree, Tensor):
            return self.value(tree)
        if _is_symbol(tree):
            return Size(tree.node.expr)
        if isinstance(tree, torch.Size):
            return [self._tree(n) for n in tree]
        if isinstance(tree, (list, tuple)):
            return type(tree)(self._tree(item) for item in tree)
        if isinstance(tree, dict):
            return {key: self._tree(item) for key, item in tree.items()}
        if isinstance(tree, slice):
            return slice(*(self._tree(item) for item in (tree.start, tree.stop, tree.step)))
        return tree

    def _as_literal(self, func: Any, args: Any, kwargs: Any) -> Any:
        """Return a scalar that is created from a number (`torch.full((), 0.5)`, `torch.scalar_tensor(n)`), else
        None.
        """
        name = getattr(func, "__name__", "")
        if name == "scalar_tensor" and func is torch.scalar_tensor:
            number = args[0]
        elif func is torch.full and len(args) > 1 and isinstance(args[0], (tuple, list)) and not len(args[0]):
            number = args[1]
        elif func in (torch.zeros, torch.ones) and args and isinstance(args[0], (tuple, list)) and not len(args[0]):
            number = int(func is torch.ones)
        else:
            return None
        if isinstance(number, Tensor):
            return None
        out = func(*args, **kwargs)
        if out.dtype not in _SCALARS:
            return None
        if _is_symbol(number):
            self.hold(Literal(out, number=Size(number.node.expr)))
        else:
            kind = bool if out.dtype == torch.bool else float if out.dtype.is_floating_point else int
            self.hold(Literal(out, number=kind(number)))
        return out

    # -- branches and loops -------------------------------------------------------------------------------------------

    @contextmanager
    def nested(self) -> Iterator[list[Statement]]:
        """Record into a nested block, which is yielded."""
        outer, self.block = self.block, []
        try:
            yield self.block
        finally:
            self.block = outer

    @contextmanager
    def unrecorded(self) -> Iterator[None]:
        """Run PyTorch for dims only, without recording."""
        with self.nested(), DisableTorchFunction():
            yield

    def fresh(self, like: Tensor, dims: Sequence[Any] | None = None) -> Tensor:
        """Return a new tensor with the dtype of `like` and its dims, or `dims`."""
        with self.unrecorded():
            made = torch.empty(list(like.shape) if dims is None else list(dims), dtype=like.dtype)
        self.hold(Value(made))
        return made

    def new_size(self) -> torch.SymInt:
        """Return a new size that is known at run time only."""
        with self.unrecorded():
            size: Any = torch.zeros((), dtype=torch.int64).item()
            check(size >= 0)
        return size

    def merged(self, x: Tensor, y: Tensor) -> Tensor:
        """Return a tensor that represents one of two tensors. Raises `Unsupported` if they differ in rank."""
        if x.dim() != y.dim():
            raise Unsupported("branches whose results differ in rank")
        return self.fresh(x, [m if _is_same(m, n) else self.new_size() for m, n in zip(x.shape, y.shape, strict=True)])

    def branch(self, condition: Tensor, then: Callable[[], list[Tensor]], other: Callable[[], list[Tensor]]) -> Any:
        """Record `if condition:` with the calls of both functions, and return the tensors that either branch
        returns.
        """
        found, blocks = [], []
        for function in (then, other):
            with self.nested() as block:
                found.append([self._own(t) for t in function()])
            blocks.append(block)
        merged = [self.merged(x, y) for x, y in zip(*found, strict=True)]
        outputs = [self.value(t) for t in merged]
        for block, tensors in zip(blocks, found, strict=True):
            block.append(Assign(outputs, [self.value(t) for t in tensors], path=self.path))
        yes, no = blocks
        self.block.append(If(self.value(condition), yes, no, outputs, path=self.path))
        return merged

    def _own(self, x: Any) -> Tensor:
        if not isinstance(x, Tensor):
            raise Unsupported("a sequence or an optional in a branch or loop that only the run decides")
        return x

    def loop(
        self, count: Any, start: Sequence[Tensor], body: Callable[..., tuple[Any, Sequence[Tensor]]], first: Any = None
    ) -> list[Tensor]:
        """Record `for i in range(count):` around `body(i, *carried) -> (goes on, carried)`.

        Returns the tensors after the last iteration. count: a number, a symbol, or None for a loop that ends by itself.
        first: a tensor that says whether there is a first iteration. Without it, each iteration starts with `body`, and
        the tensor `goes on` that it returns ends the loop.
        """
        with self.unrecorded():
            counter = None if count is None else self.new_size()
        dims: list[Sequence[Any]] = [list(x.shape) for x in start]
        for _ in range(_TRIALS):
            carried = [self.fresh(x, d) for x, d in zip(start, dims, strict=True)]
            own = Value(counter)
            if counter is not None:
                self.hold(own)
            with self.nested() as block:
                goes, after = body(counter, *carried)
                after = [self._own(y) for y in after]
            found = [self._widened(d, y) for d, y in zip(dims, after, strict=True)]
            if all(_is_same(m, n) for a, b in zip(dims, found, strict=True) for m, n in zip(a, b, strict=True)):
                break
            dims = found
        else:
            raise Unsupported("a loop whose tensors change their dims in a way that does not come to an end")
        outputs = [self.value(x) for x in carried]
        block.append(Assign(outputs, [self.value(y) for y in after], path=self.path))
        if goes is not None:
            block.append(Break(self.value(goes), path=self.path))
        self.block.append(Assign(outputs, [self.value(x) for x in start], path=self.path))
        counted = self._tree(count)
        statement = Loop(own if counter is not None else None, counted, block, outputs, path=self.path)
        if first is not None:
            nothing = If(self.value(first), [statement], [], outputs, path=self.path)
            self.block.append(nothing)
        else:
            self.block.append(statement)
        return carried

    def _widened(self, dims: Sequence[Any], y: Tensor) -> Sequence[Any]:
        """Return dims that are valid before and after an iteration; dims that change become run-time sizes."""
        if len(dims) != y.dim():
            raise Unsupported("a loop whose tensors change their rank between iterations")
        return [m if _is_same(m, n) or _is_own(m) else self.new_size() for m, n in zip(dims, y.shape, strict=True)]

    def _cond(self, condition: Tensor, then: Any, other: Any, operands: Any = ()) -> Any:
        return tuple(self.branch(condition, lambda: list(then(*operands)), lambda: list(other(*operands))))

    def _while_loop(self, more: Any, step: Any, start: Any, operands: Any = ()) -> Any:
        def body(i: Any, *carried: Tensor) -> Any:
            self.block.append(Break(self.value(more(*carried, *operands)), path=self.path))
            return None, list(step(*carried, *operands))

        return tuple(self.loop(None, list(start), body))

    def _scan(self, step: Any, start: Any, scanned: Any, operands: Any = ()) -> Any:
        made = len(start)
        rows: list[Any] = []

        def body(i: Any, *carried: Tensor) -> Any:
            found = list(step(*carried, *(self.select(x, 0, i) for x in scanned), *operands))
            rows[:] = [self.append(y) for y in found[made:]]
            return None, found[:made]

        after = self.loop(scanned[0].shape[0], list(start), body)
        return (*after, *(self.stacked(r, scanned[0].shape[0]) for r in rows))

    def select(self, x: Tensor, axis: int, i: Any) -> Tensor:
        """Return the slice at index `i` of an axis, where `i` is a loop counter."""
        dims = [n for a, n in enumerate(x.shape) if a != axis]
        with self.unrecorded():
            made = torch.empty(dims, dtype=x.dtype)
        place = (x, axis, i) if axis else (x, i)
        return self.record("torch.Tensor.select" if axis else "torch.Tensor.__getitem__", place, {}, made)

    def append(self, row: Tensor) -> tuple[Value, Tensor]:
        """Append a result of the iteration to a list that is created before the loop. Returns the list and the row."""
        kept = Value(None)
        self.block.append(Call("append", [kept, self.value(row)], {}, [], path=self.path))
        return kept, row

    def stacked(self, rows: tuple[Value, Tensor], count: Any, *, backwards: bool = False) -> Tensor:
        """Return the collected rows as one tensor."""
        kept, row = rows
        loop = next(i for i, statement in enumerate(self.block) if kept in read_by(statement))
        self.block.insert(loop, Call("list", [], {}, [kept], path=self.path))
        with self.unrecorded():
            made = torch.empty([count, *row.shape], dtype=row.dtype)
        dims = self._tree(row.shape)
        self.block.append(
            Call("stack", [kept, dims, row.dtype, backwards], {}, [self.hold(Value(made))], path=self.path)
        )
        return made


def _is_symbol(x: Any) -> bool:
    return isinstance(x, (torch.SymInt, torch.SymFloat, torch.SymBool))


def _is_own(n: Any) -> bool:
    """Return whether a size is a run-time symbol."""
    return isinstance(n, torch.SymInt) and str(n.node.expr).startswith("u")


def _is_same(m: Any, n: Any) -> bool:
    if isinstance(m, int) and isinstance(n, int):
        return m == n
    one, other = (x.node.expr if isinstance(x, torch.SymInt) else x for x in (m, n))
    return bool(one == other)
