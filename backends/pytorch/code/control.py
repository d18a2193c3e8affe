"""If, Loop and Scan as `if` and `for` in Python."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from convert.errors import Unsupported
from convert.rules import Rules

from ..ops.control import if_ as _known_if
from ..ops.control import loop as _unrolled_loop
from ..rules import schema
from ..values import Known, Sizes

code_op = Rules("PyTorch code", schema=schema)
"""Rules that differ between Python code and a captured program; all other rules are those of the backend."""

_NESTED = "a sequence or an optional in a branch or loop that only the run decides"


def if_(t: Any, cond: Any, *, then_branch: Any, else_branch: Any) -> Any:
    """If-21: return the results of the branch that is taken."""
    if t.static(cond) is not None:
        return _known_if(t, cond, then_branch=then_branch, else_branch=else_branch)

    def tensors(branch: Any) -> Callable[[], list[Any]]:
        kinds = [t.dtype(i) for i in range(t.outputs)]
        return lambda: [_tensor(t, y).to(kind) for y, kind in zip(branch(), kinds, strict=False)]

    return tuple(t.recorder.branch(_scalar(t.tensor(cond)), tensors(then_branch), tensors(else_branch)))


def _tensor(t: Any, y: Any) -> Any:
    if isinstance(y, list) or y is None:
        raise Unsupported(_NESTED)
    return t.tensor(y)


def _scalar(x: Any) -> Any:
    return x.reshape(()) if x.dim() else x


def loop(t: Any, M: Any, cond: Any, *carried: Any, body: Any) -> Any:
    """Loop-23: `for i in range(M)`, with a break once the body's condition is false."""
    # a list grows, so the number of iterations must be known
    if any(isinstance(x, list) or x is None for x in carried):
        return _unrolled_loop(t, M, cond, *carried, body=body)
    count = len(carried)
    most = None if M is None else t.number(M if not isinstance(M, torch.Tensor) else _scalar(M))
    first = True if cond is None else t.static(cond)
    if first is not None and not np.all(first):
        most = 0
    recorder = t.recorder
    rows: list[Any] = []

    def round_(i: Any, *values: Any) -> Any:
        number = Known(np.array(0, np.int64)) if i is None else Sizes(_scalar_array(i), np.dtype(np.int64))
        going, *results = body(number, Known(np.array(True)), *values)
        rows[:] = [recorder.append(t.tensor(y)) for y in results[count:]]
        known = t.static(going)
        if known is not None and not known.all():
            raise Unsupported("a Loop whose condition is never true")
        after = [t.tensor(y).to(x.dtype) for x, y in zip(values, results[:count], strict=True)]
        return (None if known is not None else _scalar(t.tensor(going))), after

    limit = 2**63 - 1 if most is None else most
    start = [t.tensor(x) for x in carried]
    asked = None if first is not None else _scalar(t.tensor(cond))
    after = recorder.loop(limit, start, round_, asked)
    return (*after, *(recorder.stacked(r, recorder.new_size()) for r in rows))


def _scalar_array(n: Any) -> np.ndarray:
    array = np.empty((), object)
    array[()] = n
    return array


def scan(
    t: Any, *inputs: Any, body: Any, num_scan_inputs: int, scan_input_axes: Any, scan_input_directions: Any,
    scan_output_axes: Any, scan_output_directions: Any,
) -> Any:  # fmt: skip
    """Scan-23: one iteration per index of the scanned axes."""
    if None in inputs:
        raise Unsupported("Scan of opset 8, with sequence lengths")
    recorder, count = t.recorder, len(inputs) - num_scan_inputs
    tensors = [t.tensor(x) for x in inputs]
    axes = [a % x.dim() for a, x in zip(scan_input_axes or [0] * num_scan_inputs, tensors[count:], strict=True)]
    backwards = scan_input_directions or [0] * num_scan_inputs
    scanned = [x.flip(a) if back else x for x, a, back in zip(tensors[count:], axes, backwards, strict=True)]
    rows: list[Any] = []

    def round_(i: Any, *values: Any) -> Any:
        results = [t.tensor(y) for y in body(*values, *map(recorder.select, scanned, axes, [i] * len(axes)))]
        rows[:] = [recorder.append(y) for y in results[count:]]
        return None, results[:count]

    steps = scanned[0].shape[axes[0]]
    after = recorder.loop(steps, tensors[:count], round_)
    columns = []
    for place, row in enumerate(rows):
        y = recorder.stacked(row, steps, backwards=bool(scan_output_directions and scan_output_directions[place]))
        columns.append(torch.movedim(y, 0, scan_output_axes[place]) if scan_output_axes else y)
    return (*after, *columns)


code_op("If")(if_)
code_op("Loop")(loop)
code_op("Scan")(scan)
