"""Operators that move, index, reduce, multiply and loop, from jax.numpy and jax.lax, compared with JAX."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.scipy.linalg import qr_multiply

from tests.frontends.jax.support import Row, check, exported, params, read, row
from tests.support.cases import boolean, f32, f64, i32, i64

pytestmark = pytest.mark.not_core

X, M = f32(3, 4), f32(4, 5)
I = np.array([2, 0, 1, -1], np.int32)  # noqa: E741


def conv(dims: Any, **options: Any):
    """Return a convolution with these dimension numbers."""
    options.setdefault("window_strides", (1, 1))
    options.setdefault("padding", "SAME")
    return lambda x, w: lax.conv_general_dilated(x, w, dimension_numbers=dims, **options)


NCHW, NHWC = ("NCHW", "OIHW", "NCHW"), ("NHWC", "HWIO", "NHWC")
IMAGE, LAST = f32(2, 4, 7, 9), f32(2, 7, 9, 4)

SHAPES = [
    row("reshape", lambda x: x.reshape(2, 6), X),
    row("reshape dynamic", lambda x: x.reshape(-1, 2), X, dims=["b,4"]),
    row("reshape two dynamic", lambda x: x.reshape(x.shape[0] * x.shape[1], 4), f32(2, 3, 4), dims=["b,n,4"]),
    row("split heads", lambda x: x.reshape(*x.shape[:2], 2, 2).transpose(0, 2, 1, 3), f32(2, 3, 4), dims=["b,n,4"]),
    row("merge heads", lambda x: x.transpose(0, 2, 1, 3).reshape(x.shape[0], x.shape[2], 8), f32(2, 2, 3, 4),
        dims=["b,2,n,4"]),
    row("transpose", lambda x: x.transpose(2, 0, 1), f32(2, 3, 4), dims=["b,n,4"]),
    row("broadcast_to", lambda x: jnp.broadcast_to(x, (2, 3, 4)), X),
    row("broadcast dynamic", lambda x, y: jnp.broadcast_to(y, x.shape) * 1, X, f32(4), dims=["b,4"]),
    row("an output that is broadcast", lambda x: jnp.zeros_like(x), X, dims=["b,4"]),
    row("outer", jnp.outer, f32(3), f32(4), dims=["a", "b"]),
    row("concatenate", lambda x, y: jnp.concatenate([x, y, x], 1), X, f32(3, 2), dims=["b,4", "b,2"]),
    row("concatenate dynamic", lambda x, y: jnp.concatenate([x, y], 0), X, f32(2, 4), dims=["b,4", "c,4"]),
    row("stack", lambda x: jnp.stack([x, 2 * x], 1), X, dims=["b,4"]),
    row("tile", lambda x: jnp.tile(x, (2, 3)), X, dims=["b,4"]),
    row("repeat", lambda x: jnp.repeat(x, 3, 1), X, dims=["b,4"]),
    row("flip", lambda x: jnp.flip(x, (0, 1)), X, dims=["b,4"]),
    row("roll", lambda x: jnp.roll(x, 1, 1), X, dims=["b,4"]),
    row("slice", lambda x: x[:, 1:4:2], X, dims=["b,4"]),
    row("slice dynamic", lambda x: x[1:], X, dims=["b,4"]),
    row("slice backwards", lambda x: x[:, ::-1], X, dims=["b,4"]),
    row("arange of a size", lambda x: x + jnp.arange(x.shape[0], dtype=jnp.float32)[:, None], X, dims=["b,4"]),
    row("causal mask", lambda x: jnp.where(jnp.tril(jnp.ones((x.shape[0], x.shape[0]), bool)), x @ x.T, -1e9), X,
        dims=["b,4"]),
    row("eye", lambda x: x @ jnp.eye(4, dtype=x.dtype), X, dims=["b,4"]),
    row("tri", lambda x: jnp.triu(x, 1), X),
    row("diagonal", lambda x: jnp.diagonal(x), f32(4, 4)),
    row("trace", jnp.trace, f32(4, 4)),
    row("pad", lambda x: jnp.pad(x, ((1, 2), (0, 3)), constant_values=0.5), X, dims=["b,4"]),
    row("pad reflect", lambda x: jnp.pad(x, ((0, 0), (2, 1)), mode="reflect"), X, dims=["b,4"]),
    row("pad edge", lambda x: jnp.pad(x, ((0, 0), (2, 1)), mode="edge"), X),
    row("pad below zero", lambda x: lax.pad(x, np.float32(0), ((-1, 2, 0), (1, -2, 0))), X),
    row("pad between", lambda x: lax.pad(x, np.float32(7), ((1, 0, 2), (-1, 2, 1))), X),
    row("pad between dynamic", lambda x: lax.pad(x, np.float32(7), ((1, 0, 2), (-1, 2, 1))), X, dims=["b,4"]),
    row("pad to a size", lambda x, y: jnp.pad(x, ((0, y.shape[0]), (0, 0))), X, f32(2), dims=["b,4", "c"]),
    row("expand_dims", lambda x: x[None, :, None], X, dims=["b,4"]),
    row("squeeze", lambda x: jnp.squeeze(x, 1), f32(3, 1, 4), dims=["b,1,4"]),
    row("sizes as a number", lambda x: x / x.shape[0], X, dims=["b,4"]),
    row("mean over a dynamic axis", lambda x: x.mean(0), X, dims=["b,4"]),
    row("bitcast", lambda x: lax.bitcast_convert_type(x, jnp.uint32), i32(4)),
    row("meshgrid", lambda x, y: jnp.stack(jnp.meshgrid(x, y)), f32(3), f32(4)),
    row("space to depth", lambda x: x.reshape(1, 2, 2, 2, 2, 3).transpose(0, 1, 3, 2, 4, 5).reshape(1, 2, 2, 12),
        f32(1, 4, 4, 3)),
    row("resize", lambda x: jax.image.resize(x, (1, 8, 8, 3), "bilinear"), f32(1, 4, 4, 3)),
    row("resize nearest", lambda x: jax.image.resize(x, (1, 8, 8, 3), "nearest"), f32(1, 4, 4, 3)),
]  # fmt: skip


def compose(x: Any, y: Any, axes: tuple[int, ...]) -> Any:
    """The composition of functions a·t + b, which is associative and not commutative."""
    start = (np.float32(1), np.float32(0))
    return lax.reduce((x, y), start, lambda p, q: (p[0] * q[0], p[1] * q[0] + q[1]), axes)


REDUCTIONS = [
    *(row(f"{name} {axis}", partial(f, axis=axis), X, dims=["b,4"]) for axis in (0, 1, None)
      for name, f in {"sum": jnp.sum, "max": jnp.max, "min": jnp.min, "prod": jnp.prod, "mean": jnp.mean}.items()),
    *(row(f"{name} int", partial(f, axis=1), i32(3, 4), dims=["b,4"]) for name, f in
      {"sum": jnp.sum, "max": jnp.max, "min": jnp.min, "prod": jnp.prod}.items()),
    row("var", lambda x: jnp.var(x, 1), X, dims=["b,4"]), row("std", lambda x: jnp.std(x, 1, ddof=1), X),
    row("norm", lambda x: jnp.linalg.norm(x, axis=1), X, dims=["b,4"]),
    row("any", lambda x: jnp.any(x, 1), boolean(3, 4), dims=["b,4"]),
    row("all", lambda x: jnp.all(x, 0), boolean(3, 4)),
    row("argmax", lambda x: jnp.argmax(x, 1), X, dims=["b,4"]), row("argmin", lambda x: jnp.argmin(x, 0), X),
    row("argmax of ties", lambda x: jnp.argmax(x, 1), np.array([[1, 3, 3], [2, 2, 0]], np.int32)),
    row("argmax dynamic", lambda x: jnp.argmax(x, 0), X, dims=["b,4"]),
    row("argmax flat", jnp.argmax, X), row("count_nonzero", lambda x: jnp.count_nonzero(x, 1), i32(3, 4)),
    row("logsumexp", lambda x: jax.nn.logsumexp(x, 1), X, dims=["b,4"]),
    row("softmax", lambda x: jax.nn.softmax(x, 1), X, dims=["b,4"]),
    row("log_softmax", lambda x: jax.nn.log_softmax(x, 1), X, dims=["b,4"]),
    row("standardize", lambda x: jax.nn.standardize(x, 1), X, dims=["b,4"]),
    row("one_hot", lambda x: jax.nn.one_hot(x, 5), i32(4, low=0, high=5), dims=["b"]),
    row("cumsum", lambda x: jnp.cumsum(x, 1), X, dims=["b,4"]), row("cumprod", lambda x: jnp.cumprod(x, 1), X),
    row("cumsum int", lambda x: jnp.cumsum(x, 0), i32(3, 4)), row("cummax", lambda x: lax.cummax(x, 1), X),
    row("cumsum backwards", lambda x: lax.cumsum(x, 1, reverse=True), X),
    row("cumlogsumexp", lambda x: lax.cumlogsumexp(x, 1), X),
    row("associative scan", lambda x: lax.associative_scan(jnp.multiply, x, axis=1), f32(3, 5)),
    row("reduce by a function", lambda x: lax.reduce(x, np.float32(0), lambda a, b: a + b + a * b * 0, (1,)), f32(3,
        5)),
    row("reduce of two", lambda x, y: lax.reduce((x, y), (np.float32(0), np.float32(1)),
        lambda a, b: (a[0] + b[0], a[1] * b[1]), (1,)), f32(3, 5), f32(3, 5, low=0.5)),
    *(row(f"reduce in order over {axes}", partial(compose, axes=axes), f32(3, 7), f32(3, 7))
      for axes in ((1,), (0, 1))),
    row("reduce by a function that is called", lambda x: lax.reduce(x, np.float32(np.nan), lambda a, b: jnp.where(
        jnp.isnan(a), b, a), (0, 1)), np.where(f32(3, 5) > 0.5, np.nan, f32(3, 5))),
    row("median", lambda x: jnp.median(x, 1), f32(3, 5)), row("ptp", lambda x: jnp.ptp(x, 1), X),
    row("nanmean", lambda x: jnp.nanmean(x, 1), np.where(X > 1.5, np.nan, X)),
    row("sum bfloat16", lambda x: jnp.sum(x.astype(jnp.bfloat16), 1).astype(jnp.float32), X, tolerance=2e-2),
    row("reduce_precision", lambda x: lax.reduce_precision(x, 8, 7), X),
]  # fmt: skip
PRODUCTS = [
    *(row(f"conv of {kind} that overflows", conv(NHWC, window_strides=(2, 1)), *(
          i64(*shape, low=-(2**62), high=2**62).astype(kind) for shape in ((2, 5, 4, 3), (2, 2, 3, 4))))
      for kind in ("int8", "uint8", "int16", "int32", "uint32", "int64")),
    row("conv with batch groups", conv(NCHW, batch_group_count=2), IMAGE, f32(6, 4, 3, 3)),
    row("conv with batch groups and gaps", conv(NHWC, batch_group_count=2, lhs_dilation=(2, 2), padding=((1, 1), (
        2, 2))), LAST, f32(3, 3, 4, 6)),
    row("gradient of a depthwise kernel", jax.grad(lambda w, x: (conv(NHWC, feature_group_count=4)(x, w) ** 2).sum()),
        f32(3, 3, 1, 4), LAST, tolerance=1e-3),
    row("a layer of one sample, mapped", jax.vmap(jax.vmap(lambda v: jnp.asarray(M) @ v)), f32(2, 3, 5),
        dims=["b,n,5"], operators=("MatMul",)),
    row("a matrix times a tensor", lambda x, y: lax.dot_general(x, y, (((0,), (2,)), ((), ()))), f32(3, 2),
        f32(4, 5, 3), dims=["3,2", "b,n,3"]),
    row("matmul", jnp.matmul, X, M, dims=["b,4"]), row("matmul of vectors", jnp.matmul, f32(4), f32(4)),
    row("matrix and vector", jnp.matmul, X, f32(4), dims=["b,4"]), row("vector and matrix", jnp.matmul, f32(4), M),
    row("batched", jnp.matmul, f32(2, 3, 4), f32(2, 4, 5), dims=["b,n,4", "b,4,5"]),
    row("batch and none", jnp.matmul, f32(2, 3, 4), M, dims=["b,n,4"]),
    row("tensordot", lambda x, y: jnp.tensordot(x, y, ((1, 2), (0, 1))), f32(2, 3, 4), f32(3, 4, 5), dims=["b,3,4"]),
    *(row(e, partial(jnp.einsum, e), f32(*a), f32(*b), dims=d) for e, a, b, d in [
        ("bqhd,bkhd->bhqk", (2, 3, 2, 4), (2, 5, 2, 4), ["b,q,2,4", "b,k,2,4"]),
        ("bhqk,bkhd->bqhd", (2, 2, 3, 5), (2, 5, 2, 4), ["b,2,q,k", "b,k,2,4"]),
        ("bnd,dhk->bnhk", (2, 3, 4), (4, 2, 3), ["b,n,4"]), ("bnhk,hkd->bnd", (2, 3, 2, 4), (2, 4, 5), ["b,n,2,4"]),
        ("ij,ij->i", (3, 4), (3, 4), ["b,4", "b,4"]), ("ij,kj->ik", (3, 4), (5, 4), ["b,4"]),
        ("i,j->ij", (3,), (4,), []), ("bij,bjk->bki", (2, 3, 4), (2, 4, 5), []), ("abc,cb->a", (2, 3, 4), (4, 3), []),
    ]),
    row("int8 to int32", lambda x, y: lax.dot(x, y, preferred_element_type=jnp.int32),
        i64(3, 4).astype(np.int8), i64(4, 5).astype(np.int8)),
    row("matmul float64", jnp.matmul, f64(3, 4), f64(4, 5)), row("matmul int32", jnp.matmul, i32(3, 4), i32(4, 5)),
    row("vmap of matmul", jax.vmap(jnp.matmul), f32(2, 3, 4), f32(2, 4, 5)),
    row("kron", jnp.kron, f32(2, 3), f32(2, 2)), row("vdot", jnp.vdot, X, X),
    *(row(f"conv {name}", f, x, w, dims=d) for name, f, x, w, d in [
        ("NCHW", conv(NCHW), IMAGE, f32(6, 4, 3, 3), ["b,4,7,9"]), ("NHWC", conv(NHWC), LAST, f32(3, 3, 4, 6),
        ["b,7,9,4"]),
        ("sizes", conv(NHWC), LAST, f32(3, 3, 4, 6), ["b,h,w,4"]),
        ("strides", conv(NHWC, window_strides=(2, 3)), LAST, f32(3, 3, 4, 6), ["b,7,9,4"]),
        ("dilated", conv(NCHW, rhs_dilation=(2, 1)), IMAGE, f32(6, 4, 3, 3), []),
        ("valid", conv(NCHW, padding="VALID"), IMAGE, f32(6, 4, 3, 3), ["b,4,7,9"]),
        ("pads below zero", conv(NCHW, padding=((-1, 2), (0, -1))), IMAGE, f32(6, 4, 3, 3), []),
        ("groups", conv(NHWC, feature_group_count=2), LAST, f32(3, 3, 2, 6), ["b,7,9,4"]),
        ("depthwise", conv(NHWC, feature_group_count=4), LAST, f32(3, 3, 1, 8), []),
        ("gaps", conv(NCHW, lhs_dilation=(2, 2), padding=((1, 1), (1, 1))), IMAGE, f32(6, 4, 3, 3), []),
        ("gaps and strides", conv(NCHW, lhs_dilation=(2, 2), window_strides=(1, 2), padding=((1, 2), (0, 1))), IMAGE,
        f32(6, 4, 3, 3), []),
        ("gaps and groups", conv(NCHW, lhs_dilation=(2, 1), feature_group_count=2, padding=((1, 2), (0, 1))), IMAGE,
        f32(6, 2, 3, 3), []),
        ("HWNC", conv(("HWNC", "IOHW", "HNWC")), f32(7, 9, 2, 4), f32(4, 6, 3, 3), []),
    ]),
    row("conv 1d", lambda x, w: lax.conv_general_dilated(x, w, (1,), "SAME", dimension_numbers=("NWC", "WIO", "NWC")),
        f32(2, 7, 4), f32(3, 4, 5), dims=["b,7,4"]),
    row("conv 3d", lambda x, w: lax.conv_general_dilated(x, w, (1, 1, 1), "VALID"), f32(1, 2, 4, 5, 6), f32(3, 2, 2,
        2, 2)),
    *(row(f"conv_transpose {p} {s}", partial(lax.conv_transpose, strides=(s, s), padding=p), LAST, f32(k, k, 4, 3),
          dims=["b,7,9,4"]) for p, s, k in (("SAME", 2, 3), ("VALID", 2, 2), ("SAME", 1, 3), ("SAME", 3, 2))),
    row("conv_transpose turned", partial(lax.conv_transpose, strides=(2, 2), padding="SAME", transpose_kernel=True),
        LAST,
        f32(3, 3, 5, 4)),
    row("convolve", jnp.convolve, f32(7), f32(3)),
    row("conv of bytes", lambda x, w: lax.conv(x, w, (1, 1), "SAME", preferred_element_type=jnp.int32),
        (10 * IMAGE).astype(np.int8), (9 * f32(6, 4, 3, 3)).astype(np.int8)),
    row("sums of known bytes wrap around", lambda x: x + (jnp.array([120, 3], jnp.int8) + jnp.array(
        [10, 4], jnp.int8)) // 2, np.array([[1, 2]], np.int8)),
]  # fmt: skip


def pool(f: Any, start: Any, window: tuple[int, ...], strides: tuple[int, ...], padding: Any, **options: Any):
    """A reduction over windows."""
    return lambda x: lax.reduce_window(x, np.asarray(start, x.dtype), f, window, strides, padding, **options)


def pool_gradient(window: tuple[int, ...], strides: tuple[int, ...], padding: str):
    """The gradient of the squares of largest elements: `select_and_scatter`."""
    largest = pool(lax.max, -np.inf, window, strides, padding)
    return jax.grad(lambda x: (largest(x) ** 2).sum())


POOLS = [
    row("max NHWC", pool(lax.max, -np.inf, (1, 2, 2, 1), (1, 2, 2, 1), "VALID"), LAST, dims=["b,7,9,4"]),
    row("max SAME", pool(lax.max, -np.inf, (1, 3, 3, 1), (1, 2, 2, 1), "SAME"), LAST, dims=["b,7,9,4"]),
    row("max NCHW", pool(lax.max, -np.inf, (1, 1, 3, 2), (1, 1, 1, 2), "SAME"), IMAGE, dims=["b,4,7,9"]),
    row("min", pool(lax.min, np.inf, (1, 2, 2, 1), (1, 2, 2, 1), "SAME"), LAST),
    row("sum", pool(lax.add, 0, (1, 2, 2, 1), (1, 2, 2, 1), "VALID"), LAST, dims=["b,7,9,4"]),
    row("average", lambda x: pool(lax.add, 0, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")(x) / 4, LAST, dims=["b,7,9,4"],
        operators=("Transpose", "AveragePool", "Transpose")),
    row("sum SAME", pool(lax.add, 0, (1, 3, 3, 1), (1, 2, 2, 1), "SAME"), LAST),
    row("dilated", pool(lax.max, -np.inf, (1, 2, 2, 1), (1, 1, 1, 1), "VALID", window_dilation=(1, 2, 2, 1)), LAST),
    row("gaps", pool(lax.max, -np.inf, (1, 2, 2, 1), (1, 1, 1, 1), "VALID", base_dilation=(1, 2, 2, 1)), LAST),
    row("integers", pool(lax.add, 0, (2, 2), (1, 2), "VALID"), i32(4, 6)),
    row("five dims", pool(lax.max, -np.inf, (1, 1, 2, 2, 1), (1, 1, 2, 2, 1), "VALID"), f32(2, 3, 4, 4, 2)),
    row("by a function", pool(lambda a, b: a + b, 0, (2, 2), (1, 2), "VALID"), f32(4, 6)),
    row("products", pool(lax.mul, 1, (2, 3), (1, 1), "VALID"), f32(4, 6)),
    row("gradient of max", pool_gradient((1, 2, 2, 1), (1, 2, 2, 1), "VALID"), LAST, dims=["b,7,9,4"]),
    row("gradient of max SAME", pool_gradient((1, 3, 3, 1), (1, 2, 2, 1), "SAME"), LAST, dims=["b,7,9,4"]),
    row("gradient of max NCHW", pool_gradient((1, 1, 2, 3), (1, 1, 2, 1), "SAME"), IMAGE, dims=["b,4,7,9"]),
    row("gradient of max of ties", pool_gradient((3, 2), (1, 1), "SAME"), i32(5, 6, low=0, high=3).astype(np.float32)),
]  # fmt: skip
INDEXING = [
    row("take", lambda x, i: x[i], X, I % 3, dims=["b,4"]), row("take clip", lambda x, i: jnp.take(x, i, 1,
        mode="clip"),
        X, I, dims=["b,4", "n"]),
    row("take fill", lambda x, i: jnp.take(x, i, 0, mode="fill", fill_value=7), X, np.array([0, 5, -2, 3], np.int32)),
    row("embedding", lambda t, i: t[i], M, i32(2, 3, low=0, high=4), dims=["4,5", "b,n"]),
    row("two axes", lambda x, i, j: x[i, j], X, I % 3, I % 4), row("middle axis", lambda x, i: x[:, i], f32(2, 3, 4),
        I % 3),
    row("axes apart", lambda x, i, j: x[i, :, j], f32(3, 2, 4), I % 3, I % 4),
    row("take_along_axis", lambda x, i: jnp.take_along_axis(x, i, 1), X, i32(3, 2, low=0, high=4)),
    row("take_along_axis dynamic", lambda x, i: jnp.take_along_axis(x, i, 1), X, i32(3, 2, low=0, high=4),
        dims=["b,4", "b,2"]),
    row("one element", lambda x, i: x[1, i], X, np.int32(2)), row("last row", lambda x: x[-1], X, dims=["b,4"]),
    row("scalar index", lambda x, i: x[i], X, np.int32(-1), dims=["b,4"]),
    row("vmap of dynamic_slice", jax.vmap(lambda x, i: lax.dynamic_slice(x, (i,), (2,))), X, np.array([0, 3, -5],
        np.int32)),
    row("dynamic_slice", lambda x, i: lax.dynamic_slice(x, (i, np.int32(1)), (2, 2)), X, np.int32(5)),
    row("dynamic_slice below", lambda x, i: lax.dynamic_slice(x, (i, i), (2, 3)), X, np.int32(-3)),
    row("dynamic_index", lambda x, i: lax.dynamic_index_in_dim(x, i, 1), X, np.int32(2), dims=["b,4"]),
    row("dynamic_update_slice", lambda x, u, i: lax.dynamic_update_slice(x, u, (i, np.int32(1))), X, f32(2, 2),
        np.int32(2)),
    row("cache", lambda c, u, i: lax.dynamic_update_slice(c, u, (i * 0, i, i * 0)), f32(2, 5, 4), f32(2, 2, 4),
        np.int32(1),
        dims=["b,5,4", "b,2,4"]),
    row("gather windows", lambda x, i: lax.gather(x, i, lax.GatherDimensionNumbers((1, 2), (), (0, 1)), (2, 3),
        mode="clip"),
        X, np.array([[0, 0], [1, 1], [5, 5]], np.int32)),
    row("set", lambda x, i: x.at[i].set(5.0), X, I % 3, dims=["b,4"]), row("add", lambda x, i, u: x.at[i].add(u), X,
        I % 3,
        f32(4, 4), dims=["b,4"]),
    *(row(f"at {name}", lambda x, i, u, f=f: f(x.at[i], u), X, np.array([2, 0, 9, -1], np.int32), f32(4, 4))
      for name, f in {"set": lambda a, u: a.set(u, mode="drop"), "add": lambda a, u: a.add(u),
                      "mul": lambda a, u: a.mul(u), "max": lambda a, u: a.max(u), "min": lambda a,
        u: a.min(u)}.items()),
    row("set two axes", lambda x, i, j: x.at[i, j].set(1.0), X, I % 3, I % 4),
    row("set a column", lambda x: x.at[:, 1].set(3.0), X, dims=["b,4"]),
    row("set a slice", lambda x, y: x.at[1:3, ::2].set(y), X, f32(2, 2)),
    row("set booleans", lambda x, i: x.at[i].set(True), boolean(5), I % 5),
    row("apply", lambda x, i: x.at[i].apply(jnp.tanh, unique_indices=True), X, np.array([2, 0], np.int32)),
    row("segment_sum", lambda x, s: jax.ops.segment_sum(x, s, 5), f32(6, 3), np.array([0, 2, 2, 1, 4, 9], np.int32),
        dims=["n,3", "n"]),
    row("segment_max", lambda x, s: jax.ops.segment_max(x, s, 5), f32(6, 3), np.array([0, 2, 2, 1, 4, 0], np.int32)),
    row("bincount", lambda x: jnp.bincount(x, length=5), i32(7, low=0, high=5)),
    row("scatter windows", lambda x, i, u: lax.scatter_add(x, i, u, lax.ScatterDimensionNumbers((1, 2), (), (0, 1))), X,
        np.array([[0, 0], [1, 1], [5, 5]], np.int32), f32(3, 2, 3)),
    row("vmap of at", jax.vmap(lambda x, i: x.at[i].set(9.0)), X, np.array([1, 3, 0], np.int32)),
    row("searchsorted", lambda a, v: jnp.searchsorted(a, v), np.sort(f32(9)), f32(5)),
    row("interp", lambda x: jnp.interp(x, jnp.arange(4.0), jnp.arange(4.0) ** 2), f32(5, low=0, high=3)),
    row("choose", lambda i, x: jnp.choose(i, [x[0], x[1], x[2]], mode="clip"), i32(4, low=0, high=3), X),
    row("select_n", lambda i, x: lax.select_n(i > 0, x, -x), i32(3, 4), X),
]  # fmt: skip
IN_PLACE = [
    row("set one element of each row", jax.vmap(lambda x, k: x.at[k].set(9.0)), X, np.array([-6, 3, 5], np.int32),
        dims=["b,4", "b"]),
    row("add several elements to each row", jax.vmap(lambda x, k, u: x.at[k].add(u)), f32(3, 5), i32(3, 4, low=-6,
        high=7), f32(3, 4), dims=["b,5", "b,4", "b,4"]),
    row("a cache with a place for each row", jax.vmap(lambda c, u, k: lax.dynamic_update_slice(c, u, (k, k * 0))),
        f32(3, 5, 4), f32(3, 1, 4), i32(3, low=0, high=7), dims=["b,5,4", "b,1,4", "b"]),
    row("add at pairs of places", lambda x, i, j, u: x.at[i, j].add(u), f32(5, 6), i32(4, low=-6, high=7),
        i32(4, low=-6, high=7), f32(4), dims=["a,c", "n", "n", "n"]),
    row("multiply on the diagonal", lambda x, i: x.at[i, i].mul(3.0), f32(5, 6), i32(4, low=-3, high=9), dims=["a,c"]),
    row("apply on the diagonal", lambda x, i: x.at[i, i].apply(jnp.tanh, unique_indices=True), f32(5, 6),
        np.array([3, 1], np.int32), dims=["a,c"]),
    row("set booleans at pairs of places", lambda x, i, j: x.at[i, j].set(True), boolean(5, 6), i32(4, low=-6, high=7),
        i32(4, low=-6, high=7), dims=["a,c"]),
    row("add windows", lambda x, i, u: lax.scatter_add(x, i, u, lax.ScatterDimensionNumbers((1, 2), (), (0, 1))),
        f32(7, 4), np.array([[0, 0], [1, 1], [6, 5], [5, 1]], np.int32), f32(4, 2, 3), dims=["b+2,4"]),
]  # fmt: skip
"""Scatters into tensors of dynamic size, at places some of which lie outside."""
RUNNING = {"sum": lax.cumsum, "product": lax.cumprod, "max": lax.cummax, "min": lax.cummin}
BY_SIZE = [
    *(row(f"sizes divided by a number: {name}", f, f32(8, 6), dims=[d]) for name, f, d in [
        ("every second row", lambda x: x[::2], "a,6"), ("every third of both", lambda x: x[1::3, ::2], "a,b"),
        ("rows from the end", lambda x: x[::-2], "a,6"), ("product", lambda x: x[::2] @ x[::2].T, "a,6"),
        ("set", lambda x: x.at[::2].set(0), "a,6"), ("first half", lambda x: x[: x.shape[0] // 2], "a,6"),
        ("second half", lambda x: x[x.shape[0] // 2 :], "a,6"),
        ("halves", lambda x: x[: x.shape[0] // 2] * x[x.shape[0] // 2 :], "2*a,6"),
        ("rotary", lambda x: jnp.stack([-x[:, 1::2], x[:, ::2]], -1).reshape(x.shape), "a,2*b"),
        ("pairs of rows", lambda x: x[: x.shape[0] // 2 * 2].reshape(-1, 2, 6).mean(1), "a,6"),
    ]),
    *(row(f"running {name} {dtype} {'backwards' if reverse else ''}", partial(f, axis=0, reverse=reverse),
          i64(7, 4, low=1, high=4).astype(dtype), dims=["b,4"], tolerance=1e-2 if dtype == "float16" else 2e-5)
      for name, f in RUNNING.items() for reverse in (False, True)
      for dtype in ("float32", "float16", "int32", "uint8")),
    row("running logsumexp", partial(lax.cumlogsumexp, axis=0), X, dims=["b,4"]),
    row("running sum along a middle axis", partial(jnp.cumsum, axis=1), f32(2, 7, 3), dims=["b,n,3"]),
    row("sum of a whole axis by a window", lambda x: lax.reduce_window(x, np.float32(0), lax.add, (x.shape[0], 1),
        (1, 1), "VALID"), X, dims=["b,4"]),
    *(row(f"conv {p} {s} of any size", conv(NHWC, window_strides=(s, s), padding=p), LAST, f32(3, 3, 4, 6),
          dims=["b,h,w,4"]) for p in ("SAME", "SAME_LOWER") for s in (2, 3)),
    row("conv with gaps of any size", lambda x, w: lax.conv_transpose(x, w, (2, 2), "SAME"), LAST, f32(3, 3, 4, 3),
        dims=["b,h,w,4"]),
    *(row(f"{name} pool of any size", lambda x, f=f, start=start: lax.reduce_window(x, np.float32(start), f,
          (1, 3, 3, 1), (1, 2, 2, 1), "SAME"), LAST, dims=["b,h,w,4"])
      for name, f, start in (("max", lax.max, -np.inf), ("sum", lax.add, 0))),
    row("top_k of half", lambda x: lax.top_k(x, x.shape[1] // 2)[0], f32(3, 8), dims=["b,2*n"]),
    row("approx_max_k of half", lambda x: lax.approx_max_k(x, x.shape[1] // 2)[0], f32(3, 8), dims=["b,2*n"]),
    row("approx_min_k", lambda x: lax.approx_min_k(x, 2), f32(3, 8), dims=["b,8"]),
    row("approx_min_k of half", lambda x: lax.approx_min_k(x, x.shape[1] // 2)[0], f32(3, 8), dims=["b,2*n"]),
    row("second differences", lambda x: jnp.diff(x, n=2, axis=0), X, dims=["b+2,4"]),
]  # fmt: skip
"""Windows, padding and results whose sizes depend on sizes of inputs."""
SORTS = [
    row("sort", lambda x: jnp.sort(x, 1), X, dims=["b,4"]), row("sort down", lambda x: jnp.sort(x, 0,
        descending=True), X),
    row("argsort", lambda x: jnp.argsort(x, 1), X, dims=["b,4"]), row("argsort ties", jnp.argsort, i32(20, low=0,
        high=4)),
    row("argsort down", lambda x: jnp.argsort(x, 1, descending=True), X),
    row("lexsort", lambda x, y: jnp.lexsort((x, y)), i32(20, low=0, high=4), i32(20, low=0, high=3)),
    row("sort of several", lambda x, y: lax.sort((x, y), num_keys=1), i32(20, low=0, high=9), f32(20)),
    row("sort by two keys", lambda x, y: lax.sort((x, y), num_keys=2), i32(20, low=0, high=4), f32(20)),
    row("top_k", lambda x: lax.top_k(x, 2), X, dims=["b,4"]), row("unique", lambda x: jnp.unique(x, size=4), i32(6)),
    row("sort booleans", jnp.sort, boolean(5)), row("sort uint8", jnp.sort, i64(6, low=0, high=9).astype(np.uint8)),
    row("top_k bfloat16", lambda x: lax.top_k(x.astype(jnp.bfloat16), 2)[1], X),
    row("approx_max_k", lambda x: lax.approx_max_k(x, 2), f32(3, 8)),
    row("percentile", lambda x: jnp.percentile(x, 30, axis=1), f32(3, 5)),
]  # fmt: skip


def lstm_like(x: Any, w: Any) -> Any:
    """Return a recurrent layer by lax.scan."""

    def step(h: Any, v: Any) -> Any:
        h = jnp.tanh(v + h @ w)
        return h, h * 2

    return lax.scan(step, jnp.zeros((x.shape[1], 4)), x)


CONTROL = [
    row("cond", lambda x: lax.cond(x.sum() > 0, jnp.sin, jnp.cos, x), X, dims=["b,4"]),
    row("cond other", lambda x: lax.cond(x.sum() > 1e6, jnp.sin, jnp.cos, x), X),
    row("switch", lambda i, x: lax.switch(i, [jnp.sin, jnp.cos, jnp.tan], x), np.int32(1), X),
    row("switch beyond", lambda i, x: lax.switch(i, [jnp.sin, jnp.cos, jnp.tan], x), np.int32(9), X),
    row("while", lambda x: lax.while_loop(lambda c: c[0].sum() < 100, lambda c: (c[0] * 2 + 1, c[1] + 1), (abs(x),
        0)), X,
        dims=["b,4"]),
    row("while that does not run", lambda x: lax.while_loop(lambda c: c.sum() > 1e9, lambda c: c + 1, x), X),
    row("fori_loop", lambda x: lax.fori_loop(0, 5, lambda i, c: c + i * x, x), X, dims=["b,4"]),
    row("fori_loop of a number", lambda n, x: lax.fori_loop(0, n, lambda i, c: c * 0.5 + x, x), np.int32(4), X),
    row("scan", lstm_like, f32(6, 2, 4), f32(4, 4), dims=["6,b,4"]),
    row("scan backwards", lambda x: lax.scan(lambda c, v: (c + v, c * v), jnp.zeros(4), x, reverse=True), X),
    row("scan of nothing", lambda x: lax.scan(lambda c, _: (c * 1.5, None), x, None, length=3), X, dims=["b,4"]),
    row("nested", lambda x: lax.fori_loop(0, 3, lambda i, c: lax.cond(i > 1, lambda: c + x, lambda: c * 2), x), X),
    row("map", lambda x: lax.map(lambda v: v @ v, x), X), row("vmap of cond", jax.vmap(lambda v: lax.cond(v.sum() > 0,
        jnp.sin, jnp.cos, v)), X),
    row("checkpoint", jax.checkpoint(lambda x: jnp.sin(x) @ x.T), X), row("jit in jit",
        lambda x: jax.jit(jnp.sin)(x) + 1, X),
    row("custom_jvp", jax.nn.silu, X), row("stop_gradient", lambda x: lax.stop_gradient(x) * 2, X),
    row("gradient", jax.grad(lambda x: jnp.sum(jnp.tanh(x @ x.T))), X),
]  # fmt: skip
SQUARE = f32(4, 4) @ f32(4, 4).T + 4 * np.eye(4, dtype=np.float32)
LINALG = [
    row("cholesky", jnp.linalg.cholesky, SQUARE, tolerance=1e-4),
    row("solve_triangular", lambda a, b: jax.scipy.linalg.solve_triangular(a, b, lower=True), SQUARE, M,
        tolerance=1e-4),
    row("solve_triangular trans", lambda a, b: jax.scipy.linalg.solve_triangular(a, b, trans=1), SQUARE, M,
        tolerance=1e-4),
    row("cho_solve", lambda a, b: jax.scipy.linalg.cho_solve(jax.scipy.linalg.cho_factor(a), b), SQUARE, M,
        tolerance=1e-4),
    row("eigvalsh", jnp.linalg.eigvalsh, SQUARE, tolerance=1e-4),
    row("eigh", lambda a: (lambda w, v: (v * w) @ v.T)(*jnp.linalg.eigh(a)), SQUARE, tolerance=1e-4),
    row("inv", jnp.linalg.inv, SQUARE, tolerance=1e-4), row("solve", jnp.linalg.solve, SQUARE, M, tolerance=1e-4),
    row("det", jnp.linalg.det, SQUARE, tolerance=1e-3), row("slogdet", jnp.linalg.slogdet, SQUARE, tolerance=1e-4),
    row("qr", jnp.linalg.qr, f32(5, 4), tolerance=1e-4), row("qr wide", jnp.linalg.qr, f32(3, 4), tolerance=1e-4),
    row("svd", lambda a: (lambda u, s, v: (u[:, :4] * s) @ v)(*jnp.linalg.svd(a)), f32(5, 4), tolerance=1e-4),
    row("svd values", lambda a: jnp.linalg.svd(a, compute_uv=False), f32(5, 4), tolerance=1e-4),
    row("pinv", jnp.linalg.pinv, f32(5, 4), tolerance=1e-3), row("lstsq", lambda a, b: jnp.linalg.lstsq(a, b)[0],
        f32(5, 4),
        f32(5), tolerance=1e-3),
    *(row(f"{name} of any batch", f, np.stack([SQUARE, SQUARE.T + 0.5, 2 * SQUARE]), dims=["b,4,4"], tolerance=1e-3)
      for name, f in {
          "inv": jnp.linalg.inv, "slogdet": jnp.linalg.slogdet, "cholesky": jnp.linalg.cholesky, "qr": jnp.linalg.qr,
          "eigvalsh": jnp.linalg.eigvalsh, "solve": lambda a: jnp.linalg.solve(a, a[..., :1]),
          "svd": lambda a: jnp.linalg.svd(a, compute_uv=False),
      }.items()),
    row("tridiagonal_solve", lax.linalg.tridiagonal_solve, f32(5), f32(5, low=1) + 2, f32(5), f32(5, 2),
        tolerance=1e-4),
    row("tridiagonal_solve of any batch", lax.linalg.tridiagonal_solve, f32(3, 5), f32(3, 5, low=1) + 2, f32(3, 5),
        f32(3, 5, 2), dims=["b,5", "b,5", "b,5", "b,5,2"], tolerance=1e-4),
    row("svd by QR", lambda a: lax.linalg.svd(a, compute_uv=False, algorithm=lax.linalg.SvdAlgorithm.QR), f32(5, 4),
        tolerance=1e-4),
    *(row(f"qr_multiply {mode} {'conjugate' if turned else ''}", lambda a, c, m=mode, t=turned: qr_multiply(
          a, c, m, conjugate=t)[0], f32(5, 4), f32(*shape), tolerance=1e-4)
      for mode, shape in (("left", (4, 3)), ("right", (3, 5))) for turned in (False, True)),
    row("cholesky float64", jnp.linalg.cholesky, SQUARE.astype(np.float64)), row("matrix_power",
        lambda a: jnp.linalg.matrix_power(a, 3),
        SQUARE, tolerance=1e-3),
]  # fmt: skip

NOTHING = np.zeros((0, 4), np.float32)
EMPTY = [
    *(row(f"{name} of nothing", f, NOTHING) for name, f in {
        "sum": lambda x: x.sum(0), "prod": lambda x: jnp.prod(x, 0), "any": lambda x: (x > 0).any(0),
        "all": lambda x: (x > 0).all(0), "mean": lambda x: x.mean(0), "max": lambda x: jnp.max(x, 0, initial=-1),
        "concatenate": lambda x: jnp.concatenate([x, x + 1, jnp.ones((2, 4), x.dtype)]), "dot": lambda x: x.T @ x,
        "sort": lambda x: jnp.sort(x, 0), "cumsum": lambda x: jnp.cumsum(x, 0), "softmax": jax.nn.softmax,
        "reshape": lambda x: x.reshape(2, 0, 3), "tile": lambda x: jnp.tile(x, (2, 2)), "transpose": lambda x: x.T + 1,
        "pad": lambda x: jnp.pad(x, ((1, 1), (0, 0))), "take": lambda x: x[:, jnp.array([1, 2])],
        "segment_sum": lambda x: jax.ops.segment_sum(x, jnp.zeros((0,), int), 3), "argmax": lambda x: jnp.argmax(x, 1),
        "scan": lambda x: lax.scan(lambda c, v: (c + v, c), jnp.zeros(4, x.dtype), x), "reduction by a function":
        lambda x: lax.reduce(x, np.float32(3), lambda a, b: a * b + a * 0, (0,)),
    }.items()),
]  # fmt: skip

GROUPS = {"in place": IN_PLACE, "by size": BY_SIZE, "empty": EMPTY,
          "shapes": SHAPES, "reductions": REDUCTIONS, "products": PRODUCTS, "pools": POOLS,
          "indexing": INDEXING, "sorts": SORTS, "control": CONTROL, "linalg": LINALG}  # fmt: skip
QUICK = (
    "reshape two dynamic",
    "sum 0",
    "argmax",
    "conv NHWC",
    "bqhd,bkhd->bhqk",
    "max NHWC",
    "take",
    "at add",
    "sort",
    "scan",
)
ROWS = [case for group in GROUPS.values() for case in group]


@pytest.mark.parametrize("case", params(ROWS, QUICK))
def test_structure(case: Row, tmp_path: Path) -> None:
    check(case, tmp_path)


def test_what_a_scan_stacks_is_not_carried() -> None:
    """A carried buffer in which each iteration writes a row would be copied in each iteration."""
    model = read(exported(row("scan", lstm_like, f32(6, 2, 4), f32(4, 4))))
    (loop,) = (node for node in model.graph if node.op_type == "Loop")
    body = loop.attributes["body"].as_graph()
    assert (len(body.inputs), len(body.outputs)) == (3, 3)  # iteration, condition, state; and the rows
    assert not [node for node in body if node.op_type == "Concat" and len(node.outputs[0].shape) > 1]


def test_a_buffer_that_is_read_is_carried(tmp_path: Path) -> None:
    def function(x: Any) -> Any:
        def step(i: Any, buffer: Any) -> Any:
            return buffer.at[i].set(buffer.sum(0) + x[i])

        return lax.fori_loop(0, 3, step, jnp.ones((3, 4), x.dtype))

    check(row("buffer", function, X), tmp_path)


SCALE, OFFSET = f32(8), f32(8, low=0)
MEAN, VARIANCE = f32(8, low=-1), f32(8, low=0.5)


def normed(x: Any, shape: tuple[int, ...] = (8,)) -> Any:
    """A batch norm in inference."""
    mean, variance, scale, offset = (jnp.asarray(v).reshape(shape) for v in (MEAN, VARIANCE, SCALE, OFFSET))
    return (x - mean) * (lax.rsqrt(variance + 1e-5) * scale) + offset


NORMS = [
    row("fast variance", lambda x: (x - x.mean(-1, keepdims=True)) * (lax.rsqrt(jnp.maximum(0, (x * x).mean(
        -1, keepdims=True) - x.mean(-1, keepdims=True) ** 2) + 1e-6) * SCALE) + OFFSET, f32(2, 3, 8),
        dims=["b,n,8"], operators=("LayerNormalization",)),
    row("standardize", lambda x: jax.nn.standardize(x, -1, epsilon=1e-5), f32(3, 8), dims=["b,8"],
        operators=("LayerNormalization",)),
    row("over another axis", lambda x: jax.nn.standardize(x, 0), f32(3, 8)),
    row("of another mean", lambda x, y: (x - y.mean(-1, keepdims=True)) * lax.rsqrt(x.var(-1, keepdims=True) + 1e-6),
        f32(3, 8), f32(3, 8)),
    row("a scale for each row", lambda x, s: (x - x.mean(-1, keepdims=True)) * (lax.rsqrt(x.var(-1, keepdims=True) +
        1e-6) * s), f32(8, 8), f32(8, 1)),
    row("rms norm", lambda x: x * lax.rsqrt((x * x).mean(-1, keepdims=True) + 1e-6), f32(2, 3, 8), dims=["b,n,8"],
        operators=("RMSNormalization",)),
    row("rms norm with a scale", lambda x: (x - 0.0) * (lax.rsqrt(jnp.square(x).mean(-1, keepdims=True) + 1e-6) *
        SCALE), f32(2, 3, 8), dims=["b,n,8"], operators=("RMSNormalization",)),
    row("rms norm of another", lambda x, y: x * lax.rsqrt((y * y).mean(-1, keepdims=True) + 1e-6), f32(3, 8),
        f32(3, 8), dims=["b,8", "b,8"]),
    row("rms norm over another axis", lambda x: x * lax.rsqrt((x * x).mean(0, keepdims=True) + 1e-6), f32(8, 8)),
    row("batch norm of rows", normed, f32(3, 8), dims=["b,8"], operators=("BatchNormalization",)),
    row("batch norm of pictures", normed, f32(2, 3, 4, 8), dims=["b,3,4,8"],
        operators=("Transpose", "BatchNormalization", "Transpose")),
    row("batch norm with channels first", lambda x: normed(x, (8, 1, 1)), f32(2, 8, 3, 4), dims=["b,8,3,4"],
        operators=("BatchNormalization",)),
    row("a norm of rows of the batch", lambda x: normed(x, (8, 1)), f32(8, 4)),
    row("sigmoid", lambda x: 1 / (1 + jnp.exp(-x)), f32(3, 4), dims=["b,4"], operators=("Sigmoid",)),
    row("a sigmoid of another height", lambda x: 2 / (1 + jnp.exp(-x)), f32(3, 4), dims=["b,4"]),
    row("mean", lambda x: x.sum(1) / 4, f32(3, 4), dims=["b,4"], operators=("ReduceMean",)),
    row("a sum over another number", lambda x: x.sum(1) / 3, f32(3, 4), dims=["b,4"], operators=("ReduceSum", "Div")),
    row("softmax with a mask", lambda x: jax.nn.softmax(x, where=x > 0), f32(3, 4), dims=["b,4"]),
    row("a sum over another axis", lambda x: jnp.exp(x - x.max(1, keepdims=True)) / jnp.exp(x - x.max(
        1, keepdims=True)).sum(0, keepdims=True), f32(4, 4)),
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("case", [pytest.param(r, id=r.name) for r in NORMS])
def test_layers_are_found_again_where_they_are_there(case: Row, tmp_path: Path) -> None:
    check(case, tmp_path)
