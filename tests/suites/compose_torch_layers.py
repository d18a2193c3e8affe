"""Rows of the PyTorch programs of `compose.py`: matrix products, image and sequence layers."""

from __future__ import annotations

from tests.suites.compose_program import Draw, NoSuchValue
from tests.suites.compose_torch_ops import row

# -- products ---------------------------------------------------------------------------------------------------------


@row(7)
def linear(d: Draw) -> str:
    x = d.value("f", range(1, 6), test=lambda n: bool(d.shape(n)[-1]))
    name = d.layer(f"nn.Linear({d.shape(x)[-1]}, {d.one_of(1, 2, 4, 6)}, bias={d.chance(0.7)})")
    return d.one_of(f"self.{name}({x})", f"self.{name}({x})", f"F.relu(self.{name}({x}))", f"F.gelu(self.{name}({x}))")


@row(4)
def matmul(d: Draw) -> str:
    x = d.value("f", range(1, 6))
    y = d.value("f", range(1, 6))
    width = d.shape(x)[-1]
    if width and d.chance(0.4):
        shape = d.one_of(f"{width}, 3", f"{width}", f"2, 1, {width}, 3", f"1, {width}, 2")
        return f"torch.matmul({x}, self.{d.layer(f'fixed({d.integer(0, 2)}, {shape})')}) / 2"
    return d.one_of(f"torch.matmul({x}, {y}) / 2", f"torch.matmul({x}, {y}.mT) / 2", f"torch.matmul({x}.mT, {y}) / 2")


@row(2)
def einsum(d: Draw) -> str:
    rank = d.one_of(2, 3, 3, 4)
    x = d.value("f", rank)
    y = d.partner(x)
    forms = {
        2: ["ij,ij->i", "ij,kj->ik", "ij,ij->ji", "ij,ij->"],
        3: ["bij,bkj->bik", "bij,bij->bj", "bij,bik->bjk", "bij,bij->bji", "bij,cij->bc"],
        4: ["bhij,bhkj->bhik", "bchw,bchw->bhw", "bchw,bdhw->bcd", "bhij,bhij->bihj"],
    }[rank]
    return f"torch.einsum('{d.one_of(*forms)}', {x}, {y}) / 2"


@row(2)
def attention(d: Draw) -> str:
    if d.chance(0.5):
        q = d.value("f", range(3, 6))
        causal = d.one_of("", ", is_causal=True")
        k = d.one_of(q, q, d.partner(q))
        return f"F.scaled_dot_product_attention({q}, {k}, {k}{causal})"
    x = d.value("f", 3, test=lambda n: bool(d.shape(n)[-1]) and (d.shape(n)[-1] or 0) % 2 == 0)
    name = d.layer(f"nn.MultiheadAttention({d.shape(x)[-1]}, 2, batch_first={d.chance()})")
    return f"self.{name}({x}, {x}, {x})[{d.one_of(0, 0, 1)}]"


@row(1.5)
def recurrent(d: Draw) -> str:
    x = d.value("f", 3, test=lambda n: bool(d.shape(n)[-1]))
    kind = d.one_of("LSTM", "GRU", "RNN")
    name = d.layer(
        f"nn.{kind}({d.shape(x)[-1]}, {d.one_of(2, 3)}, batch_first={d.chance()}, bidirectional={d.chance(0.4)})"
    )
    last = "[1][0]" if kind == "LSTM" else "[1]"
    return f"self.{name}({x}){d.one_of('[0]', '[0]', last)}"


# -- pictures ---------------------------------------------------------------------------------------------------------


def picture(d: Draw, ranks: tuple[int, ...] = (3, 4, 4, 4, 4, 5)) -> tuple[str, int, int]:
    """Return a value with known channels in dim 1, the channels, and the number of spatial dims."""
    rank = d.one_of(*ranks)
    x = d.value("f", rank, test=lambda n: bool(d.shape(n)[1]))
    return x, d.shape(x)[1] or 0, rank - 2


@row(9)
def conv(d: Draw) -> str:
    x, c, n = picture(d)
    group = d.one_of(1, 1, 1, c, *(g for g in (2, 3) if c % g == 0))
    out = d.one_of(1, 2, 4, 6) if group == 1 else group * d.one_of(1, 1, 2)
    kernel = d.one_of(1, 3, 3, 2, tuple(d.integer(1, 3) for _ in range(n)))
    pads = d.one_of(0, 1, 1, "'same'", tuple(d.integer(0, 1) for _ in range(n)))
    stride = 1 if pads == "'same'" else d.one_of(1, 1, 2, tuple(d.integer(1, 2) for _ in range(n)))
    mode = d.one_of(*["zeros"] * 6, "reflect", "circular", "replicate")
    name = d.layer(
        f"nn.Conv{n}d({c}, {out}, {kernel}, stride={stride}, padding={pads}, dilation={d.one_of(1, 1, 1, 2)}, "
        f"groups={group}, bias={d.chance(0.7)}, padding_mode='{mode}')"
    )
    return d.one_of("{}", "{}", "F.relu({})", "F.leaky_relu({}, 0.2)", "F.silu({})").format(f"self.{name}({x})")


@row(3)
def conv_transpose(d: Draw) -> str:
    x, c, n = picture(d)
    group = d.one_of(1, 1, 1, c, *(g for g in (2, 3) if c % g == 0))
    stride = d.one_of(1, 2, 2)
    name = d.layer(
        f"nn.ConvTranspose{n}d({c}, {group * d.one_of(1, 2)}, {d.one_of(1, 2, 3)}, stride={stride}, "
        f"padding={d.one_of(0, 1)}, output_padding={d.one_of(0, 0, stride - 1)}, groups={group}, bias={d.chance(0.7)}, "
        f"dilation={d.one_of(1, 1, 2)})"
    )
    return f"self.{name}({x})"


@row(5)
def norm(d: Draw) -> str:
    x, c, n = picture(d)
    groups = d.one_of(1, c, *(g for g in (2, 3) if c % g == 0))
    name = d.layer(
        d.one_of(f"nn.BatchNorm{n}d({c})", f"nn.BatchNorm{n}d({c})", f"nn.GroupNorm({groups}, {c})",
                 f"nn.InstanceNorm{n}d({c}, affine={d.chance()})", f"nn.PReLU({d.one_of(1, c)})",
                 f"nn.LocalResponseNorm({d.one_of(2, 3)})", f"nn.Sequential(nn.BatchNorm{n}d({c}), nn.ReLU())")
    )  # fmt: skip
    return f"self.{name}({x})"


@row(3)
def layer_norm(d: Draw) -> str:
    x = d.value("f", range(2, 6), test=lambda n: (d.shape(n)[-1] or 0) > 1)
    kind = d.one_of("LayerNorm", "LayerNorm", "RMSNorm")
    return f"self.{d.layer(f'nn.{kind}({d.shape(x)[-1]})')}({x})"


@row(5)
def pool(d: Draw) -> str:
    x, _, n = picture(d)
    kernel = d.one_of(2, 2, 3, 1, tuple(d.integer(1, 3) for _ in range(n)))
    stride = d.one_of("None", 1, 2, 2)
    pads, ceil = d.one_of(0, 0, 1), d.chance(0.25)
    return d.one_of(
        f"F.max_pool{n}d({x}, {kernel}, {stride}, {pads}, {d.one_of(1, 1, 2)}, ceil_mode={ceil})",
        f"F.avg_pool{n}d({x}, {kernel}, {stride}, {pads}, ceil_mode={ceil}, count_include_pad={d.chance()})",
        f"F.adaptive_avg_pool{n}d({x}, {d.one_of(1, 1, 2)})", f"F.adaptive_max_pool{n}d({x}, 1)",
        f"F.max_pool{n}d(F.pad({x}, {[d.integer(0, 2) for _ in range(2 * n)]}), {kernel}, {stride}, {pads})",
        f"F.avg_pool{n}d(F.pad({x}, {[d.integer(0, 1) for _ in range(2 * n)]}), {kernel}, {stride}, {pads})",
    )  # fmt: skip


@row(4)
def resize(d: Draw) -> str:
    x, _, n = picture(d)
    linear = {1: "linear", 2: "bilinear", 3: "trilinear"}[n]
    mode = d.one_of("nearest", "nearest", linear, linear, "nearest-exact", *(["bicubic"] if n == 2 else []))
    corners = f", align_corners={d.chance()}" if mode in (linear, "bicubic") else ""
    target = d.one_of(
        "scale_factor=2",
        "scale_factor=2",
        "scale_factor=0.5",
        "scale_factor=1.5",
        f"size={[d.integer(1, 6) for _ in range(n)]}",
    )
    y = d.one_of(x, x, f"{x}.transpose(1, -1)")
    return f"F.interpolate({y}, {target}, mode='{mode}'{corners})"


@row(1.5)
def shuffled(d: Draw) -> str:
    x, c, _ = picture(d, (4,))
    if c % 4 and d.chance():
        raise NoSuchValue
    return d.one_of(f"F.pixel_shuffle({x}, 2)", f"F.pixel_unshuffle({x}, 2)", f"F.channel_shuffle({x}, 2)",
                    f"F.unfold({x}, {d.one_of(2, 3)}, padding=1)", f"F.pad({x}, [1, 1, 1, 1])[:, :, 1:-1]")  # fmt: skip


@row(3)
def gate(d: Draw) -> str:
    """Emit squeeze and excite, residual sums and other forms that networks have."""
    x, c, n = picture(d)
    axes = list(range(2, n + 2))
    name = d.layer(f"nn.Conv{n}d({c}, {c}, {d.one_of(1, 3)}, padding='same')")
    there = f"permute(0, {', '.join(map(str, range(2, n + 2)))}, 1)"
    back = f"permute(0, {n + 1}, {', '.join(map(str, range(1, n + 1)))})"
    return d.one_of(
        f"{x} * torch.sigmoid(self.{name}({x}.mean({axes}, keepdim=True)))", f"{x} + F.relu(self.{name}({x}))",
        f"{x}.mean({axes})", f"{x}.amax({axes}, keepdim=True)", f"torch.cat([{x}, self.{name}({x})], 1)",
        f"{x}.flatten(2).transpose(1, 2)", f"self.{name}({x}.{there}.contiguous().{back})",
    )  # fmt: skip
