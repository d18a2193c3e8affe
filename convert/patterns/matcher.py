"""Matches an expression against a value of the graph, backwards from the node that computes it.

Each function yields a `Bindings` for every way to read the value as the expression. A sum or product of the graph is
read with every grouping, order and sign that has as many terms or factors as the pattern; a division is a product with
a negative exponent. Casts between float32 and half precision are looked through, as are Unsqueezes: those that insert
the axes of a reduction again may come later.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import onnx_ir as ir

from convert.graph.values import constant, constant_integers, is_random_node, known_dims
from convert.graph.written_numbers import written_number
from convert.patterns.expressions import (
    Attribute,
    Either,
    Expression,
    Number,
    Operand,
    Operator,
    Product,
    Reduction,
    Repeated,
    Sum,
    Tensor,
)

Bindings = dict[str, Any]
"""Values, numbers and attributes by the names of their placeholders."""

Axes = tuple[int, ...]
Leaf = tuple[int, ir.Value, Axes]
"""The sign of a term, or the exponent of a factor; the value; the axes that are inserted into it later."""
Reading = tuple[float, tuple[Leaf, ...]]
"""A constant, and the terms or factors beside it."""

_SINGLE = frozenset({ir.DataType.FLOAT, ir.DataType.FLOAT16, ir.DataType.BFLOAT16})
"""Dtypes between which casts are looked through: layers compute half precision in float32, but nothing in float64."""

_COMMUTATIVE = frozenset({"And", "Max", "Min"})
_DEPTH = 8
"""Maximum number of operators between the root and a leaf of a sum or product in a pattern."""


def match(expression: Operand, value: ir.Value | None, bound: Bindings, inserted: Axes = ()) -> Iterator[Bindings]:
    """Yield extensions of the bindings `bound` with which `expression` computes `value`.

    `inserted` are the axes of size 1 that the graph inserts into `value` afterwards.
    """
    if value is None:
        return
    if isinstance(expression, Tensor):
        if not inserted:
            yield from _bind(expression.name, _narrow(value, bound), bound)
    elif isinstance(expression, (int, float)):
        if is_close(number(value), expression):
            yield bound
    elif isinstance(expression, Number):
        if (content := number(value)) is not None:
            yield from _bind(expression.name, content, bound)
    elif isinstance(expression, Either):
        for choice in expression.choices:
            yield from match(choice, value, bound, inserted)
    elif isinstance(expression, (Sum, Product)):
        yield from _match_parts(expression, value, bound, inserted)
    else:
        node, outer = maker_of(value), _inner(value, inserted)
        if outer is not None:
            yield from match(expression, outer[0], bound, outer[1])
        if node is not None and isinstance(expression, Operator):
            yield from _match_operator(expression, node, bound, inserted)
        elif node is not None and isinstance(expression, Reduction):
            yield from _match_reduction(expression, value, node, bound, inserted)
        elif node is not None and isinstance(expression, Repeated):
            yield from _match_repeated(expression, value, node, bound, inserted)


def maker_of(value: ir.Value | None) -> ir.Node | None:
    """Return the node of an ONNX operator that computes `value`, else None."""
    node = value.producer() if value is not None else None
    return None if node is None or node.domain not in ("", "ai.onnx") else node


def number(value: ir.Value | None) -> float | None:
    """Return the content of a floating-point constant with one element, as the program wrote it."""
    tensor = constant(value)
    if tensor is not None:
        single = tensor.size == 1 and tensor.dtype.is_floating_point()
        return written_number(tensor) if single else None
    node = maker_of(value)
    content = number(node.inputs[0]) if node is not None and node.op_type in ("Sqrt", "Reciprocal", "Neg") else None
    if node is None or content is None:
        return None
    if node.op_type == "Neg":
        return -content
    if node.op_type == "Sqrt":
        return math.sqrt(content) if content >= 0 else None
    return 1 / content if content else None


def is_close(content: float | None, wanted: float) -> bool:
    """Return whether numbers are equal, or differ from the tenth digit on.

    A constant with six digits is a different number: the program's results then differ from the layer's in all digits.
    """
    return content is not None and abs(content - wanted) <= 1e-10 * abs(wanted)


def _bind(name: str, found: Any, bound: Bindings) -> Iterator[Bindings]:
    known = bound.get(name)
    if known is None:
        yield {**bound, name: found}
    elif is_same(known, found) if isinstance(found, ir.Value) else known == found:
        yield bound


def is_same(one: ir.Value | None, other: ir.Value | None, depth: int = 4) -> bool:
    """Return whether two values are one, or are computed in the same way from the same values."""
    if one is other:
        return True
    first, second = maker_of(one), maker_of(other)
    if first is None or second is None or first is second or not depth or len(first.outputs) != 1:
        both = [v for v in (one, other) if v is not None and v.dtype == ir.DataType.INT64]
        axes = [constant_integers(v) for v in both]
        return len(both) == 2 and axes[0] is not None and axes[0] == axes[1]
    equal = first.op_type == second.op_type and len(first.inputs) == len(second.inputs) and not is_random_node(first)
    attributes = [{name: a.value for name, a in node.attributes.items()} for node in (first, second)]
    inputs = zip(first.inputs, second.inputs, strict=False)
    return equal and attributes[0] == attributes[1] and all(is_same(a, b, depth - 1) for a, b in inputs)


def _narrow(value: ir.Value, bound: Bindings) -> ir.Value:
    """Return the value before a cast to float32, if that has the dtype of the layer."""
    node = maker_of(value)
    source = node.inputs[0] if node is not None and node.op_type == "Cast" else None
    narrow = source is not None and source.dtype == bound["dtype"] and {source.dtype, value.dtype} <= _SINGLE
    return source if narrow and source is not None else value


def _inner(value: ir.Value, inserted: Axes) -> tuple[ir.Value, Axes] | None:
    """Return the input of a Cast or Unsqueeze with the axes that are inserted into it; None for other operators."""
    node = maker_of(value)
    x = node.inputs[0] if node is not None and node.inputs else None
    if node is None or x is None:
        return None
    if node.op_type == "Cast":
        return (x, inserted) if {x.dtype, value.dtype} <= _SINGLE else None
    axes, dims = constant_integers(node.inputs[1]) if node.op_type == "Unsqueeze" else None, known_dims(value)
    if inserted or axes is None or dims is None:
        return None
    axes = sorted(a % len(dims) for a in axes)
    return x, () if axes == list(range(len(axes))) else tuple(axes)  # broadcasts insert leading axes anyway


def _match_operator(e: Operator, node: ir.Node, bound: Bindings, inserted: Axes) -> Iterator[Bindings]:
    root = e.name == "Sqrt" and node.op_type == "Pow" and abs(number(node.inputs[1]) or 0) == 0.5
    inputs = node.inputs[:1] if root else node.inputs
    if not root and (node.op_type != e.name or len(inputs) < len(e.inputs) or any(inputs[len(e.inputs) :])):
        return
    for name, wanted in e.attributes.items():
        found = node.attributes[name].value if name in node.attributes else None
        if not isinstance(wanted, Attribute):
            if found != wanted:
                return
            continue
        found = _axis(node, found) if name == "axis" else tuple(found) if isinstance(found, (list, tuple)) else found
        if not (more := list(_bind(wanted.name, found, bound))):
            return
        bound = more[0]
    for order in (inputs, inputs[::-1]) if node.op_type in _COMMUTATIVE else (inputs,):
        yield from _match_all(e.inputs, order, bound, inserted)


def _axis(node: ir.Node, axis: int | None) -> Axes | None:
    dims = known_dims(node.inputs[0]) if node.inputs[0] is not None else None
    return None if dims is None else ((-1 if axis is None else axis) % len(dims),)


def _match_all(
    wanted: Sequence[Operand], found: Sequence[ir.Value | None], bound: Bindings, inserted: Axes
) -> Iterator[Bindings]:
    if not wanted:
        yield bound
        return
    for more in match(wanted[0], found[0], bound, inserted):
        yield from _match_all(wanted[1:], found[1:], more, inserted)


def _match_reduction(
    e: Reduction, value: ir.Value, node: ir.Node, bound: Bindings, inserted: Axes
) -> Iterator[Bindings]:
    if e.name == "ReduceMean" and node.op_type in ("Div", "Mul"):
        yield from _match_divided_sum(e, value, bound, inserted)
    nothing = maker_of(node.inputs[1]) if e.name == "ReduceMean" and node.op_type == "Add" else None
    if nothing is not None and nothing.op_type == "Div" and number(nothing.inputs[0]) == 0:
        # TensorFlow's reader adds 0 / n, which makes the mean of no elements NaN: a layer's input is not empty.
        yield from match(e, node.inputs[0], bound, inserted)
    if node.op_type != e.name or len(node.inputs) < 2 or node.inputs[0] is None:
        return
    x, given = node.inputs[0], constant_integers(node.inputs[1])
    dims = known_dims(x)
    if dims is None or given is None:
        return
    axes = tuple(sorted(a % len(dims) for a in given))
    if inserted != (() if node.attributes.get_int("keepdims", 1) else axes):
        return
    for more in _bind(e.axes.name, axes, bound):
        yield from match(e.x, x, more)


def _match_repeated(e: Repeated, value: ir.Value, node: ir.Node, bound: Bindings, inserted: Axes) -> Iterator[Bindings]:
    """Match [..., n] as Reshape(Expand(Unsqueeze([..., n / count], -1)))."""
    expand = maker_of(node.inputs[0]) if node.op_type == "Reshape" else None
    unsqueeze = maker_of(expand.inputs[0]) if expand is not None and expand.op_type == "Expand" else None
    if expand is None or unsqueeze is None or unsqueeze.op_type != "Unsqueeze":
        return
    flat, spread, single = (known_dims(v) for v in (value, expand.outputs[0], unsqueeze.outputs[0]))
    if flat is None or spread is None or single is None or len(spread) != len(flat) + 1:
        return
    known = isinstance(flat[-1], int) and isinstance(spread[-1], int) and spread[:-1] == single[:-1]
    axes = constant_integers(unsqueeze.inputs[1])
    if known and single[-1] == 1 and spread[:-2] == flat[:-1] and axes in ([-1], [len(flat)]):
        for more in _bind(e.count.name, spread[-1], bound):
            yield from match(e.x, unsqueeze.inputs[0], more, (*inserted, len(flat) + len(inserted)))


def _match_divided_sum(e: Reduction, value: ir.Value, bound: Bindings, inserted: Axes) -> Iterator[Bindings]:
    """Match a sum times the inverse of the number of its elements."""
    for factor, leaves in _readings(Product, value, 1, 1, inserted, _DEPTH):
        if len(leaves) != 1 or leaves[0][0] != 1:
            continue
        total, later = leaves[0][1:]
        for more in match(Reduction("ReduceSum", e.x, e.axes), total, bound, later):
            dims = _dims_of_sum(total)
            reduced = [dims[a] for a in more[e.axes.name]] if dims is not None else []
            lengths = [d for d in reduced if isinstance(d, int)]
            if len(lengths) == len(more[e.axes.name]) and is_close(factor * math.prod(lengths), 1.0):
                yield more


def _dims_of_sum(value: ir.Value | None) -> Sequence[Any] | None:
    """Return the dims of what a ReduceSum, perhaps behind Casts and Unsqueezes, adds up."""
    node = maker_of(value)
    while node is not None and node.op_type != "ReduceSum":
        node = maker_of(node.inputs[0])
    x = node.inputs[0] if node is not None else None
    return None if x is None else known_dims(x)


def _match_parts(e: Sum | Product, value: ir.Value, bound: Bindings, inserted: Axes) -> Iterator[Bindings]:
    """Match a sum or product."""
    parts = e.terms if isinstance(e, Sum) else e.factors
    numbers = [part for _, part in parts if isinstance(part, Number)]
    # Placeholders match anything, so that all else goes first.
    wanted = sorted((p for p in parts if not isinstance(p[1], Number)), key=lambda part: isinstance(part[1], Tensor))
    needed = sum(not (isinstance(part, Tensor) and part.optional) for _, part in wanted)
    neutral = 0.0 if isinstance(e, Sum) else 1.0
    for content, leaves in _readings(type(e), value, 1, len(wanted), inserted, _DEPTH):
        if not needed <= len(leaves) <= len(wanted):
            continue
        if not numbers:
            start = [bound] if is_close(content, e.constant) or content == e.constant else []
        elif content == neutral and isinstance(e, Sum):
            start = []
        else:
            start = list(_bind(numbers[0].name, content / e.constant if e.constant else content, bound))
        for first in start:
            yield from _assign(wanted, leaves, first)


def _assign(wanted: Sequence[tuple[int, Expression]], leaves: tuple[Leaf, ...], bound: Bindings) -> Iterator[Bindings]:
    """Match the parts of a pattern with the leaves, one leaf for each part, so that no leaf is left."""
    if not wanted:
        if not leaves:
            yield bound
        return
    (sign, expression), rest = wanted[0], wanted[1:]
    for i, (power, value, inserted) in enumerate(leaves):
        others = leaves[:i] + leaves[i + 1 :]
        part = expression
        if power != sign:
            if not isinstance(expression, Product) or len(expression.factors) < 2:
                continue
            part = Product(-expression.constant, expression.factors)  # a subtracted product
        for more in match(part, value, bound, inserted):
            yield from _assign(rest, others, more)
    if isinstance(expression, Tensor) and expression.optional and len(leaves) <= len(rest):
        yield from _assign(rest, leaves, bound)


def _readings(
    kind: type[Sum | Product], value: ir.Value | None, sign: int, most: int, inserted: Axes, depth: int
) -> Iterator[Reading]:
    """Yield every reading of `value` as a constant and at most `most` terms or factors."""
    content = number(value)
    if content is not None and math.isfinite(content) and (kind is Sum or content != 0):
        yield (sign * content if kind is Sum else content**sign), ()
    if value is None:
        return
    if most:
        yield (0.0 if kind is Sum else 1.0), ((sign, value, inserted),)
    node = maker_of(value)
    if node is None or not depth or not node.inputs:
        return
    if (inner := _inner(value, inserted)) is not None:
        yield from _readings(kind, inner[0], sign, most, inner[1], depth - 1)
    first, second = [*node.inputs, None][:2]
    add, subtract = ("Add", "Sub") if kind is Sum else ("Mul", "Div")
    if node.op_type in (add, subtract):
        other = -sign if node.op_type == subtract else sign
        for left, some in _readings(kind, first, sign, most, inserted, depth - 1):
            for right, more in _readings(kind, second, other, most - len(some), inserted, depth - 1):
                yield (left + right if kind is Sum else left * right), (*some, *more)
    elif node.op_type == "Neg":
        for content, some in _readings(kind, first, -sign if kind is Sum else sign, most, inserted, depth - 1):
            yield (content if kind is Sum else -content), some
    elif kind is Product and node.op_type == "Reciprocal":
        yield from _readings(kind, first, -sign, most, inserted, depth - 1)
    elif kind is Product and node.op_type == "Pow":
        power = number(second)
        if power in (2.0, 3.0) and power <= most and first is not None:
            yield 1.0, ((sign, first, inserted),) * int(power)
        elif power == -0.5 and most:
            yield 1.0, ((-sign, value, inserted),)  # what `_match_operator` reads as the Sqrt of its input
