"""Rows of the ONNX programs of `compose.py`: control flow, matrix products, image and sequence layers."""

from __future__ import annotations

from typing import Any

from tests.suites.compose_onnx_ops import emit, ints, row, scalar, weight, whole
from tests.suites.compose_program import Draw, NoSuchValue

# -- control flow -----------------------------------------------------------------------------------------------------


@row(2)
def branch(d: Draw) -> str:
    """Emit an If on a number computed from a value or a size; a branch reads outer values."""
    if not d.subgraphs:
        raise NoSuchValue
    x = d.value("f")
    y = d.partner(x)
    if d.chance(0.4):
        asked = emit(d, "Greater", emit(d, "ReduceSum", x, keepdims=0), scalar(d, d.number()))
    else:
        asked = emit(d, "Greater", emit(d, "Size", d.value("fib", range(1, 5))), whole(d, d.integer(1, 60)))
    inner = d.name + "_t"
    sides = []
    for name, operator, other in (("then", d.one_of("Add", "Mul"), y), ("else", d.one_of("Relu", "Neg", "Sub"), x)):
        inputs = [x] if operator in ("Relu", "Neg") else [x, other]
        made = f"[node('{operator}', {inputs}, ['{inner}{name}'])]"
        sides.append(f"{name}_branch=body('{name}', [], {made}, [('{inner}{name}', FLOAT)])")
    return emit(d, "If", asked, text=", " + ", ".join(sides))


@row(2)
def loop(d: Draw) -> str:
    """Emit a Loop with a known or computed number of iterations, with one value carried and one collected."""
    if not d.subgraphs:
        raise NoSuchValue
    x = d.value("f")
    n, operator = d.name, d.one_of("Tanh", "Sin", "Identity")
    count = whole(d, d.integer(1, 4))
    if d.chance():
        y = d.value("fib", range(1, 5))
        count = emit(d, "Squeeze", emit(d, "Gather", emit(d, "Shape", y), ints(d, d.axis(y)), axis=0))
    half = scalar(d, 0.5)
    nodes = (
        f"[node('{operator}', ['{n}_s'], ['{n}_a']), node('Cast', ['{n}_i'], ['{n}_f'], to=FLOAT), "
        f"node('Mul', ['{n}_f', '{half}'], ['{n}_g']), node('Add', ['{n}_a', '{n}_g'], ['{n}_o']), "
        f"node('Identity', ['{n}_c'], ['{n}_d']), node('Relu', ['{n}_o'], ['{n}_p'])]"
    )
    inner = (
        f"body('round', [('{n}_i', INT64), ('{n}_c', BOOL), ('{n}_s', FLOAT)], {nodes}, "
        f"[('{n}_d', BOOL), ('{n}_o', FLOAT), ('{n}_p', FLOAT)])"
    )
    return emit(d, "Loop", count, "", x, more=1, which=d.integer(0, 1), text=f", body={inner}")


# -- products ---------------------------------------------------------------------------------------------------------


@row(6)
def matmul(d: Draw) -> str:
    x = d.value("f", range(1, 6))
    width = d.shape(x)[-1]
    form = d.integer(0, 4)
    if width and form < 3:
        shape = d.one_of((width, 3), (width, 3), (width,), (2, 1, width, 3), (1, width, 2))
        y = emit(d, "MatMul", x, weight(d, *shape))
        return emit(d, "Add", y, weight(d, shape[-1])) if len(shape) > 1 and d.chance() else y
    y = d.value("f", range(1, 6))
    if form == 3 and d.rank(y) > 1:
        order = [*range(d.rank(y) - 2), d.rank(y) - 1, d.rank(y) - 2]
        y = emit(d, "Transpose", y, perm=order)
    return emit(d, "Mul", emit(d, "MatMul", x, y), scalar(d, 0.5))


@row(2)
def _gemm(d: Draw) -> str:
    x = d.value("f", 2)
    width, turned = d.shape(x)[-1], d.integer(0, 1)
    if not width:
        raise NoSuchValue
    w = weight(d, *((4, width) if turned else (width, 4)))
    bias = d.one_of([], [weight(d, 4)], [weight(d, 1, 4)], [scalar(d, 0.3)])
    return emit(d, "Gemm", x, w, *bias, transB=turned, alpha=d.one_of(1.0, 0.5), beta=d.one_of(1.0, 0.7))


@row(1.5)
def _einsum(d: Draw) -> str:
    rank = d.one_of(2, 3, 4)
    x = d.value("f", rank)
    y = d.partner(x)
    equation = d.one_of(
        *{2: ["ij,kj->ik", "ij,ij->i"], 3: ["bij,bkj->bik", "bij,bij->bj"], 4: ["bchw,bdhw->bcd", "bhij,bhij->bihj"]}[
            rank
        ]
    )
    return emit(d, "Mul", emit(d, "Einsum", x, y, equation=equation), scalar(d, 0.5))


@row(1.5)
def recurrent(d: Draw) -> str:
    x = d.value("f", 3, test=lambda n: bool(d.shape(n)[-1]))
    width, operator, both = d.shape(x)[-1] or 0, d.one_of("LSTM", "GRU", "RNN"), d.chance(0.4)
    gates, way = {"LSTM": 4, "GRU": 3, "RNN": 1}[operator], 2 if both else 1
    w, r, b = weight(d, way, gates * 2, width), weight(d, way, gates * 2, 2), weight(d, way, gates * 4)
    more: dict[str, Any] = {"linear_before_reset": d.integer(0, 1)} if operator == "GRU" else {}
    direction = "bidirectional" if both else d.one_of("forward", "reverse")
    return emit(d, operator, x, w, r, b, more=1, which=d.integer(0, 1), hidden_size=2, direction=direction, **more)


# -- pictures ---------------------------------------------------------------------------------------------------------


def picture(d: Draw, *ranks: int) -> tuple[str, int, int]:
    """Return a value with known channels in dim 1, the channels, and the number of spatial dims."""
    rank = d.one_of(*(ranks or (3, 4, 4, 4, 4, 5)))
    x = d.value("f", rank, test=lambda n: bool(d.shape(n)[1]))
    return x, d.shape(x)[1] or 0, rank - 2


@row(9)
def conv(d: Draw) -> str:
    x, c, n = picture(d)
    group = d.one_of(1, 1, 1, c, *(g for g in (2, 3) if c % g == 0))
    out = d.one_of(1, 2, 4, 6) if group == 1 else group * d.one_of(1, 2)
    kernel = [d.one_of(1, 3, 3, 2)] * n if d.chance(0.7) else [d.integer(1, 3) for _ in range(n)]
    more: dict[str, Any] = {"strides": d.one_of([1] * n, [2] * n, [d.integer(1, 2) for _ in range(n)]), "group": group}
    if d.chance(0.25):
        more["auto_pad"] = d.one_of("SAME_UPPER", "SAME_LOWER", "VALID")
    else:
        more |= {"pads": [d.one_of(0, 1, 1) for _ in range(2 * n)] if d.chance(0.3) else [d.integer(0, 1)] * 2 * n}
        more |= {"dilations": [d.one_of(1, 1, 1, 2)] * n}
    bias = [weight(d, out)] if d.chance(0.7) else []
    y = emit(d, "Conv", x, weight(d, out, c // group, *kernel), *bias, **more)
    return d.one_of(lambda: y, lambda: y, lambda: emit(d, d.one_of("Relu", "LeakyRelu", "Sigmoid", "HardSwish"), y))()


@row(3)
def _conv_transpose(d: Draw) -> str:
    x, c, n = picture(d)
    group = d.one_of(1, 1, 1, c, *(g for g in (2, 3) if c % g == 0))
    out, stride = d.one_of(1, 2), d.one_of(1, 2)
    more: dict[str, Any] = {"strides": [stride] * n, "group": group, "dilations": [d.one_of(1, 1, 2)] * n}
    if d.chance(0.2):
        more["auto_pad"] = d.one_of("SAME_UPPER", "SAME_LOWER", "VALID")
    else:
        more |= {"pads": [d.one_of(0, 0, 1) for _ in range(2 * n)], "output_padding": [d.integer(0, stride - 1)] * n}
    bias = [weight(d, out * group)] if d.chance(0.6) else []
    return emit(d, "ConvTranspose", x, weight(d, c, out, *[d.one_of(2, 3)] * n), *bias, **more)


@row(5)
def norm(d: Draw) -> str:
    x, c, _ = picture(d)
    s, b = d.layer(f"1 + floats({d.integer(0, 2)}, {c}) * np.float32(0.2)"), weight(d, c)
    m, v = weight(d, c), d.layer(f"np.float32(0.5) + np.abs(floats({d.integer(0, 2)}, {c}))")
    groups = d.one_of(1, c, *(g for g in (2, 3) if c % g == 0))
    return d.one_of(
        lambda: emit(d, "BatchNormalization", x, s, b, m, v, epsilon=d.one_of(1e-5, 1e-3)),
        lambda: emit(d, "BatchNormalization", x, s, b, m, v), lambda: emit(d, "InstanceNormalization",
        x, s, b, epsilon=1e-3),
        lambda: emit(d, "LRN", x, size=d.one_of(1, 3), alpha=0.1, bias=1.5),
        lambda: emit(d, "GroupNormalization",
        x, *(d.layer(f"1 + floats({k}, {c}) * np.float32(0.2)") for k in (4, 5)), num_groups=groups),
    )()  # fmt: skip


@row(2)
def _layer_norm(d: Draw) -> str:
    x = d.value("f", range(2, 6), test=lambda n: (d.shape(n)[-1] or 0) > 1)
    size = d.shape(x)[-1] or 0
    bias = [weight(d, size)] if d.chance(0.7) else []
    return emit(d, "LayerNormalization", x, d.layer(f"1 + floats(6, {size}) * np.float32(0.2)"), *bias)


@row(5)
def pool(d: Draw) -> str:
    x, _, n = picture(d)
    if d.chance(0.25):
        return emit(d, d.one_of("GlobalAveragePool", "GlobalMaxPool"), x)
    operator = d.one_of("MaxPool", "MaxPool", "AveragePool", "AveragePool", "LpPool")
    kernel = [d.one_of(2, 3)] * n if d.chance(0.6) else [d.integer(1, 3) for _ in range(n)]
    more: dict[str, Any] = {"kernel_shape": kernel, "strides": d.one_of([1] * n, [2] * n)}
    if d.chance(0.2):
        more["auto_pad"] = d.one_of("SAME_UPPER", "SAME_LOWER", "VALID")
    else:
        more |= {
            "pads": [d.integer(0, k - 1) if d.chance(0.4) else 0 for k in kernel * 2],
            "ceil_mode": d.one_of(0, 0, 1),
        }
    if operator == "AveragePool":
        more["count_include_pad"] = d.integer(0, 1)
    if d.chance(0.25):
        x = emit(
            d, "Pad", x, ints(d, 0, 0, *(d.integer(0, 2) for _ in range(n)), 0, 0, *(d.integer(0, 2) for _ in range(n)))
        )
    return emit(d, operator, x, **more)


@row(4)
def resize(d: Draw) -> str:
    x, _, n = picture(d)
    mode = d.one_of("nearest", "nearest", "linear", "linear", *(["cubic"] if n == 2 else []))
    more: dict[str, Any] = {
        "mode": mode,
        "coordinate_transformation_mode": d.one_of("half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel"),
    }
    if mode == "nearest":
        more["nearest_mode"] = d.one_of("floor", "round_prefer_floor", "ceil", "round_prefer_ceil")
    scale = d.one_of(2.0, 2.0, 0.5, 3.0)
    if d.chance(0.7):
        return emit(d, "Resize", x, "", d.layer(f"np.array([1, 1, {', '.join([str(scale)] * n)}], np.float32)"), **more)
    lead = emit(d, "Slice", emit(d, "Shape", x), ints(d, 0), ints(d, 2), ints(d, 0))
    sizes = emit(d, "Concat", lead, ints(d, *(d.integer(1, 7) for _ in range(n))), axis=0)
    return emit(d, "Resize", x, "", "", sizes, **more)


@row(3)
def gate(d: Draw) -> str:
    """Emit squeeze and excite, and a residual block."""
    x, c, n = picture(d)
    w = weight(d, c, c, *[3] * n)
    if d.chance():
        y = emit(d, "Conv", emit(d, "GlobalAveragePool", x), weight(d, c, c, *[1] * n))
        return emit(d, "Mul", x, emit(d, "Sigmoid", y))
    y = emit(d, "Conv", x, w, weight(d, c), pads=[1] * 2 * n)
    return emit(d, "Add", x, emit(d, "Relu", y)) if d.chance() else emit(d, "Concat", x, y, axis=1)


@row(2)
def turned(d: Draw) -> str:
    """Emit a convolution between two transposes, as TensorFlow's exporters write it."""
    x = d.value("f", 4, test=lambda n: bool(d.shape(n)[3]))
    c = d.shape(x)[3] or 0
    y = emit(d, "Transpose", x, perm=[0, 3, 1, 2])
    y = emit(d, "Conv", y, weight(d, 4, c, 3, 3), weight(d, 4), pads=[1, 1, 1, 1])
    return emit(d, "Transpose", y, perm=[0, 2, 3, 1])
