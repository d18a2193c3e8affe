"""Rows of the PyTorch programs of `compose.py`: operators whose arguments are sampled from the values so far."""

from __future__ import annotations

from collections.abc import Callable

from tests.suites.compose_program import Draw

Row = Callable[[Draw], str]
ROWS: dict[str, tuple[Row, float]] = {}


def row(weight: float = 1.0) -> Callable[[Row], Row]:
    """Add a row with this weight."""

    def add(function: Row) -> Row:
        ROWS[function.__name__.strip("_")] = (function, weight)
        return function

    return add


def templates(weight: float, kind: str, *texts: str) -> None:
    """Rows of one value, `{x}`: each text has a share of the weight; `{c}` is a number, `{a}` an axis, `{d}` a bool."""
    for text in texts:

        def call(d: Draw, text: str = text) -> str:
            x = d.value(kind, range(1, 20) if "{a}" in text else None)
            axis = d.axis(x) if "{a}" in text else 0
            return text.format(x=x, c=d.number(), p=d.number(0.1, 2), a=axis, d=d.chance())

        ROWS[text] = (call, weight / len(texts))


templates(
    16, "f",
    "torch.relu({x})", "torch.tanh({x})", "torch.sigmoid({x})", "F.gelu({x})", "F.gelu({x}, approximate='tanh')",
    "F.silu({x})", "F.elu({x}, {p})", "F.hardswish({x})", "F.hardsigmoid({x})", "F.softplus({x}, {p})", "F.mish({x})",
    "F.leaky_relu({x}, {p})", "{x}.abs()", "-{x}", "torch.exp(-{x}.abs())", "torch.log({x}.abs() + 0.1)",
    "torch.sqrt({x}.abs() + {p})", "torch.rsqrt({x}.abs() + {p})", "torch.sin({x})", "torch.cos({x})", "torch.erf({x})",
    "torch.atan({x})", "{x} ** 2", "{x}.clamp(-{p}, {p})", "{x}.clamp(min={c})", "{x}.clamp(max={c})", "F.relu6({x})",
    "F.hardtanh({x}, -{p}, {p})", "F.softsign({x})", "F.logsigmoid({x})", "F.selu({x})", "F.celu({x}, {p})",
    "F.threshold({x}, {c}, {c})", "F.tanhshrink({x})", "F.hardshrink({x}, {p})", "F.softshrink({x}, {p})",
    "torch.expm1({x})", "torch.asinh({x})", "torch.log1p({x}.abs())", "torch.special.expit({x})",
    "({x}.abs() + {p}).reciprocal()",
    "F.relu({x}) ** 2", "{x} * torch.sigmoid({x})", "{x}.floor()", "{x}.round()", "{x}.sign()", "{x}.trunc()",
    "{x}.ceil()", "{x} - {x}.floor()",
)  # fmt: skip
templates(5, "f", "{x} + {c}", "{x} * {c}", "{c} - {x}", "{x} / {p}", "{p} / ({x}.abs() + 1)",
    "({x}.abs() + 0.5) ** {c}",
          "torch.remainder({x}, {p})", "torch.fmod({x}, {p})")  # fmt: skip
templates(
    9, "f",
    "{x}.sum({a}, keepdim={d})", "{x}.mean({a}, keepdim={d})", "{x}.amax({a}, keepdim={d})",
    "{x}.amin({a}, keepdim={d})",
    "{x}.max({a}, keepdim={d})[0]", "{x}.min({a}, keepdim={d})[0]", "{x}.std({a}, unbiased=False, keepdim={d})",
    "{x}.var({a}, keepdim={d}, correction=0)", "torch.logsumexp({x}, {a}, keepdim={d})", "torch.softmax({x}, {a})",
    "torch.log_softmax({x}, {a})", "{x}.norm(dim={a}, keepdim={d})", "torch.cumsum({x}, {a})",
    "F.normalize({x}, dim={a})",
    "{x}.prod({a}, keepdim={d})", "{x}.flip({a})", "{x}.mean()", "{x}.sum()", "{x} - {x}.mean({a}, keepdim=True)",
    "{x}.sort({a})[0]", "torch.linalg.vector_norm({x}, ord=1, dim={a}, keepdim={d})", "F.softmin({x}, {a})",
    "{x} / ({x}.abs().sum({a}, keepdim=True) + 0.1)", "torch.cummax({x}, {a})[0]",
)  # fmt: skip
templates(4, "f", "{x}.argmax({a}, keepdim={d})", "{x}.argmin({a}, keepdim={d})", "{x} > {c}", "{x} <= {c}",
          "({x} > 0).sum({a})", "{x}.isfinite().all({a})", "({x} * 3).long()", "{x}.sort({a}, stable=True)[1]",
          "torch.count_nonzero({x} > 0, {a})", "({x} > {c}).any({a}, keepdim={d})")  # fmt: skip
templates(2.5, "i", "{x} + 3", "{x} * 2", "{x} // 3", "{x} % 4", "-{x}", "{x} - 5", "{x}.abs()", "{x} > 2", "{x} == 1",
          "{x}.clamp(0, 5)", "{x}.float().to(torch.int64)", "{x}.sum({a})", "{x}.cumsum({a})", "{x} & 3", "{x} ^ 1",
          "{x} << 1",
          "{x} >> 1", "{x}.amax({a}, keepdim={d})", "{x} ** 2 % 7",
          "torch.div({x}, 4, rounding_mode='trunc')")  # fmt: skip
templates(1.5, "b", "~{x}", "{x}.any({a})", "{x}.all({a}, keepdim={d})", "{x}.sum({a})", "{x}.long()", "{x}.long() + 1")


@row(6)
def binary(d: Draw) -> str:
    x = d.value("f")
    y = d.partner(x)
    return d.one_of("{x} + {y}", "{x} - {y}", "{x} * {y}", "{x} / ({y}.abs() + 0.5)", "torch.maximum({x}, {y})",
                    "torch.minimum({x}, {y})", "torch.lerp({x}, {y}, 0.3)", "torch.where({x} > {y}, {x}, {y} * 0.5)",
                    "torch.atan2({x}, {y}.abs() + 0.2)", "torch.hypot({x}, {y} + 1)", "torch.add({x}, {y}, alpha=0.5)",
                    "({x} > {y})", "({x} < {y}).to({x}.dtype)", "torch.addcmul({x}, {x}, {y}, value=0.5)",
                    "torch.addcdiv({x}, {y}, {y}.abs() + 1)", "F.relu({x} + {y})", "({x} + {y}) * torch.sigmoid({y})",
                    "({x}.abs() + 0.3) ** {y}.tanh()", "F.smooth_l1_loss({x}, {y}, reduction='none')",
                    ).format(x=x, y=y)  # fmt: skip


@row(2)
def integers(d: Draw) -> str:
    x = d.value("i")
    y = d.partner(x)
    return d.one_of("{x} + {y}", "{x} * {y}", "{x} - {y}", "torch.maximum({x}, {y})", "{x} // ({y}.abs() + 1)",
                    "{x} == {y}", "{x} < {y}", "{x} % ({y}.abs() + 2)", "{x} | {y}").format(x=x, y=y)  # fmt: skip


@row(1)
def bools(d: Draw) -> str:
    x = d.value("b")
    y = d.partner(x)
    return d.one_of("{x} & {y}", "{x} | {y}", "{x} ^ {y}", "torch.logical_and({x}, ~{y})").format(x=x, y=y)


@row(2.5)
def where(d: Draw) -> str:
    b, x = d.value("b"), d.value("f")
    y = d.one_of(d.number(), d.partner(x))
    return d.one_of(f"torch.where({b}, {x}, {y})", f"{x}.masked_fill({b}, {d.number()})", f"{x} * {b}")


@row(1.5)
def mixed(d: Draw) -> str:
    x, i = d.value("f"), d.value("ib")
    return d.one_of(f"{x} + {i}", f"{x} * {i}", f"{i}.to({x}.dtype)", f"{x} * {i}.to({x}.dtype) / 3")


@row(3)
def constant(d: Draw) -> str:
    x = d.value("f")
    shape = [s or 1 for s in d.shape(x)]
    shape = [1 if d.chance(0.2) else s for s in shape][d.integer(0, len(shape)) if d.chance(0.3) else 0 :]
    k = "self." + d.layer(f"fixed({d.integer(0, 3)}, {', '.join(map(str, shape))})")
    k = d.one_of(k, k, f"torch.tanh({k} * 2)", f"({k} + 0.5)")
    return d.one_of(f"{x} + {k}", f"{x} * {k}", f"{k} - {x}", f"torch.maximum({x}, {k})", f"{x} + {k}.abs()")


# -- views ------------------------------------------------------------------------------------------------------------


def size(d: Draw, x: str, i: int) -> str:
    """Return a dim as the program writes it: usually a number if it is known."""
    known = d.shape(x)[i]
    return str(known) if known is not None and d.chance(0.8) else f"{x}.shape[{i}]"


@row(5)
def permute(d: Draw) -> str:
    x = d.value("fib", range(2, 7))
    rank = d.rank(x)
    if rank > 2 and d.chance(0.6):
        order = d.one_of([0, *range(2, rank), 1], [0, rank - 1, *range(1, rank - 1)])
    else:
        order = d.shuffled(rank)
    return f"{x}.permute({', '.join(map(str, order))}){d.one_of('', '', '.contiguous()')}"


@row(2)
def transpose(d: Draw) -> str:
    x = d.value("fib", range(2, 7))
    return f"{x}.transpose({d.axis(x)}, {d.axis(x)})"


@row(4)
def flatten(d: Draw) -> str:
    x = d.value("fib", range(2, 7))
    start = d.integer(0, d.rank(x) - 2)
    return f"{x}.flatten({start}, {d.integer(start + 1, d.rank(x) - 1)})"


@row(4)
def reshape(d: Draw) -> str:
    """Emit a reshape: two neighbours joined, or one split, the rest kept, one dim as -1."""
    x = d.value("fib", range(1, 6))
    rank, shape = d.rank(x), d.shape(x)
    dims = [size(d, x, i) for i in range(rank)]
    i = d.integer(0, rank - 1)
    known = shape[i]
    if known and d.chance(0.6):
        factors = [f for f in range(1, known + 1) if known % f == 0]
        factor = d.one_of(*factors)
        dims[i : i + 1] = [str(factor), str(known // factor)]
    elif rank > 1:
        i = min(i, rank - 2)
        dims[i : i + 2] = [f"{dims[i]} * {dims[i + 1]}"]
    if d.chance(0.6):
        dims[d.integer(0, len(dims) - 1)] = "-1"
    return f"{x}.reshape({', '.join(dims)})"


@row(2)
def unsqueeze(d: Draw) -> str:
    x = d.value("fib", range(5))
    return f"{x}.unsqueeze({d.integer(-d.rank(x) - 1, d.rank(x))})"


@row(2)
def squeeze(d: Draw) -> str:
    x = d.value("fib", range(1, 7), test=lambda n: 1 in d.shape(n))
    axis = d.one_of(*(i for i, s in enumerate(d.shape(x)) if s == 1))
    return f"{x}.squeeze({axis})"


@row(1)
def expand(d: Draw) -> str:
    x = d.value("fib", range(1, 6), test=lambda n: 1 in d.shape(n))
    dims = ["-1" if s != 1 else d.one_of("-1", "2", "3") for s in d.shape(x)]
    return f"{x}.expand({', '.join([*d.one_of([], ['2']), *dims])})"


@row(4)
def narrow(d: Draw) -> str:
    x = d.value("fib", range(1, 7))
    axis = d.integer(0, d.rank(x) - 1)
    start, stop, step = d.one_of("", "1", "-2", "2"), d.one_of("", "-1", "3", ""), d.one_of("", "", "2")
    inner = ", ".join([*[":"] * axis, d.one_of(f"{start}:{stop}:{step}", "-1", "0", ":1")])
    return f"{x}[{inner}]"


@row(2)
def index(d: Draw) -> str:
    x = d.value("fib", range(2, 6))
    return d.one_of(
        f"{x}[:, [0, -1]]", f"{x}[..., [0, 0]]", f"{x}[..., None]", f"{x}[None]", f"{x}[:, 0, None]", f"{x}[..., ::2]"
    )


@row(3)
def split(d: Draw) -> str:
    x = d.value("fib", range(1, 6))
    axis = d.axis(x, static=True, least=2)
    return d.one_of(f"{x}.chunk(2, {axis})[{d.integer(0, 1)}]", f"{x}.split(1, {axis})[-1]",
                    f"{x}.tensor_split(2, {axis})[0]",
                    f"torch.cat({x}.chunk(2, {axis})[::-1], {axis})", f"{x}.unbind({axis})[0]",
                    f"torch.stack({x}.unbind({axis}), -1)",
                    f"{x}.roll({d.integer(-2, 2)}, {axis})", f"{x}.narrow({axis}, 1, 1)",
                    f"F.glu({x}, {axis})")  # fmt: skip


@row(4)
def cat(d: Draw) -> str:
    x = d.value("fib", range(1, 6))
    y = d.partner(x)
    if d.chance(0.25):
        return f"torch.stack([{x}, {x if d.rank(x) != d.rank(y) else y}], {d.integer(-d.rank(x) - 1, d.rank(x))})"
    parts = d.one_of(
        f"{x}, {y}", f"{x}, {x}", f"{x}, {y}, {x}", f"{x}, -{x}.long()" if d.kind(x) == "i" else f"{x}, {y}"
    )
    return f"torch.cat([{parts}], {d.axis(x)})"


@row(4)
def pad(d: Draw) -> str:
    x = d.value("f", range(1, 6))
    count = d.integer(1, min(3, d.rank(x)))
    widths = [d.integer(0, 2) if d.chance(0.85) else -1 for _ in range(2 * count)]
    mode = d.one_of("constant", "constant", "reflect", "replicate", "circular")
    if mode == "circular":  # after negative amounts, it may read more than there is: uninitialized memory
        widths = [max(n, 0) for n in widths]
    value = f", value={d.number()}" if mode == "constant" and d.chance(0.4) else ""
    return f"F.pad({x}, {widths}, mode='{mode}'{value})"


@row(1.5)
def repeated(d: Draw) -> str:
    x = d.value("fib", range(1, 5))
    axis = d.axis(x)
    counts = ", ".join(str(d.one_of(1, 1, 2)) for _ in range(d.rank(x)))
    return d.one_of(f"{x}.repeat({counts})", f"{x}.repeat_interleave(2, {axis})", f"torch.tile({x}, (2,))")


@row(1.5)
def matrices(d: Draw) -> str:
    x = d.value("f", range(2, 6))
    return d.one_of(f"torch.tril({x})", f"torch.triu({x}, 1)", f"{x}.diagonal(0, -2, -1)", f"{x}.mT",
                    f"{x} @ {x}.mT / 4",
                    f"torch.tril({x} @ {x}.mT, -1)")  # fmt: skip


@row(2)
def gathered(d: Draw) -> str:
    x, i = d.value("f", range(1, 5)), d.value("i", range(1, 4))
    axis = d.axis(x)
    n = f"{x}.shape[{axis}]"
    return d.one_of(
        f"{x}.index_select({axis}, ({i} % {n}).flatten())", f"{x}[{i} % {x}.shape[0]]",
        f"torch.gather({x}, {axis}, {i} % {n})",
        f"{x}[:, ({i} % {x}.shape[1])]", f"torch.take_along_dim({x}, {i} % {n}, {axis})",
        f"{x}.scatter_add({axis}, {i} % {n}, {x})", f"{x}.index_add({axis}, ({i} % {n}).flatten(), {x})",
        f"torch.scatter({x}, {axis}, {i} % {n}, 0.5)",
    )  # fmt: skip


@row(1.5)
def made_of_sizes(d: Draw) -> str:
    x = d.value("f", range(1, 6))
    axis = d.integer(0, d.rank(x) - 1)
    n = f"{x}.shape[{axis}]"
    return d.one_of(f"torch.arange({n})", f"torch.ones({n}, 2)", f"torch.zeros_like({x})+1", f"{x} / {n}",
                    f"torch.full(({n}, {n}), 0.5).triu()",
                    f"torch.arange({n}).to({x}.dtype) / {n}", f"{x}.sum({axis}) / ({n} + 1)",
                    f"torch.eye({n})")  # fmt: skip


@row(1)
def ids(d: Draw) -> str:
    i = d.value("i", range(3))
    name = d.layer(f"nn.Embedding(7, {d.one_of(1, 4, 6)})")
    return d.one_of(f"self.{name}({i} % 7)", f"F.one_hot({i} % 5, 5)", f"F.one_hot({i} % 5, 5) * 1.5")


@row(1)
def top(d: Draw) -> str:
    x = d.value("f", range(1, 5))
    axis = d.axis(x, static=True, least=2)
    found = f"{x}.topk(2, {axis}, largest={d.chance()})"
    # PyTorch does not define which of equal numbers it takes.
    return d.one_of(f"{found}[0]", f"{found}[0]", f"{x}.gather({axis}, {found}[1])")
