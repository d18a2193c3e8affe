"""Writes conditions on sizes into a graph: a node fails at run time if they do not hold."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Mapping, Sequence

import onnx_ir as ir

from convert.errors import Location, Unsupported
from convert.graph.builder import Graph
from convert.graph.metadata import SIZE_CHECK_KEY

_REFUSED = -(2**31)
_BINARY: dict[type, str] = {ast.Add: "Add", ast.Sub: "Sub", ast.Mult: "Mul"}
_FLOATING: dict[type, str] = {ast.Div: "Div", ast.Pow: "Pow"}
_ROUNDED = {"math.trunc": "", "math.floor": "Floor", "math.ceil": "Ceil", "round": "Round"}
_ROOTS = ("math.sqrt", "torch._sym_sqrt")
_COMPARED: dict[type, str] = {
    ast.Eq: "Equal", ast.Lt: "Less", ast.LtE: "LessOrEqual", ast.Gt: "Greater", ast.GtE: "GreaterOrEqual"
}  # fmt: skip


def conditions_of(bounds: Mapping[str, Sequence[int | None]], guards: Sequence[str]) -> list[str]:
    """Return bounds of dims and conditions on them as one list of conditions: `batch >= 4`, `h % 8 == 0`."""
    found = []
    for name, (low, high) in bounds.items():
        text = name if name.isidentifier() else f"({name})"
        found += [f"{text} >= {low}"] if low is not None and low > 1 else []
        found += [f"{text} <= {high}"] if high is not None else []
    return [*found, *guards]


def holds(g: Graph, condition: str, sizes: Mapping[str, ir.Value]) -> ir.Value | None:
    """Return a condition as a boolean of shape [1]. `sizes` holds int64 values of shape [1] by name.

    Returns None if the condition has other names, or more than the arithmetic of `convert.parity.inputs.size_guards`. A
    condition that divides by zero does not hold.
    """
    divisors: list[ir.Value] = []
    try:
        found = _lower(g, ast.parse(condition, mode="eval").body, sizes, divisors)
        for divisor in divisors:
            found = g.And(found, g.Not(g.Equal(divisor, g.const([0], ir.DataType.INT64))))
        return found
    except (Unsupported, SyntaxError, RecursionError):
        return None


def check_sizes(
    g: Graph, x: ir.Value, fits: ir.Value, conditions: Sequence[str], noted: Callable[[str], str] = str
) -> ir.Value:
    """Return `x` through a node that fails at run time if `fits`, a boolean of shape [1], is false.

    The node is a Split in two parts, the second of them empty. No pass and no runtime removes it, because the sizes of
    the parts are known at run time only. `noted` maps a condition to its form for the whole model, for a check in a
    branch of an If.
    """
    shape, dtype = g.shape(x), g.dtype(x)
    with g.at(Location("size check", "only_if_" + "_and_".join(map(_spelled, conditions)))):
        lifted = x if shape else g.Unsqueeze(x, [0])
        axis = next((i for i, d in enumerate(shape) if not isinstance(d, int)), 0)
        length = g.Shape(lifted, start=axis, end=axis + 1)
        first = g.Where(fits, length, [_REFUSED])
        checked, rest = g.Split(lifted, g.Concat(first, [0], axis=0), axis=axis, outputs=2)
        node = checked.producer()
        assert node is not None
        node.metadata_props[SIZE_CHECK_KEY] = " and ".join(map(noted, conditions))
        g.facts(rest, dtype, [0 if i == axis else d for i, d in enumerate(shape or (1,))])
        g.facts(checked, dtype, shape or (1,))
        return checked if shape else g.Squeeze(checked, [0])


_WORDS = {">=": "at_least", "<=": "at_most", "==": "is", "!=": "is_not", "<": "below", ">": "above", "%": "modulo"}


def in_words(condition: str) -> str:
    """Return a condition with `n % 8 == 0` written as "n is a multiple of 8", which tells what to feed."""
    return _MULTIPLE.sub(lambda m: f"{m[1]} is {'a' if m[3] == '==' else 'no'} multiple of {m[2]}", condition)


_MULTIPLE = re.compile(r"(?<![\w*+/%-] )\(?\b([A-Za-z_]\w*) % (\d+)\)? (==|!=) 0\b(?! [*+/%-])")


def _spelled(condition: str) -> str:
    """Return a condition as part of a node name, which is what a runtime shows in its error."""
    condition = in_words(condition)
    for sign, word in _WORDS.items():
        condition = condition.replace(sign, f" {word} ")
    condition = condition.replace("//", " over ").replace("*", " times ").replace("-", " minus ").replace("+", " plus ")
    return "_".join("".join(c if c.isalnum() or c == "_" else " " for c in condition).split())


def _lower(g: Graph, node: ast.expr, sizes: Mapping[str, ir.Value], divisors: list[ir.Value]) -> ir.Value:
    """Return the value of a part of a condition. Adds to `divisors` each value that must not be zero."""

    def part(inner: ast.expr) -> ir.Value:
        return _lower(g, inner, sizes, divisors)

    match node:
        case ast.Constant(value=int(number)):
            return g.const([int(number)], ir.DataType.INT64)
        case ast.Constant(value=float(fraction)):
            return g.const([fraction], ir.DataType.DOUBLE)
        case ast.Name(id=name) if name in sizes:
            return sizes[name]
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _FLOATING:
            return g.node(_FLOATING[type(op)], [_double(g, part(left)), _double(g, part(right))])
        case ast.BinOp(left=left, op=op, right=right) if type(op) in (*_BINARY, ast.FloorDiv, ast.Mod):
            divisor = part(right)
            if type(op) not in _BINARY and not divisor.is_initializer():
                divisors.append(divisor)
                divisor = g.Where(g.Equal(divisor, [0]), [1], divisor)
            return _arithmetic(g, op, part(left), divisor)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return g.Neg(part(operand))
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return g.Not(part(operand))
        case ast.Compare(left=left, ops=[op], comparators=[right]):
            a, b = _alike(g, part(left), part(right))
            return g.Not(g.Equal(a, b)) if isinstance(op, ast.NotEq) else g.node(_COMPARED[type(op)], [a, b])
        case ast.BoolOp(op=op, values=values):
            first, *others = (part(v) for v in values)
            for other in others:
                first = g.And(first, other) if isinstance(op, ast.And) else g.Or(first, other)
            return first
        case ast.Call(func=ast.Name(id=name), args=arguments) if name in ("min", "max", "Min", "Max"):
            found = [part(a) for a in arguments]
            whole_ones = all(g.dtype(v) == ir.DataType.INT64 for v in found)
            return g.node(name.capitalize(), found if whole_ones else [_double(g, v) for v in found])
        case ast.Call(func=ast.Name(id="abs"), args=[argument]):
            return g.Abs(part(argument))
        case ast.Call(func=function, args=[argument]) if (name := ast.unparse(function)) in _ROUNDED:
            whole, rounded = _double(g, part(argument)), _ROUNDED[name]
            return g.Cast(g.node(rounded, [whole]) if rounded else whole, to=ir.DataType.INT64)
        case ast.Call(func=function, args=[argument]) if ast.unparse(function) in _ROOTS:
            return g.Sqrt(_double(g, part(argument)))
        case ast.Call(func=function, args=[argument]) if ast.unparse(function) == "torch.sym_float":
            return _double(g, part(argument))
    raise Unsupported(f"{ast.unparse(node)!r} is no arithmetic on sizes")


def _double(g: Graph, x: ir.Value) -> ir.Value:
    return x if g.dtype(x) == ir.DataType.DOUBLE else g.Cast(x, to=ir.DataType.DOUBLE)


def _alike(g: Graph, a: ir.Value, b: ir.Value) -> tuple[ir.Value, ir.Value]:
    return (a, b) if g.dtype(a) == g.dtype(b) else (_double(g, a), _double(g, b))


def _arithmetic(g: Graph, op: ast.operator, a: ir.Value, b: ir.Value) -> ir.Value:
    a, b = _alike(g, a, b)
    if type(op) in _BINARY:
        return g.node(_BINARY[type(op)], [a, b])
    if g.dtype(a) == ir.DataType.DOUBLE:
        raise Unsupported("a quotient of fractions that is rounded down, or what is left of one")
    remainder = g.Mod(a, b)  # has the sign of b, as in Python
    return remainder if isinstance(op, ast.Mod) else g.Div(g.Sub(a, remainder), b)
