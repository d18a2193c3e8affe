"""Loops and branches as ONNX's Loop and If: their regions are lowered into subgraphs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx_ir as ir

from convert.graph import Graph
from convert.graph.values import constant, constant_integers, known_dims

from ..regions import Region, attribute_of, maker
from ..rules import stablehlo_op, tensor_op
from ..sizes import Size, compare, counter, number
from ..types import ResultType
from ..values import NamedGraph, Tensor, join_pairs, merge_dims, part_owners, plain, split_pairs, whole
from .slices import UPDATE_KEY


@tensor_op("if")
def if_rule(g, condition, *, regions, results):
    return branches(g, condition.value, regions, results)


@tensor_op("case")
def case_rule(g, index, *, regions, results):
    """Return the results of the selected branch; an index out of range selects the last one."""
    return join_pairs(_cases(g, index.value, list(regions), 0, _part_types(results)), results)


def _part_types(types: Sequence[ResultType]) -> list[ResultType]:
    return [types[k] for k in part_owners(types)]


def _lowered(g: Graph, region: Region) -> list[Tensor]:
    """Return the results of a branch, complex ones as their parts."""
    return [whole(g, t) for t in region.lower_parts(g)]


def _cases(g: Graph, index: ir.Value, regions: list[Region], first: int, results: list[ResultType]) -> list[Tensor]:
    if len(regions) == 1:
        return _lowered(g, regions[0])
    known = constant(index)
    if known is not None:
        number = int(known.numpy()) - first
        return _lowered(g, regions[number] if 0 <= number < len(regions) else regions[-1])
    condition = g.Equal(index, g.const(first, g.dtype(index)))
    then = g.body()
    otherwise = g.body()
    one = _lowered(then, regions[0])
    other = _cases(otherwise, index, regions[1:], first + 1, results)
    return _joined(g, condition, (then, one), (otherwise, other), results)


def branches(g: Graph, condition: ir.Value, regions: Sequence[Region], results: list[ResultType]) -> list[Any]:
    """Return both branches as subgraphs; if the condition is constant, only the selected one."""
    known = constant(condition)
    if known is not None:
        return join_pairs(_lowered(g, regions[0 if bool(known.numpy()) else 1]), results)
    ways = []
    for region in regions:
        body = g.body()
        ways.append((body, _lowered(body, region)))
    return join_pairs(_joined(g, condition, ways[0], ways[1], _part_types(results)), results)


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
    """Return a loop.

    Values that the body passes on unchanged stay outside. A counter with a limit gives the number of iterations, and is
    computed from the number of the iteration.
    """
    condition, body = regions
    owners, types, results = part_owners(results), results, _part_types(results)
    unchanged = [value == argument for value, argument in zip(body.returned(), body.block.arguments, strict=True)]
    fixed = {k for k, owner in enumerate(owners) if unchanged[owner]}
    operands = tuple(t if k in fixed else whole(g, t) for k, t in enumerate(split_pairs(operands)))
    turns: Any = trip_count(condition, body, join_pairs(operands, types))
    limit = None if turns is None else g.compute_size(turns)
    turns = None if limit is None else turns
    loop = g.body()
    turn = loop.input("turn", ir.DataType.INT64, [])
    going = loop.input("going_on", ir.DataType.BOOL, [])
    place: Any = counter(turn.name, turns) if turns is not None else None
    counting = [k for k in range(len(owners)) if place is not None and k not in fixed and not results[k].is_complex]
    starts = {k: _start(body, operands[k], owners[k]) for k in counting}
    counters = {k: start for k, start in starts.items() if start is not None}
    carried = [k for k in range(len(operands)) if k not in fixed and k not in counters]
    inner: list[Any] = list(operands)
    for k, start in counters.items():
        inner[k] = _counted(loop, turn, results[k].dtype, start, place)
    for k in carried:
        value = loop.input(f"carried_{k}", results[k].dtype, _stable(operands[k], results[k]))
        inner[k] = Tensor(value, tuple(_stable(operands[k], results[k])))
    backwards = None if place is None else _count_backwards(g, loop, turn, place, turns)
    after = body.lower_parts(loop, inner)
    following = [operands[k] if k in fixed else whole(loop, t) for k, t in enumerate(after)]
    if backwards is not None:
        _flip_sequences(g, loop, backwards, turn)
    stacked = {} if place is None else stacked_rows(carried, inner, following, place, turns)
    carried = [k for k in carried if k not in stacked]
    found = list(operands)
    for k, start in counters.items():
        found[k] = _counted(g, g.Squeeze(limit, [0]), results[k].dtype, start, turns)
    values = _loop(g, loop, going, condition, limit, operands, inner, following, carried, stacked)
    for (k, (_, flipped)), rows in zip(stacked.items(), values[len(carried) :], strict=True):
        rows = _flipped(g, rows) if flipped else rows
        found[k] = Tensor(g.facts(rows, results[k].dtype, operands[k].dims), operands[k].dims)
    for k, value in zip(carried, values, strict=False):
        dims = tuple(_stable(operands[k], results[k]))
        g.facts(value, results[k].dtype, dims)
        found[k] = Tensor(value, dims)
    return join_pairs(found, types)


@stablehlo_op("chlo.scan")
def scan(g, *operands, dimension, operandSegmentSizes, regions, results, resultSegmentSizes=(), is_reverse=False,
         is_associative=None):  # fmt: skip
    """Return ONNX's Scan: rows of the results, then the carried values after the last row."""
    count = operandSegmentSizes[0]
    sequences, starts = operands[:count], operands[count:]
    (region,), body = regions, g.body()
    types = region.types()
    values = [body.input(f"row_{k}" if k < count else f"carried_{k}", t.dtype, t.dims) for k, t in enumerate(types)]
    found = [whole(body, t).value for t in region.lower(body, [plain(v) for v in values])]
    rows = len(found) - len(starts)
    body.graph.inputs.extend([body.graph.inputs.pop(0) for _ in sequences])  # ONNX's Scan has the carried values first
    for value in (*found[rows:], *found[:rows]):
        body.output(body.Identity(value))
    attributes = {"body": body, "num_scan_inputs": count, "scan_input_axes": [dimension] * count,
                  "scan_output_axes": [dimension] * rows, "scan_input_directions": [int(is_reverse)] * count,
                  "scan_output_directions": [int(is_reverse)] * rows}  # fmt: skip
    made = g.node("Scan", [*starts, *sequences], attributes, outputs=len(found))
    every = made if isinstance(made, list) else [made]
    return [*every[len(starts) :], *every[: len(starts)]]


def _loop(
    g: Graph, loop: Graph, going: ir.Value, condition: Region, limit: ir.Value | None, operands: Sequence[Any],
    inner: Sequence[Any], following: Sequence[Any], carried: Sequence[int],
    stacked: Mapping[int, tuple[ir.Value, bool]],
) -> list[ir.Value]:  # fmt: skip
    """Return the results of the Loop: carried values after the last iteration, and rows of all iterations."""
    if not carried and not stacked:  # ONNX has no node without outputs
        return []
    if limit is None:
        loop.output(loop.Identity(condition.lower_parts(loop, following)[0].value))
        first = condition.lower_parts(g, operands)[0].value
    else:
        loop.output(loop.Identity(going))
        first = None if carried else g.const(np.array(True))  # the schema requires one if nothing is carried
    for k in carried:
        loop.output(loop.Identity(following[k].value))
    for k, (update, _) in stacked.items():
        loop.graph.inputs.remove(inner[k].value)
        loop.output(_without_first(loop, update))
    starts = [operands[k].value for k in carried]
    rounds = None if limit is None else g.Squeeze(limit, [0])
    made = g.node("Loop", [rounds, first, *starts], {"body": loop}, outputs=len(carried) + len(stacked))
    return made if isinstance(made, list) else [made]


def _without_first(g: Graph, update: ir.Value) -> ir.Value:
    """Return a row without the first axis, of size 1, with which it is inserted."""
    node = update.producer()
    if node is not None and node.op_type == "Unsqueeze" and constant_integers(node.inputs[1]) == [0]:
        return g.Identity(node.inputs[0])
    return g.Squeeze(update, [0])


def _counted(g: Graph, turn: ir.Value, dtype: ir.DataType, start: int, place: Size) -> Tensor:
    """Return a counter in an iteration."""
    value = turn if start == 0 else g.Add(turn, g.const(start, ir.DataType.INT64))
    known = (place + start).number
    if known is not None:
        value = g.const(known, dtype)
    elif dtype != ir.DataType.INT64:
        value = g.Cast(value, to=dtype)
    sizes = np.empty((), object)
    sizes[()] = place + start
    return Tensor(value, (), sizes=sizes)


def _count_backwards(g: NamedGraph, loop: NamedGraph, turn: ir.Value, place: Size, turns: Size) -> ir.Value:
    """Let the loop know its counter, forwards and backwards, as sizes; return the latter."""
    backwards = loop.Sub(g.Squeeze(g.compute_size(turns - 1), [0]), turn)
    loop.known[str(place)] = loop.Unsqueeze(turn, [0])
    loop.known[str(turns - 1 - place)] = loop.Unsqueeze(backwards, [0])
    return backwards


def _flip_sequences(g: Graph, loop: Graph, backwards: ir.Value, turn: ir.Value) -> None:
    """Let iterations read a sequence forwards if they read it from its end: it is flipped before the loop."""
    here = {*loop.graph.inputs, *(o for n in loop.graph for o in n.outputs)}
    for node in loop.graph:
        rows = node.op_type == "Gather" and node.attributes.get_int("axis", 0) == 0
        sequence = node.inputs[0] if rows and node.inputs[1] is backwards else None
        if sequence is not None and sequence not in here:
            node.replace_input_with(0, _flipped(g, sequence))
            node.replace_input_with(1, turn)


def _flipped(g: Graph, x: ir.Value) -> ir.Value:
    return g.facts(g.Slice(x, [-1], [-(2**62)], [0], [-1]), x.dtype, known_dims(x))


def _start(body: Region, operand: Any, number: int) -> int | None:
    """Return the initial value of an argument, if it is a counter that increases by 1."""
    known = constant(operand.value) if isinstance(operand, Tensor) else None
    if known is None or known.size != 1 or operand.rank or _step(body, number) != 1:
        return None
    return int(known.numpy().ravel()[0])


def stacked_rows(
    carried: Sequence[int], inner: Sequence[Any], following: Sequence[Any], place: Size, turns: Size
) -> dict[int, tuple[ir.Value, bool]]:
    """Return the carried tensors into which each iteration writes the next row without reading them, as lax.scan stacks
    results.

    The result maps their index to the row that an iteration writes, and whether the last row is written first. All rows
    are written.
    """
    found = {}
    for k in carried:
        x, update, at = following[k].value.meta.get(UPDATE_KEY, (None, None, None))
        if x is not inner[k].value or at not in (place, turns - 1 - place) or inner[k].dims[0] != turns.dim:
            continue
        rows, dims = known_dims(update), inner[k].dims
        # Only the slices before and after the row read it.
        if rows is not None and tuple(rows) == (1, *dims[1:]) and len(x.uses()) == 2:
            found[k] = (update, at != place)
    return found


def _stable(start: Tensor, type_: ResultType) -> list[Any]:
    """Return the dims of the values that a loop carries: in StableHLO they are the same before and after each
    iteration.
    """
    return list(merge_dims(type_.dims, start.dims))


def trip_count(condition: Region, body: Region, starts: Sequence[Any]) -> Size | None:
    """Return the number of iterations, if a counter with a known start increases to a known limit; else None."""
    operations = condition.operations()
    test = maker(condition.returned()[0])
    if test is None or test.name != "stablehlo.compare" or attribute_of(test, "comparison_direction") != "LT":
        return None
    if any(op.name not in ("stablehlo.compare", "stablehlo.constant", "stablehlo.return") for op in operations):
        return None
    arguments = list(condition.block.arguments)
    place = next((k for k, a in enumerate(arguments) if a == test.operands[0]), None)
    if place is None or not isinstance(starts[place], Tensor):
        return None
    limit = _limit(condition, body, test.operands[1], starts)
    step, first = _step(body, place), constant(starts[place].value)
    if limit is None or step is None or first is None or first.size != 1:
        return None
    gap = limit - int(first.numpy().ravel()[0])
    if gap.number is not None:
        return number(max(0, -(-gap.number // step)))
    return gap if step == 1 and compare(gap + 1, number(0)) == 1 else None  # a dim may be 0


def _limit(condition: Region, body: Region, value: Any, starts: Sequence[Any]) -> Size | None:
    """Return what a counter is compared with: a constant, or an outer size, which the loop may pass on unchanged."""
    known = _number(condition, value)
    if known is not None:
        return number(known)
    outer = condition.around.get(value)
    arguments = list(condition.block.arguments)
    place = next((k for k, a in enumerate(arguments) if a == value), None)
    if place is not None and body.returned()[place] == list(body.block.arguments)[place]:
        outer = starts[place]
    if not isinstance(outer, Tensor) or outer.sizes is None or outer.sizes.size != 1:
        return None
    size: Size = outer.sizes.ravel()[0]
    return size


def _number(region: Region, value: Any) -> int | None:
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
    step = None if other is None else _number(body, other)
    return step if step is not None and step > 0 else None
