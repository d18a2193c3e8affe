"""Splits broadcasts with many groups of dims: TensorFlow's kernels support five groups, its Select eight."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

import onnx_ir as ir

from convert.errors import Problem, Unsupported
from convert.graph import Graph, location_of
from convert.graph.model_names import ModelNames
from convert.graph.values import Dim, dims, known_dims

_TAKEN = 5
_GROUPS: dict[str, int] = {
    **dict.fromkeys(("Add", "Sub", "Mul", "Div", "Pow", "Mod", "PRelu", "Max", "Min", "Sum", "Mean"), _TAKEN),
    **dict.fromkeys(("And", "Or", "Xor", "Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual"), _TAKEN),
    **dict.fromkeys(("BitShift", "BitwiseAnd", "BitwiseOr", "BitwiseXor"), _TAKEN),
    "Where": 8,
}
"""Broadcasting operators, with the number of groups of dims that TensorFlow's kernel supports.

Neighbouring dims form one group if the same operands have size 1 there (`BCast` of TensorFlow, which drops dims that
are 1 in all operands).
"""
_AT_ONCE = 4
"""Groups that one Expand repeats; together with the dims after them, which stay, its broadcast has five groups."""


def split_broadcasts(model: ir.Model, *, equal: bool = False) -> bool:
    """Expand operands along their first dims where TensorFlow's kernel has too few groups; return whether any were.

    Dims with the same name are equal. Two dims count as a separate group if they may be equal, or if one of them may be
    1; with `equal`, they are assumed to be equal.
    """
    found = [node for node in model.graph.all_nodes() if node.domain == "" and _excess(node, equal)]
    if not found:
        return False
    taken: dict[str, int] = dict.fromkeys(ModelNames(model.graph).taken, 0)
    for node in found:
        while count := _excess(node, equal):
            _repeat(model, node, count, taken)
    return True


def choose_broadcasts(model: ir.Model) -> bool:
    """Expand operands as `split_broadcasts` does, for targets without Expand to computed sizes, by Where(c, x, x).

    Where(c, x, x) is x broadcast to the shape of c, and TensorFlow's Select supports eight groups. Raises `Unsupported`
    for results with more dims than that.
    """
    found = [node for node in model.graph.all_nodes() if node.domain == "" and _excess(node, equal=False)]
    if beyond := [node for node in found if len(_lengths(node)) > _GROUPS["Where"]]:
        why = f"dims of {len(_lengths(beyond[0]))} dynamic sizes that may be repeated in turns: TensorFlow takes eight"
        hint = "give dims that are equal one name, or fix them: --input 'NAME:float32[2,channels,…]'"
        raise Unsupported(problems=[Problem(why, location_of(node)) for node in beyond], hint=hint)
    taken: dict[str, int] = dict.fromkeys(ModelNames(model.graph).taken, 0)
    for node in found:
        g = Graph(opset=model.opset_imports[""])
        g.reserve(taken)
        operands, result = [x for x in node.inputs if x is not None], _result(node)
        with g.at(location_of(node)):
            for place, x in enumerate(operands):
                y = x
                for other in operands:
                    y = y if other is x else g.Where(g.Cast(other, to=ir.DataType.BOOL), y, y)
                node.replace_input_with(place, g.facts(y, x.dtype, result))
        _insert(model, g, node)
    return bool(found)


def _excess(node: ir.Node, equal: bool) -> int:
    """Return how many leading dims of the result to expand first; 0 if the kernel supports the broadcast."""
    most, by_axis = _GROUPS.get(node.op_type), _lengths(node)
    if most is None or len(by_axis) <= most:
        return 0
    kinds = [(axis, _kind(axis, lengths, equal)) for axis, lengths in enumerate(by_axis) if set(lengths) != {1}]
    groups = [list(group) for _, group in groupby(kinds, key=lambda pair: pair[1])]
    return groups[_AT_ONCE - 1][-1][0] + 1 if len(groups) > most else 0


def _lengths(node: ir.Node) -> list[tuple[Dim, ...]]:
    """Return, for each dim of the result, the dims of the operands; [] if a rank is unknown."""
    shapes = [None if x is None else known_dims(x) for x in node.inputs]
    known = [shape for shape in shapes if shape is not None]
    full = max(map(len, known), default=0)
    if len(known) < len(shapes) or len(known) < 2:
        return []
    return list(zip(*((1,) * (full - len(shape)) + shape for shape in known), strict=True))


def _joined(lengths: tuple[Dim, ...], unknown: str) -> Dim:
    """Return a dim of the result: a number if any operand's is above 1; `unknown` if it may be one of several names."""
    others = {d for d in lengths if d != 1}
    numbers = [d for d in others if isinstance(d, int)]
    if numbers or not others:
        return numbers[0] if numbers else 1
    return others.pop() if len(others) == 1 and None not in others else unknown


def _names(node: ir.Node) -> list[str]:
    """Return names for the dims of the result whose sizes are unknown."""
    output = known_dims(node.outputs[0]) or (None,) * len(_lengths(node))
    return [d if isinstance(d, str) else f"{node.outputs[0].name}.{axis}" for axis, d in enumerate(output)]


def _result(node: ir.Node) -> list[Dim]:
    return [_joined(lengths, name) for lengths, name in zip(_lengths(node), _names(node), strict=True)]


def _kind(axis: int, lengths: tuple[Dim, ...], equal: bool) -> tuple[object, ...]:
    """Return the key of a dim's group: which operands have size 1, or the axis if that is unknown."""
    others = [d for d in lengths if d != 1]
    sure = equal or len(others) == 1 or (len(set(others)) == 1 and None not in others)
    return tuple(d == 1 for d in lengths) if sure else (axis,)


def _repeat(model: ir.Model, node: ir.Node, count: int, taken: dict[str, int]) -> None:
    """Expand every operand to the first `count` dims of the result."""
    g = Graph(opset=model.opset_imports[""])
    g.reserve(taken)
    by_axis, operands = _lengths(node), [x for x in node.inputs if x is not None]
    names, front = _names(node), _result(node)[:count]
    with g.at(location_of(node)):
        for place, x in enumerate(operands):
            own = [lengths[place] for lengths in by_axis]
            if own[:count] == front:
                continue
            if all(isinstance(d, int) for d in front):
                y = g.Expand(x, [*front, *[1] * (len(by_axis) - count)])
            else:
                y = _expand_like(g, x, [other for other in operands if other is not x], count, names)
            node.replace_input_with(place, g.facts(y, x.dtype, [*front, *own[count:]]))
    _insert(model, g, node)


def _expand_like(g: Graph, x: ir.Value, others: Sequence[ir.Value], count: int, names: Sequence[str]) -> ir.Value:
    """Return `x` broadcast to the first `count` dims of the result, whose sizes come from `others`."""
    for other in others:
        missing = len(names) - len(dims(other))
        taken = dims(other)[: max(count - missing, 0)]
        if set(taken) <= {1}:
            continue
        behind = (1,) * (len(names) - count)
        pieces = [g.const([1] * missing)] if missing else []
        pieces += [g.Shape(other, start=0, end=len(taken)), g.const(behind)]
        own = (1,) * (len(names) - len(dims(x))) + dims(x)
        pairs = zip(own, (1,) * missing + taken + behind, names, strict=True)
        x = g.facts(g.Expand(x, g.Concat(*pieces, axis=0)), x.dtype, [_joined((a, b), name) for a, b, name in pairs])
    return x


def _insert(model: ir.Model, g: Graph, node: ir.Node) -> None:
    """Move the nodes of `g` before `node`, and its constants into the outermost graph."""
    assert node.graph is not None
    made, constants = list(g.graph), list(g.graph.initializers.values())
    g.graph.remove(made)
    for value in constants:
        g.graph.initializers.pop(value.name or "")
        model.graph.register_initializer(value)
    node.graph.insert_before(node, made)
