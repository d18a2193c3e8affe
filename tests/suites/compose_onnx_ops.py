"""Rows of the ONNX programs of `compose.py`: nodes whose inputs are sampled from the values so far."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.suites.compose_program import Draw, NoSuchValue

Row = Callable[[Draw], str]
ROWS: dict[str, tuple[Row, float]] = {}


def row(weight: float = 1.0) -> Callable[[Row], Row]:
    """Add a row with this weight."""

    def add(function: Row) -> Row:
        ROWS[function.__name__.strip("_")] = (function, weight)
        return function

    return add


def emit(d: Draw, operator: str, *inputs: str, more: int = 0, which: int = 0, text: str = "", **attributes: Any) -> str:
    """Add a node and return the name of its output; `which` selects one if it has `more` than one.

    `text` is added unchanged.
    """
    outputs = [f"{d.name}_{len(d.made) + i}" for i in range(1 + more)]
    given = "".join(f", {k}={v!r}" for k, v in attributes.items()) + text
    d.nodes.append(f"node({operator!r}, {list(inputs)!r}, {outputs!r}{given})")
    d.made.extend(outputs)
    return outputs[which]


def ints(d: Draw, *values: int) -> str:
    """A constant vector."""
    return d.layer(f"np.array({list(values)}, np.int64)")


def scalar(d: Draw, value: float) -> str:
    """A constant number."""
    return d.layer(f"np.float32({value})")


def whole(d: Draw, value: int) -> str:
    """A constant integer."""
    return d.layer(f"np.int64({value})")


def weight(d: Draw, *shape: int) -> str:
    """Return numbers whose size keeps sums at about one."""
    fan = max(1, int(np.prod(shape[1:])))
    return d.layer(f"floats({d.integer(0, 3)}, {', '.join(map(str, shape))}) * np.float32({round(fan**-0.5, 3)})")


def positive(d: Draw, x: str, more: float = 0.3) -> str:
    """|x| + more."""
    return emit(d, "Add", emit(d, "Abs", x), scalar(d, more))


def unary(weight: float, *operators: str) -> None:
    """Yield rows of an operator on one value, with attributes after a space."""
    for text in operators:
        operator, _, attributes = text.partition(" ")

        def call(d: Draw, operator: str = operator, attributes: str = attributes) -> str:
            return emit(d, operator, d.value("f"), text=", " + attributes if attributes else "")

        ROWS[text] = (call, weight / len(operators))


unary(
    11, "Relu", "Tanh", "Sigmoid", "Elu", "Elu alpha=0.5", "Selu", "LeakyRelu", "LeakyRelu alpha=0.3", "HardSigmoid",
    "HardSigmoid alpha=0.3, beta=0.4", "HardSwish", "Softplus", "Softsign", "Mish", "Gelu", "Gelu approximate='tanh'",
    "Erf", "Abs", "Neg", "Ceil", "Floor", "Round", "Sign", "Sin", "Cos", "Atan", "Celu alpha=0.7",
    "ThresholdedRelu alpha=0.4",
    "Asinh", "Sinh", "Identity", "Shrink lambd=0.3, bias=0.1", "Relu", "Relu", "Softmax", "LogSoftmax axis=-1",
    "Dropout",
)  # fmt: skip


@row(2)
def _of_positive(d: Draw) -> str:
    x = positive(d, d.value("f"))
    return emit(d, d.one_of("Sqrt", "Log", "Reciprocal"), x)


@row(3)
def _with_number(d: Draw) -> str:
    x, c = d.value("f"), scalar(d, d.number())
    return emit(d, d.one_of("Add", "Mul", "Sub", "Max", "Min"), *d.one_of((x, c), (c, x)))


@row(2)
def _clip(d: Draw) -> str:
    low, high = scalar(d, d.number(-1, 0)), scalar(d, d.number(0, 2))
    return emit(d, "Clip", d.value("f"), *d.one_of((low, high), (low,), ("", high)))


@row(7)
def binary(d: Draw) -> str:
    x = d.value("f")
    y = d.partner(x)
    operator = d.one_of(
        "Add", "Add", "Mul", "Sub", "Div", "Max", "Min", "Pow", "Less", "GreaterOrEqual", "Mean", "Sum", "PRelu", "Mod"
    )
    if operator == "Div":
        y = positive(d, y)
    if operator == "Pow":
        x, y = positive(d, x), emit(d, "Tanh", y)
    if operator in ("Mean", "Sum"):
        return emit(d, operator, x, y, x)
    if operator == "PRelu":
        return emit(d, "Add", emit(d, operator, x, emit(d, "Identity", x)), y)
    if operator == "Mod":
        return emit(d, "Mod", x, positive(d, y), fmod=1)
    return emit(d, operator, x, y)


@row(2.5)
def _constant(d: Draw) -> str:
    x = d.value("f")
    shape = [1 if d.chance(0.2) else s or 1 for s in d.shape(x)]
    shape = shape[d.integer(0, len(shape)) if d.chance(0.3) else 0 :]
    k = d.layer(f"floats({d.integer(0, 3)}, {', '.join(map(str, shape))})")
    if d.chance(0.2):
        k = emit(d, "Tanh", k)
    return emit(d, d.one_of("Add", "Mul", "Sub", "Max", "PRelu"), x, k)  # PRelu's slope fits into x


@row(2)
def _integers(d: Draw) -> str:
    x = d.value("i")
    y = d.one_of(d.partner(x), whole(d, d.integer(1, 4)))
    operator = d.one_of("Add", "Mul", "Sub", "Max", "Min", "Equal", "Less", "Mod", "Div")
    if operator in ("Mod", "Div"):
        return emit(d, operator, emit(d, "Abs", x) if operator == "Div" else x, whole(d, d.integer(2, 5)))
    return emit(d, operator, x, y)


@row(2)
def _bools(d: Draw) -> str:
    x = d.value("b")
    operator = d.one_of("And", "Or", "Xor", "Not", "Cast", "Where")
    if operator in ("Not",):
        return emit(d, operator, x)
    if operator == "Cast":
        return emit(d, "Cast", x, text=f", to={d.one_of('FLOAT', 'INT64')}")
    if operator == "Where":
        y = d.value("f")
        return emit(d, "Where", x, y, d.one_of(d.partner(y), scalar(d, d.number())))
    return emit(d, operator, x, d.partner(x))


@row(1.5)
def _cast(d: Draw) -> str:
    x = d.value("i")
    y = emit(d, "Cast", x, text=", to=FLOAT")
    return emit(d, "Mul", y, scalar(d, 0.3))


@row(2)
def _compared(d: Draw) -> str:
    x = d.value("f")
    b = emit(d, d.one_of("Greater", "Less", "LessOrEqual"), x, scalar(d, d.number()))
    return d.one_of(b, emit(d, "Where", b, x, scalar(d, d.number())))


@row(6)
def reduce(d: Draw) -> str:
    x = d.value("f", range(1, 6))
    operator = d.one_of("Sum", "Mean", "Max", "Min", "Prod", "L1", "L2", "LogSumExp", "SumSquare", "Mean", "LogSum")
    x = positive(d, x) if operator == "LogSum" else x
    axes = sorted({d.integer(0, d.rank(d.used[0]) - 1) for _ in range(d.integer(1, 2))})
    axes = [a - d.rank(d.used[0]) for a in axes] if d.chance(0.4) else axes
    inputs = [x] if d.chance(0.1) else [x, ints(d, *axes)]
    return emit(d, f"Reduce{operator}", *inputs, keepdims=d.integer(0, 1))


@row(3)
def _along(d: Draw) -> str:
    x = d.value("f", range(1, 6))
    axis, keep = d.axis(x), d.integer(0, 1)
    if d.chance(0.25):
        return emit(d, "CumSum", x, whole(d, axis), exclusive=d.integer(0, 1), reverse=d.integer(0, 1))
    return d.one_of(lambda: emit(d, "Softmax", x, axis=axis), lambda: emit(d, "LogSoftmax", x, axis=axis),
                    lambda: emit(d, "Hardmax", x, axis=axis), lambda: emit(d, "ArgMax", x, axis=axis, keepdims=keep),
                    lambda: emit(d, "ArgMin", x, axis=axis, keepdims=keep, select_last_index=d.integer(0, 1)),
                    lambda: emit(d, "LpNormalization", x, axis=axis, p=d.one_of(1, 2)))()  # fmt: skip


@row(1)
def _topk(d: Draw) -> str:
    x = d.value("f", range(1, 5))
    axis = d.axis(x, static=True, least=2)
    return emit(d, "TopK", x, ints(d, 2), more=1, which=d.one_of(0, 0, 1), axis=axis, largest=d.integer(0, 1))


# -- views ------------------------------------------------------------------------------------------------------------


@row(6)
def transpose(d: Draw) -> str:
    x = d.value("fib", range(2, 6))
    rank = d.rank(x)
    last, first = [0, *range(2, rank), 1], [0, rank - 1, *range(1, rank - 1)]
    return emit(d, "Transpose", x, perm=d.one_of(d.shuffled(rank), last, first))


@row(5)
def _reshape(d: Draw) -> str:
    x = d.value("fib", range(1, 6))
    rank, shape = d.rank(x), d.shape(x)
    dims = [d.one_of(s, s, 0) if s else 0 for s in shape]
    i = d.integer(0, rank - 1)
    known = shape[i]
    if known and d.chance(0.6):
        factor = d.one_of(*(f for f in range(1, known + 1) if known % f == 0))
        dims[i : i + 1] = [factor, known // factor]
        dims = dims[: i + 2] + [s if s else -1 for s in shape[i + 1 :]]
        if dims.count(-1) > 1:
            raise NoSuchValue
    elif rank > 1:
        i = min(i, rank - 2)
        dims[i : i + 2] = [-1]
        dims = dims[: i + 1] + [s or 0 for s in shape[i + 2 :]]
        if 0 in dims[i + 1 :]:
            raise NoSuchValue
    if d.chance(0.15):
        tail = emit(d, "Shape", x)
        flat = emit(d, "Reshape", x, ints(d, -1))
        return emit(d, "Reshape", emit(d, "Identity", flat), tail)
    return emit(d, "Reshape", x, ints(d, *dims))


@row(2)
def _flatten(d: Draw) -> str:
    x = d.value("fib", range(1, 6))
    return emit(d, "Flatten", x, axis=d.integer(-d.rank(x), d.rank(x)))


@row(3)
def _unsqueeze(d: Draw) -> str:
    x = d.value("fib", range(5))
    if 1 in d.shape(x) and d.chance():
        return emit(d, "Squeeze", x, ints(d, d.one_of(*(i for i, s in enumerate(d.shape(x)) if s == 1))))
    return emit(d, "Unsqueeze", x, ints(d, d.integer(-d.rank(x) - 1, d.rank(x))))


@row(1.5)
def _expand(d: Draw) -> str:
    x = d.value("fib", range(5))
    dims = [d.one_of(1, 2, 3) if s == 1 else 1 for s in d.shape(x)]
    return d.one_of(lambda: emit(d, "Expand", x, ints(d, *d.one_of([], [2]), *dims)),
                    lambda: emit(d, "Tile", x, ints(d, *(d.one_of(1, 1, 2) for _ in dims))))()  # fmt: skip


@row(4)
def slice(d: Draw) -> str:
    x = d.value("fib", range(1, 6))
    axis, step = d.axis(x), d.one_of(1, 1, 2, -1)
    start, end = (
        (d.one_of(0, 1, -2), d.one_of(-1, 3, 2**31)) if step > 0 else (d.one_of(-1, 2**31, -2), d.one_of(0, -(2**31)))
    )
    return emit(d, "Slice", x, ints(d, start), ints(d, end), ints(d, axis), ints(d, step))


@row(2.5)
def _split(d: Draw) -> str:
    x = d.value("fib", range(1, 6))
    axis = d.axis(x, static=True, least=2)
    size = d.shape(x)[axis] or 0
    if size % 2 or d.chance(0.4):
        return emit(d, "Split", x, ints(d, 1, size - 1), more=1, which=d.integer(0, 1), axis=axis)
    return emit(d, "Split", x, more=1, which=d.integer(0, 1), axis=axis, num_outputs=2)


@row(4)
def concat(d: Draw) -> str:
    x = d.value("fib", range(1, 6))
    y = d.partner(x)
    return emit(d, "Concat", *d.one_of((x, y), (x, x), (x, y, x), (y, x)), axis=d.axis(x))


@row(4)
def _pad(d: Draw) -> str:
    x = d.value("f", range(1, 6))
    pads = [d.one_of(0, 0, 1, 2) if d.chance(0.93) else -1 for _ in range(2 * d.rank(x))]
    mode = d.one_of("constant", "constant", "reflect", "edge", "wrap")
    more = [scalar(d, d.number())] if mode == "constant" and d.chance() else []
    return emit(d, "Pad", x, ints(d, *pads), *more, mode=mode)


@row(3)
def _gathered(d: Draw) -> str:
    x = d.value("fib", range(1, 5))
    axis = d.axis(x)
    if d.chance(0.4):
        return emit(d, "Gather", x, d.one_of(whole(d, d.one_of(0, -1)), ints(d, 0, -1, 0)), axis=axis)
    i = d.value("i", range(1, 4))
    n = emit(d, "Gather", emit(d, "Shape", x), whole(d, axis), axis=0)
    i = emit(d, "Mod", i, n)
    operator = d.one_of("Gather", "GatherElements", "ScatterElements")
    if operator == "ScatterElements":
        x = d.value("f", d.rank(i))
        updates = emit(d, "Mul", emit(d, "Cast", i, text=", to=FLOAT"), scalar(d, 0.2))
        return emit(d, operator, x, emit(d, "Mod", i, ints(d, 1)), updates, axis=0, reduction=d.one_of("add", "max"))
    return emit(d, operator, x, i, axis=axis)


@row(1.5)
def _sizes(d: Draw) -> str:
    x = d.value("fib", range(1, 5))
    n = emit(d, "Gather", emit(d, "Shape", x), ints(d, d.axis(x)), axis=0)
    form = d.integer(0, 3)
    if form == 0:
        return emit(d, "ConstantOfShape", emit(d, "Concat", n, ints(d, 2), axis=0))
    if form == 1:
        return emit(d, "Range", whole(d, 0), emit(d, "Squeeze", n), whole(d, 1))
    if form == 2:
        y = d.value("f")
        return emit(d, "Div", y, emit(d, "Cast", n, text=", to=FLOAT"))
    return emit(d, "Add", n, ints(d, 1))


@row(1)
def _rare(d: Draw) -> str:
    x = d.value("f", range(2, 5))
    return d.one_of(
        lambda: emit(d, "Trilu", x, upper=d.integer(0, 1)), lambda: emit(d, "MeanVarianceNormalization", x),
        lambda: emit(d, "OneHot", emit(d, "Mod", d.value("i",
        range(3)), whole(d, 4)), whole(d, 4), d.layer("np.array([0, 1], np.float32)"), axis=d.one_of(-1, 0)),
        lambda: emit(d, "EyeLike", d.value("f", 2)), lambda: emit(d, "Gather", weight(d, 7, 3), emit(d, "Mod",
        d.value("i"), whole(d, 7))),
        lambda: emit(d, "DepthToSpace", d.value("f", 4), blocksize=2, mode=d.one_of("DCR", "CRD")),
        lambda: emit(d, "SpaceToDepth", d.value("f", 4), blocksize=2),
    )()  # fmt: skip
