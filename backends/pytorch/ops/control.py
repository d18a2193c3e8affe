"""Control flow as `torch.cond`, `while_loop` and `scan`, or inlined if the branch or the iterations are known."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx_ir as ir
import torch

from convert.errors import Unsupported
from convert.graph.values import known_dims

from ..common import own_tensor
from ..dtypes import torch_dtype
from ..rules import host, onnx_op
from ..torch_internals import check
from ..values import Known

_MOST = 512
"""Maximum number of loop iterations that are unrolled."""

_NESTED = onnx_op.limit("Loop", "a sequence or an optional in a branch or loop that only the run decides")


_RANKS = onnx_op.limit(
    "If", "branches that only the run decides between, whose results differ in rank, or in a size that is 1 in one"
)


@onnx_op("If")
@host("cond")
def if_(t, cond, *, then_branch, else_branch):
    known = t.static(cond)
    if known is not None:
        return tuple((then_branch if known.all() else else_branch)())
    if any(isinstance(v.type, ir.OptionalType) for v in then_branch.graph.outputs):
        raise Unsupported(_NESTED)
    lengths: list[list[int | None]] = []
    shapes: list[list[Sequence[Any]]] = []
    # A tensor that both branches use is one operand: PyTorch names arguments after tensors, and names must be unique.
    operands = {id(x): x for branch in (then_branch, else_branch) for x in branch.operands.values()}

    def function(branch: Any) -> Any:
        places = [list(operands).index(id(x)) for x in branch.operands.values()]

        def run(*given: Any) -> Any:
            found = branch.with_operands((), [given[i] for i in places])
            lengths.append([len(y) if isinstance(y, list) else None for y in found])
            if len(lengths) > 1 and lengths[0] != lengths[-1]:
                raise Unsupported(_NESTED)
            flat = [(y, v) for value, v in zip(found, t.node.outputs, strict=True) for y in _items(value)]
            shapes.append([y.shape for y, _ in flat])
            return tuple(_plainly_strided(y.to(torch_dtype(v.dtype))) for y, v in flat)

        return run

    try:
        both = function(then_branch), function(else_branch)
        flat = iter(torch.ops.higher_order.cond(cond.reshape(()), *both, tuple(operands.values())))
        if len(shapes) > 1 and any(v.uses() for v in t.node.outputs) and any(map(_may_be_one, *shapes[:2])):
            raise Unsupported(_RANKS)
        return tuple(next(flat) if n is None else [next(flat) for _ in range(n)] for n in lengths[0])
    except RuntimeError as error:
        if "expected same dim" in str(error):
            raise Unsupported(_RANKS) from error
        raise
    except KeyError as error:  # PyTorch looks up a size that comes from inside a branch
        raise Unsupported("branches that only the run decides between, of a size that one of them computes") from error


def _plainly_strided(y: torch.Tensor) -> torch.Tensor:
    """Return the tensor with strides that are products of its sizes.

    PyTorch writes a stride over a size that may be 0, such as a pool's, with a maximum, and rejects such a result of a
    branch.
    """
    strides: list[Any] = [1]
    for n in reversed(y.shape[1:]):
        strides.insert(0, n * strides[0])
    if y.dim() == 0 or all(map(_is_same_size, y.stride(), strides)):
        return y
    plain = y.contiguous()
    return plain if all(map(_is_same_size, plain.stride(), strides)) else plain.as_strided(plain.shape, strides)


def _is_same_size(a: Any, b: Any) -> bool:
    a, b = (n.node.expr if isinstance(n, torch.SymInt) else n for n in (a, b))
    return bool(a == b)


def _may_be_one(first: Sequence[Any], second: Sequence[Any]) -> bool:
    """Return whether a dim is 1 in one branch only; later code would treat it as not being 1."""
    return any(_is_one(a) is not _is_one(b) for a, b in zip(first, second, strict=True))


def _is_one(n: Any) -> bool:
    return isinstance(n, int) and n == 1


def _items(value: Any) -> Any:
    return value if isinstance(value, list) else [value]


@onnx_op("Loop")
@host("*", "M", "cond")
def loop(t, M, cond, *carried, body):
    most = t.static(M) if M is not None else None
    first = np.array(True) if cond is None else t.static(cond)
    if most is not None and first is not None and int(most.ravel()[0]) <= _MOST:
        found = _unrolled(t, int(most.ravel()[0]) if first.all() else 0, carried, body)
        if found is not None:
            return found
    return _while(t, M, cond, carried, body)


def _unrolled(t: Any, rounds: Any, carried: Any, body: Any) -> Any:
    """Run the iterations one after the other while their condition is constant; return None if it is not."""
    count, values, rows = len(carried), list(carried), []
    for i in range(rounds):
        going, *results = body(Known(np.array(i, np.int64)), Known(np.array(True)), *values)
        values = results[:count]
        rows.append([t.tensor(y) for y in results[count:]])
        alive = t.static(going)
        if alive is None:
            return None
        if not alive.all():
            break
    if rows:
        return (*values, *(torch.stack(column) for column in zip(*rows, strict=True)))
    empty = (torch.zeros([0, *_dims(v, 0)], dtype=torch_dtype(v.dtype)) for v in body.graph.outputs[1 + count :])
    return (*values, *empty)


def _rows(most: Any, row: Any) -> Any:
    """Return an empty buffer for the rows that a loop collects; all rows have the same shape."""
    return torch.zeros([most, *row.shape], dtype=row.dtype)


def _dims(value: Any, unknown: Any) -> Any:
    dims = known_dims(value)
    if dims is None:
        raise Unsupported("a loop that collects tensors of unknown rank")
    return [d if isinstance(d, int) else unknown for d in dims]


def _while(t: Any, M: Any, cond: Any, carried: Any, body: Any) -> Any:
    if any(isinstance(x, list) or x is None for x in carried):
        raise Unsupported(_NESTED)
    count = len(carried)
    collected = body.graph.outputs[1 + count :]
    values = [own_tensor(t.tensor(x)) for x in carried]
    limit = (
        torch.full((), torch.iinfo(torch.int64).max) if M is None else t.tensor(M).reshape(()).to(torch.int64).clone()
    )
    going = torch.ones((), dtype=torch.bool) if cond is None else t.tensor(cond).reshape(()).clone()
    rows = []
    if collected:
        if M is None:
            raise Unsupported("a Loop that collects outputs, and has no maximum number of iterations")
        most = t.number(M if not isinstance(M, torch.Tensor) else M.reshape(()))
        if not isinstance(most, int):
            check(most >= 0)
        # This iteration is captured for its shapes only, and removed because nothing reads it.
        trial = body(torch.zeros((), dtype=torch.int64), going, *values)[1 + count :]
        rows = [_rows(most, t.tensor(y)) for y in trial]
    given, size = list(body.operands.values()), 3 + count

    def more(i: Any, going: Any, limit: Any, *rest: Any) -> Any:
        return torch.logical_and(going, i < limit)

    def step(i: Any, going: Any, limit: Any, *rest: Any) -> Any:
        own, kept, operands = rest[:count], rest[count : count + len(rows)], rest[count + len(rows) :]
        again, *results = body.with_operands((i, going, *own), operands)
        written = [
            torch.where(_mark(torch.arange(k.shape[0]) == i, k), y[None].to(k.dtype), k)
            for k, y in zip(kept, results[count:], strict=True)
        ]
        new = [y.to(x.dtype) for y, x in zip(results[:count], own, strict=True)]
        return (i + 1, again.reshape(()).clone(), limit.clone(), *new, *written)

    start = (torch.zeros((), dtype=torch.int64), going, limit, *values, *rows)
    try:
        found = torch.ops.higher_order.while_loop(more, step, start, tuple(given))
    except RuntimeError as error:
        raise Unsupported("a Loop whose tensors change their sizes between iterations") from error
    rounds, values, columns = found[0], found[3:size], found[size:]
    if columns:
        done = rounds.item()
        check(done >= 0)
        return (*values, *(torch.index_select(r, 0, torch.arange(done)) for r in columns))
    return tuple(values)


def _mark(x: Any, like: Any) -> Any:
    return x.reshape([-1, *[1] * (like.dim() - 1)])


@onnx_op("Scan")
def scan(
    t, *inputs, body, num_scan_inputs, scan_input_axes, scan_input_directions, scan_output_axes, scan_output_directions
):
    if None in inputs:
        raise Unsupported("Scan of opset 8, with sequence lengths")
    count = len(inputs) - num_scan_inputs
    axes = scan_input_axes or [0] * num_scan_inputs
    backwards = scan_input_directions or [0] * num_scan_inputs
    scanned = []
    for x, axis, reverse in zip(inputs[count:], axes, backwards, strict=True):
        x = torch.movedim(x, axis, 0)
        scanned.append(x.flip(0) if reverse else x)
    steps = scanned[0].shape[0]
    made = body.graph.outputs[count:]
    if isinstance(steps, int) and steps <= _MOST:
        values, rows = list(inputs[:count]), []
        for i in range(steps):
            results = [t.tensor(y) for y in body(*values, *(x[i] for x in scanned))]
            values = results[:count]
            rows.append(results[count:])
        columns = (
            [torch.stack(c) for c in zip(*rows, strict=True)]
            if rows
            else [torch.zeros([0, *_dims(v, 0)], dtype=torch_dtype(v.dtype)) for v in made]
        )
    else:
        given = list(body.operands.values())

        def step(*parts: Any) -> Any:
            own, operands = parts[: count + num_scan_inputs], parts[count + num_scan_inputs :]
            return tuple(body.with_operands(own, operands))

        found = torch.ops.higher_order.scan(step, [own_tensor(x) for x in inputs[:count]], scanned, tuple(given))
        values, columns = list(found[:count]), list(found[count:])
    out = []
    for i, y in enumerate(columns):
        y = y.flip(0) if scan_output_directions and scan_output_directions[i] else y
        out.append(torch.movedim(y, 0, scan_output_axes[i]) if scan_output_axes else y)
    return (*values, *out)
