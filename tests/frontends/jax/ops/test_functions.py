"""Functions of jax.numpy, jax.lax, jax.nn and jax.scipy, in several dtypes and at several sizes, against JAX."""

from __future__ import annotations

from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from tests.frontends.jax.functions import BINARY, INSIDE, INTEGERS, POSITIVE, UNARY
from tests.frontends.jax.support import Row, check, params, row
from tests.support.cases import boolean, f64, i32, i64

pytestmark = pytest.mark.not_core

U8 = i64(3, 4, low=0, high=200).astype(np.uint8)

NARROW = {dtype: np.array([[0, 1, 7, 200], [5, 100, 255, 3]]).astype(dtype) for dtype in
          ("int8", "uint8", "int16", "uint16", "uint32", "uint64")}  # fmt: skip
"""Dtypes that some of ONNX's operators lack, with numbers whose sum overflows."""
OF_NARROW = {
    "sum": lambda x: lax.reduce(x, x.dtype.type(0), lax.add, (0, 1)), "argmax": lambda x: jnp.argmax(x, 1),
    "prod": lambda x: jnp.prod(x, 1, dtype=x.dtype), "max": lambda x: x.max(1), "min": lambda x: x.min(0),
    "argmin": lambda x: jnp.argmin(x, 0), "dot": lambda x: lax.dot(x, x.T), "sort": lambda x: jnp.sort(x, 1),
    "top_k": lambda x: lax.top_k(x, 2), "cumsum": lambda x: jnp.cumsum(x, 1, dtype=x.dtype),
    "mean": lambda x: x.mean(), "scatter": lambda x: x.at[jnp.array([0, 0])].add(x),
    "pad": lambda x: lax.pad(x, x.dtype.type(7), ((1, -1, 1),) * 2), "div": lambda x: lax.div(x, x | 1),
    "sar": lambda x: lax.shift_right_arithmetic(x, x % 3), "clip": lambda x: jnp.clip(x, 1, 100),
    "take": lambda x: x[:, jnp.array([2, -1])], "float": lambda x: x.astype(np.float32),
    "where": lambda x: jnp.where(x > 5, x, x * x),
    "mulhi": lambda x: lax.mulhi(x, x[::-1] ^ x.dtype.type(np.iinfo(x.dtype).min)),
    "sum of windows": lambda x: lax.reduce_window(x, x.dtype.type(0), lax.add, (1, 2), (1, 1), "SAME"),
}  # fmt: skip

FLOATS = {"float32": 2e-5, "float64": 2e-5, "float16": 1e-2, "bfloat16": 4e-2}
"""The dtypes of floating-point rows, each with its tolerance."""
IN_32_BITS = ("digamma", "gammaln", "i0e", "i1e", "ndtri")
"""Functions that JAX computes inaccurately in narrow dtypes, or not at all."""


def of_floats(functions: dict, *shapes: tuple[int, ...], **between: float) -> list[Row]:
    """A row of each function in each dtype, at two batch sizes."""
    dims = ["b," + ",".join(map(str, shape[1:])) for shape in shapes]
    return [
        row(f"{name} {dtype}", f, *(f64(*shape, **between).astype(jnp.dtype(dtype)) for shape in shapes), dims=dims,
            tolerance=tolerance)
        for dtype, tolerance in FLOATS.items() for name, f in functions.items()
        if name not in IN_32_BITS or tolerance < 1e-3
    ]  # fmt: skip


ROWS = [
    *of_floats(UNARY, (3, 4)), *of_floats(POSITIVE, (3, 4), low=0.1),
    *of_floats(INSIDE, (3, 4), low=-0.9, high=0.9),
    *of_floats({f"{name} of two": f for name, f in BINARY.items()}, (3, 4), (3, 1)),
    *(row(f"{name} int32", f, i32(3, 4), i32(4)) for name, f in INTEGERS.items()),
    *(row(f"{name} int64", f, i64(3, 4), i64(4), dims=["b,4"]) for name, f in INTEGERS.items()),
    *(row(f"{name} uint8", f, U8, U8[::-1] % 7) for name, f in INTEGERS.items() if name not in ("clip", "sign")),
    *(row(f"{name} {dtype}", f, x) for dtype, x in NARROW.items() for name, f in OF_NARROW.items()),
    *(row(f"{source} beyond {target}", lambda x, t=target: x.astype(t), np.array([300, -5.5, 127.9, -129, 7e4, -4e4,
        np.inf, -np.inf]).astype(jnp.dtype(source)))
      for source in ("float32", "float64", "float16") for target in ("int8", "uint8", "int16", "uint16")),
    *(row(f"{name} of booleans", f, boolean(3, 4), boolean(4)) for name, f in {
        "and": jnp.logical_and, "or": jnp.logical_or, "xor": jnp.logical_xor, "equal": jnp.equal, "add": jnp.add,
        "less": jnp.less, "maximum": jnp.maximum, "multiply": jnp.multiply, "not": lambda x, y: ~x | y,
    }.items()),
]  # fmt: skip


@pytest.mark.parametrize(
    "case", params(ROWS, ("abs float32", "gelu float32", "erf float64", "add of two float16", "remainder int32"))
)
def test_functions(case: Row, tmp_path: Path) -> None:
    check(case, tmp_path)
