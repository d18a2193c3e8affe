"""Loops and branches as ONNX's Loop and If: their regions are lowered into subgraphs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx_ir as ir

from convert.graph import Graph
from convert.graph.values import constant, known_dims

from ..regions import Region, attribute_of, maker
from ..rules import tensor_op
from ..types import ResultType
from ..values import Tensor, merge_dims, whole
from .slices import UPDATE_KEY


@tensor_op("if")
def if_rule(g, condition, *, regions, results):
    return branches(g, condition.value, regions, results)


@tensor_op("case")
def case_rule(g, index, *, regions, results):
    """Return the results of the selected branch; an index out of range selects the last one."""
    return _cases(g, index.value, list(regions), 0, results)


def _cases(g: Graph, index: ir.Value, regions: list[Region], first: int, results: list[ResultType]) -> list[Tensor]:
    if len(regions) == 1:
        return [whole(g, t) for t in regions[0].lower(g, [])]
    known = constant(index)
    if known is not None:
        number = int(known.numpy()) - first
        chosen = regions[number] if 0 <= number < len(regions) else regions[-1]
        return [whole(g, t) for t in chosen.lower(g, [])]
    condition = g.Equal(index, g.const(first, g.dtype(index)))
    then = g.body()
    otherwise = g.body()
    one = [whole(then, t) for t in regions[0].lower(then, [])]
    other = _cases(otherwise, index, regions[1:], first + 1, results)
    return _joined(g, condition, (then, one), (otherwise, other), results)


def branches(g: Graph, condition: ir.Value, regions: Sequence[Region], results: list[ResultType]) -> list[Tensor]:
    """Return both branches as subgraphs; if the condition is constant, only the selected one."""
    known = constant(condition)
    if known is not None:
        return [whole(g, t) for t in regions[0 if bool(known.numpy()) else 1].lower(g, [])]
    ways = []
    for region in regions:
        body = g.body()
        ways.append((body, [whole(body, t) for t in region.lower(body, [])]))
    return _joined(g, condition, ways[0], ways[1], results)


def _joined(
    g: Graph, condition: ir.Value, then: tuple[Graph, list[Tensor]], otherwise: tuple[Graph, list[Tensor]],
    results: list[ResultType],
) -> list[Tensor]:  # fmt: skip
    for body, tensors in (then, otherwise):
        for tensor in tensors:
            body.output(body.Identity(tensor.value))
    made = g.node("If", [condition], {"then_branch": then[0], "else_branch": otherwise[0]}, outputs=len(results))
    values = made if isinstance(made, list) else [made]
    found = []
    for value, type_, one, other in zip(values, results, then[1], otherwise[1], strict=True):
        dims = tuple(d if d is not None else (a if a == b else None)
                     for d, a, b in zip(type_.dims, one.dims, other.dims, strict=True))  # fmt: skip
        g.facts(value, type_.dtype, dims)
        found.append(Tensor(value, dims))
    return found


@tensor_op("while")
def while_rule(g, *operands, regions, results):
    """Return a loop. Values that the body passes on unchanged stay outside; a counter with a limit gives the number of
    iterations.
    """
    condition, body = regions
    returned = body.returned()
    arguments = list(body.block.arguments)
    fixed = {k for k, value in enumerate(returned) if value == arguments[k]}
    operands = tuple(t if k in fixed else whole(g, t) for k, t in enumerate(operands))
    carried = [k for k in range(len(operands)) if k not in fixed]
    turns = trip_count(condition, body, operands)
    loop = g.body()
    loop.input("turn", ir.DataType.INT64, [])
    going = loop.input("going_on", ir.DataType.BOOL, [])
    inner: list[Any] = list(operands)
    for k in carried:
        value = loop.input(f"carried_{k}", results[k].dtype, _stable(operands[k], results[k]))
        inner[k] = Tensor(value, tuple(_stable(operands[k], results[k])))
    after = body.lower(loop, inner)
    following = [operands[k] if k in fixed else whole(loop, t) for k, t in enumerate(after)]
    counted_from = [_start(body, operand, k) for k, operand in enumerate(operands)]
    stacked = stacked_rows(carried, inner, following, turns, counted_from)
    carried = [k for k in carried if k not in stacked]
    if turns is None:
        loop.output(loop.Identity(condition.lower(loop, following)[0].value))
        first = condition.lower(g, operands)[0].value
    else:
        loop.output(loop.Identity(going))
        first = None
    for k in carried:
        loop.output(loop.Identity(following[k].value))
    for k, update in stacked.items():
        loop.graph.inputs.remove(inner[k].value)
        loop.output(loop.Identity(update))
    limit = None if turns is None else g.const(np.array(turns, np.int64))
    starts = [operands[k].value for k in carried]
    made = g.node("Loop", [limit, first, *starts], {"body": loop}, outputs=len(carried) + len(stacked))
    values = made if isinstance(made, list) else [made]
    found = list(operands)
    for k, value in zip(stacked, values[len(carried) :], strict=True):
        # Each row has the first axis, of size 1, with which it was inserted.
        rows = g.Squeeze(value, [1])
        found[k] = Tensor(g.facts(rows, results[k].dtype, operands[k].dims), operands[k].dims)
    for k, value in zip(carried, values, strict=False):
        dims = tuple(_stable(operands[k], results[k]))
        g.facts(value, results[k].dtype, dims)
        found[k] = Tensor(value, dims)
    return found


def _start(body: Region, operand: Any, number: int) -> int | None:
    """Return the initial value of an argument, if it is a counter that increases by 1."""
    known = constant(operand.value) if isinstance(operand, Tensor) else None
    if _step(body, number) != 1 or known is None or known.size != 1:
        return None
    return int(known.numpy().ravel()[0])


def stacked_rows(
    carried: Sequence[int], inner: Sequence[Any], following: Sequence[Any], turns: int | None, starts: Sequence[Any]
) -> dict[int, ir.Value]:
    """Return the carried tensors into which each iteration writes the next row without reading them, as lax.scan stacks
    results.

    The result maps their index to the row that an iteration writes. All rows are written, from the first to the last.
    """
    counters = {inner[k].value: start for k, start in enumerate(starts) if start == 0}
    found = {}
    for k in carried:
        x, update, at = following[k].value.meta.get(UPDATE_KEY, (None, None, None))
        if turns is None or x is not inner[k].value or at not in counters or inner[k].dims[0] != turns:
            continue
        rows, dims = known_dims(update), inner[k].dims
        # Only the slices before and after the row read it.
        if rows is not None and tuple(rows) == (1, *dims[1:]) and len(x.uses()) == 2:
            found[k] = update
    return found


def _stable(start: Tensor, type_: ResultType) -> list[Any]:
    """Return the dims of the values that a loop carries: in StableHLO they are the same before and after each
    iteration.
    """
    return list(merge_dims(type_.dims, start.dims))


def trip_count(condition: Region, body: Region, starts: Sequence[Any]) -> int | None:
    """Return the number of iterations, if a counter with a known start increases to a constant; else None."""
    operations = condition.operations()
    test = maker(condition.returned()[0])
    if test is None or test.name != "stablehlo.compare" or attribute_of(test, "comparison_direction") != "LT":
        return None
    if any(op.name not in ("stablehlo.compare", "stablehlo.constant", "stablehlo.return") for op in operations):
        return None
    arguments = list(condition.block.arguments)
    number = next((k for k, a in enumerate(arguments) if a == test.operands[0]), None)
    if number is None:
        return None
    limit = _number(condition, test.operands[1], arguments, starts)
    step = _step(body, number)
    start = starts[number].value if isinstance(starts[number], Tensor) else None
    first = constant(start)
    if limit is None or step is None or first is None or first.size != 1:
        return None
    return max(0, -(-(limit - int(first.numpy().ravel()[0])) // step))


def _number(region: Region, value: Any, arguments: Sequence[Any], starts: Sequence[Any]) -> int | None:
    """Return the content of a constant inside or outside a region."""
    op = maker(value)
    if op is not None and op.name == "stablehlo.constant":
        return int(np.asarray(attribute_of(op, "value")).ravel()[0])
    around = region.around.get(value)
    known = constant(around.value) if isinstance(around, Tensor) else None
    return int(known.numpy().ravel()[0]) if known is not None and known.size == 1 else None


def _step(body: Region, number: int) -> int | None:
    """Return the positive constant that an iteration adds to an argument of the body, if there is one."""
    op = maker(body.returned()[number])
    argument = body.block.arguments[number]
    if op is None or op.name != "stablehlo.add" or argument not in list(op.operands):
        return None
    other = next((v for v in op.operands if v != argument), None)
    step = None if other is None else _number(body, other, (), ())
    return step if step is not None and step > 0 else None
