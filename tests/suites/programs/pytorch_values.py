"""PyTorch programs of tensor arithmetic: views and writes, dtypes, indices, sorting, transforms, odd lengths."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from tests.suites.programs.torch_program import b, f, i, program

ROWS3 = (f(4, 3), f(1, 3), f(7, 3))
SQUARE = (f(2, 4, 4), f(1, 4, 4), f(5, 4, 4))


def written_view(x: Tensor) -> Tensor:
    y = x.clone()
    first = y[0]
    first.add_(1)
    first[1] = 7
    return y * 2


def write_through_transpose(x: Tensor) -> Tensor:
    y = x * 1
    y.t()[1].mul_(10)
    y.view(-1)[0] = -1
    return y


def write_through_diagonal(x: Tensor) -> Tensor:
    y = x.clone()
    y.diagonal(dim1=1, dim2=2).fill_(9)
    return y.triu() + y.tril()


def write_before_and_after_read(x: Tensor) -> tuple[Tensor, Tensor]:
    y = x + 0
    before = y.sum(1)
    y[:, 0] = 0
    return before, y.sum(1)


def swap_columns(x: Tensor) -> Tensor:
    y = x.clone()
    y[:, [0, 2]] = y[:, [2, 0]]
    return y


def expand_then_write(x: Tensor) -> Tensor:
    y = x.sum(0, keepdim=True).expand(3, -1).clone()
    y[1] += 1
    return y


def masked_write(x: Tensor) -> Tensor:
    y = x.clone()
    y[y < 0] = 0.5
    y[x > 1] *= 2
    return y


def index_put_accumulate(x: Tensor) -> Tensor:
    y = torch.zeros(4)
    return y.index_put((torch.tensor([0, 1, 1, 3]),), x[0, :1].expand(4), accumulate=True)


def stepped_write(x: Tensor) -> Tensor:
    y = torch.zeros_like(x)
    y[::2] = x[::2]
    y[:, 1::2] = -1
    return y


def written_regions(x):
    y, z, w = x * 2, x * 3, x * 4
    with torch.autocast("cpu", enabled=False):
        flat, own = y.view(-1), w + 1
    with torch.enable_grad():
        turned = z.t()
    flat.add_(1)
    turned += 1
    own.mul_(2)
    return y, z, w, own


def truncated_sizes(x):
    n = x.shape[0]
    toward_zero = torch.div(n - 10, 3, rounding_mode="trunc") * 100 + torch.div(n * 5, 3, rounding_mode="trunc")
    return x + toward_zero + torch.div(n - 10, 3, rounding_mode="floor")


def written_pieces(x: Tensor) -> tuple[Tensor, ...]:
    """Write into every other row, rows of an unbind, and pieces of a split and of a chunk, which all share memory."""
    y, z, w = x.clone(), x * 1, x.repeat(1, 2)
    every_other = y[::2]
    every_other += 1
    for number, column in enumerate(y.unbind(1)):
        column.add_(number * 10)
    z.split([1, 2], 1)[1].zero_()
    z.unsafe_chunk(2, 1)[0].clamp_(max=1)
    left, right = w.chunk(2, 1)
    left.mul_(2)
    right.sub_(left)
    left.copy_(right.flip(0))
    return y, z, w, right


def dict_out(x: Tensor) -> dict[str, Any]:
    return {"a": x + 1, "nested": [x * 2, (x * 3, x * 4)], "z": x.sum(), "scale": 0.1, "on": True, "half": len(x) / 2}


def promote(x: Tensor, n: Tensor) -> tuple[Tensor, ...]:
    return x + n, n / 2, n // 2, n % 3, n * True, (n > 1) + 1, x.double() * n, n.to(torch.int32) + n


def integer_division(n: Tensor) -> tuple[Tensor, ...]:
    k = n - 4
    modes = ("floor", "trunc")
    return (
        k // 3,
        k % 3,
        k // -3,
        k % -3,
        torch.remainder(k, 3),
        torch.fmod(k, 3),
        *(torch.div(k, 2, rounding_mode=m) for m in modes),
    )


def float_division(x: Tensor) -> tuple[Tensor, ...]:
    return x // 0.3, x % 0.3, x % -0.3, torch.fmod(x, 0.3), torch.div(x, 0.3, rounding_mode="trunc")


def shifts(n: Tensor) -> tuple[Tensor, ...]:
    small = n.to(torch.uint8)
    return n << 2, n >> 1, (n - 3) >> 1, n & 3, n | 8, n ^ 5, ~n, small << 3, small >> 1


def unpack_nibbles(n: Tensor) -> Tensor:
    packed = (n * 37 % 256).to(torch.uint8)
    return torch.stack([packed & 0xF, packed >> 4], -1).flatten(-2).to(torch.float32)


def fourier(x: Tensor) -> tuple[Tensor, ...]:
    z = torch.fft.rfft(x)
    return z.abs(), z.real, torch.fft.irfft(z, n=x.shape[-1]), torch.fft.fftshift(x, dim=1)


def complex_arithmetic(x: Tensor) -> Tensor:
    z = torch.complex(x, x.flip(1))
    return torch.view_as_real(z * z.conj() + (z / (z.abs() + 1)).exp())


def ranks(x: Tensor) -> tuple[Tensor, ...]:
    values, order = x.sort(1, descending=True)
    top = x.topk(2, dim=1)
    return values, order, top.values, top.indices, x.argsort(0), x.kthvalue(2, dim=1).values, x.median(1).values


def stable_sort_of_equals(n: Tensor) -> tuple[Tensor, ...]:
    values, order = torch.sort(n, dim=0, stable=True)
    return values, order, n.argmax(0), n.argmin(0)


def unique_all(n: Tensor) -> tuple[Tensor, ...]:
    return torch.unique(n, return_inverse=True, return_counts=True)


def nonzero_rows(x: Tensor) -> tuple[Tensor, Tensor]:
    kept = x[:, 0] > 0
    return x[kept], kept.nonzero()


def rounded_quotients(k: Tensor) -> tuple[Tensor, ...]:
    """Return rows and columns of positions in a map of 41; TensorFlow's optimizer replaces k / 41 by k times 1 / 41."""
    return (k / 41).floor(), (k / 41).long(), k.float() // 41, k.float() % 41, (k / 41).ceil() == k / 41


def scatters(x: Tensor, n: Tensor) -> tuple[Tensor, ...]:
    zero = torch.zeros(5, 3)
    index = n.unsqueeze(1).expand(-1, 3)
    return (
        zero.scatter_add(0, index, x),
        zero.scatter_reduce(0, index, x, "amax", include_self=False),
        zero.index_add(0, n, x),
        x.gather(1, torch.zeros_like(index)),
    )


def segment_mean(x: Tensor, n: Tensor) -> Tensor:
    total = torch.zeros(5, 3).index_add_(0, n, x)
    count = torch.bincount(n, minlength=5).clamp(min=1)
    return total / count.unsqueeze(1)


def masks(x: Tensor) -> tuple[Tensor, ...]:
    keep = torch.ones(x.shape[0], x.shape[0], dtype=torch.bool).tril()
    scores = (x @ x.t()).masked_fill(~keep, float("-inf"))
    return scores.softmax(-1), torch.where(keep, 1.0, 0.0), scores.logsumexp(-1)


def positions(x: Tensor) -> Tensor:
    at = torch.arange(x.shape[0], dtype=torch.float32).unsqueeze(1)
    rate = torch.exp(torch.arange(0, 4, 2) * (-math.log(10000.0) / 4))
    table = torch.zeros(x.shape[0], 4)
    table[:, 0::2], table[:, 1::2] = torch.sin(at * rate), torch.cos(at * rate)
    return x[:, :1] + table


def windows(x: Tensor) -> tuple[Tensor, ...]:
    return x.unfold(1, 2, 1), F.pad(x, (1, 2), value=3.0), F.pad(x.unsqueeze(0), (1, 1), mode="reflect")


def paddings(x: Tensor) -> tuple[Tensor, ...]:
    modes = ("reflect", "replicate", "circular")
    return (*(F.pad(x.unsqueeze(1), (1, 2, 2, 1), mode=m) for m in modes), F.pad(x, (-1, 1, 0, -1)))


def resized(x: Tensor) -> tuple[Tensor, ...]:
    y = x.unsqueeze(1)
    return (
        F.interpolate(y, scale_factor=2, mode="nearest"),
        F.interpolate(y, size=(7, 3), mode="bilinear", align_corners=False),
        F.interpolate(y, size=(6, 9), mode="bilinear", align_corners=True),
        F.interpolate(y, scale_factor=0.5, mode="bilinear", align_corners=False, antialias=True),
        F.interpolate(y, size=(3, 5), mode="bicubic"),
        F.interpolate(y, size=(3, 5), mode="area"),
    )


def sampled(x: Tensor) -> tuple[Tensor, ...]:
    theta = torch.tensor([[[0.8, 0.3, 0.1], [-0.2, 1.1, 0.0]]]).expand(x.shape[0], -1, -1)
    grid = F.affine_grid(theta, [x.shape[0], 1, 5, 6], align_corners=False)
    y = x.unsqueeze(1)
    return F.grid_sample(y, grid, align_corners=False), F.grid_sample(y, grid, "nearest", "border", align_corners=True)


def einsums(x: Tensor) -> tuple[Tensor, ...]:
    return (
        torch.einsum("bij,bjk->bik", x, x),
        torch.einsum("bij->ji", x),
        torch.einsum("bii->bi", x),
        torch.einsum("bij,bkj,bk->bi", x, x, x[:, 0]),
        torch.einsum("...ij,...ij->...", x, x),
    )


def statistics(x: Tensor) -> tuple[Tensor, ...]:
    return (
        x.std(1), x.var(1, unbiased=False), x.norm(p=1, dim=1), x.norm(dim=1), x.prod(1), x.cumsum(0), x.cumprod(1),
        x.logcumsumexp(0), x.amax(0), x.min(1).indices, x.mean(), x.cummax(0).values, x.quantile(0.3, dim=1),
    )  # fmt: skip


def none_out(x: Tensor) -> tuple[Tensor, None, Tensor]:
    return x + 1, None, x - 1


def rounding(x: Tensor) -> tuple[Tensor, ...]:
    y = x * 10
    return y.round(), torch.tensor([0.5, 1.5, -2.5]).round() + x, y.to(torch.int32), y.trunc(), y.frac(), y.long() // 3


def special(x: Tensor) -> tuple[Tensor, ...]:
    y = torch.cat([x, torch.tensor([[math.inf, -math.inf, math.nan]])])
    return y.clamp(min=-1), y.relu(), y.nan_to_num(), torch.isnan(y), y.sign(), torch.maximum(y, -y), y.sort(0).values


def flat(x: Tensor) -> tuple[Tensor, ...]:
    return x.flatten(), x.reshape(-1, 1), x.view(x.size(0), -1), x.unflatten(1, (3, 1)), x.ravel()[::2]


def cut_beyond_the_end(x: Tensor) -> tuple[Tensor, ...]:
    y = x.clone()
    y[20:] = 0
    return y, x[-30:2]


def searched(x: Tensor, edges: Tensor) -> tuple[Tensor, ...]:
    """Search in unsorted edges, and in edges with NaN at their end, where the result depends on how the search
    halves.
    """
    ordered = x.sort(1).values
    return torch.searchsorted(edges, x), torch.bucketize(x, edges, right=True), torch.searchsorted(ordered, x)


def negated_comparisons(x: Tensor) -> tuple[Tensor, ...]:
    """Negate comparisons: with NaN, a negated comparison is not the opposite comparison."""
    return ~(x > 0), torch.where(torch.logical_not(x <= x.flip(1)), x, 1.0), (~(x < 1)).sum(1), ~(x >= 0.5)


def running(x: Tensor) -> tuple[Tensor, ...]:
    return x.cumprod(0), *x.cummax(0), *x.cummin(0), x.logcumsumexp(0)


def shuffled(x: Tensor) -> tuple[Tensor, ...]:
    return x.roll(1, 0), x.flip(0, 1), x.rot90(), x.repeat(2, 1), x.repeat_interleave(2, 0), x.tile(1, 2), x.t()


def looped(x: Tensor) -> Tensor:
    total = torch.zeros(x.shape[0])
    for column in x.unbind(1):
        total = total * 0.5 + column
    return total


def cat_of_unequal(x: Tensor) -> Tensor:
    return torch.cat([x, x[:1], x.mean(0, keepdim=True), torch.zeros(0, 3)])


def distances(x: Tensor) -> tuple[Tensor, ...]:
    return torch.cdist(x, x * 2), F.cosine_similarity(x, x.flip(0)), F.pairwise_distance(x, x + 1)


def without_text(x: Tensor) -> dict[str, Any]:
    return {"y": x * 2, "kind": "boxes", "none": None}


def complex_by_hand(x: Tensor) -> tuple[Tensor, ...]:
    z = x + 1j * x.flip(0)
    out = torch.zeros(x.shape, dtype=torch.cfloat)
    out[:, 1:] = z[:, :2]
    joined = torch.cat([z, x])
    return (z.real, z.imag, torch.exp(1j * x).real, torch.view_as_real(out), torch.view_as_real(joined))


def products_of_integers(x: Tensor, n: Tensor) -> Tensor:
    return torch.addcmul(x, n[:, None], n[:, None] + 1, value=0.5)


def lookups(n: Tensor) -> tuple[Tensor, ...]:
    table = torch.arange(15, dtype=torch.float32).view(5, 3)
    hot = F.one_hot(n, 5)
    return (
        F.embedding(n, table),
        table[n],
        table[n, n % 3],
        hot,
        hot.float() @ table,
        torch.bucketize(table[n], torch.tensor([2.0, 5.0, 5.0, 9.0])),
    )


NAN = torch.tensor([[math.nan, 1.0, 0.0], [0.5, math.nan, -1.0], [math.inf, -math.inf, 2.0]])

VALUES = [
    program("cut_beyond_the_end", cut_beyond_the_end, f(4, 3), f(2, 3), f(7, 3)),
    program("rounded_quotients", rounded_quotients, *(torch.arange(n, 3000, 41) for n in (0, 2980, 7))),
    program("searched", searched, *((f(n, 3), f(m, seed=m)) for n, m in ((4, 5), (1, 1), (7, 16), (3, 0)))),
    program("negated_comparisons", negated_comparisons, NAN, NAN[:1], f(7, 3)),
    *(program(fn.__name__, fn, *ROWS3) for fn in (
        written_view, write_through_transpose, write_before_and_after_read, swap_columns, expand_then_write,
        masked_write, index_put_accumulate, stepped_write, written_pieces, written_regions, truncated_sizes,
        dict_out, float_division,
        complex_arithmetic, ranks, nonzero_rows, masks, positions, statistics, none_out, rounding, without_text,
        complex_by_hand, special, flat,
        shuffled, looped, running, cat_of_unequal, distances,
    )),
    *(program(fn.__name__, fn, *SQUARE) for fn in (
        write_through_diagonal, fourier, paddings, resized, sampled, einsums,
    )),
    *(program(fn.__name__, fn, i(4), i(1), i(7)) for fn in (
        integer_division, shifts, unpack_nibbles, stable_sort_of_equals, unique_all, lookups,
    )),
    *(program(fn.__name__, fn, (f(4, 3), i(4)), (f(1, 3), i(1)), (f(7, 3), i(7))) for fn in (scatters, segment_mean)),
    program("found_among_none", lambda n, m: torch.isin(n, m[m > 3]), (i(4), i(5)), (i(4), torch.zeros(5).long())),
    program("products_of_integers", products_of_integers, (f(4, 3), i(4)), (f(1, 3), i(1)), (f(7, 3), i(7))),
    program("promote", promote, (f(4), i(4)), (f(1), i(1))),
    program("windows", windows, f(4, 3), f(2, 3)),
    program("masked mean", lambda x, m: (x * m).sum(0) / m.sum(0).clamp(min=1), (f(4, 3), b(4, 3)), (f(1, 3), b(1, 3))),
    program("keyword and default", lambda x, scale=2.0, *, shift=1: x * scale + shift, *ROWS3),
    program("where of scalars", lambda x: torch.where(x > 0, 1, 0).sum() + torch.where(x > 0, x, 0), *ROWS3),
    program("outer and kron", lambda x: (torch.outer(x[0], x[0]), torch.kron(x, torch.eye(2))), *ROWS3),
    program("solve", lambda x: torch.linalg.solve(x @ x.mT + 5 * torch.eye(4), x), *SQUARE),
    program("triangles", lambda x: (torch.linalg.cholesky(x @ x.mT + 5 * torch.eye(4)), x.det()), *SQUARE),
    program("ellipsis", lambda x: (x[..., 0], x[:, None, 1], x[..., -1:, :], x[0, ..., 1:3]), *SQUARE),
    program("tensor index", lambda x: x[torch.arange(x.shape[0]), torch.arange(x.shape[0]) % 3], *ROWS3),
    program("take along", lambda x: torch.take_along_dim(x, x.argmax(1, keepdim=True), 1), *ROWS3),
    program("histogram", lambda n: torch.bincount(n, minlength=6), i(4), i(1), i(9)),
    program("float to ints", lambda x: ((x * 50).to(torch.int8), x.abs().to(torch.uint8), x.bool()), *ROWS3),
    program("rounded to bfloat16", lambda x: x.bfloat16().float() + 1, *ROWS3),
]  # fmt: skip
