"""Functions of jax.numpy, jax.lax, jax.nn and jax.scipy, in several dtypes and at several sizes, against JAX."""

from __future__ import annotations

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

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

UNARY = {
    "abs": jnp.abs, "ceil": jnp.ceil, "floor": jnp.floor, "rint": jnp.rint, "exp": jnp.exp, "exp2": jnp.exp2,
    "expm1": jnp.expm1, "sin": jnp.sin, "cos": jnp.cos, "tan": jnp.tan, "tanh": jnp.tanh, "sinh": jnp.sinh,
    "cosh": jnp.cosh, "arctan": jnp.arctan, "arcsinh": jnp.arcsinh, "sign": jnp.sign, "square": jnp.square,
    "cbrt": jnp.cbrt, "isfinite": jnp.isfinite, "isnan": jnp.isnan, "isinf": jnp.isinf, "negative": jnp.negative,
    "erf": jax.scipy.special.erf, "erfc": jax.scipy.special.erfc, "relu": jax.nn.relu, "relu6": jax.nn.relu6,
    "sigmoid": jax.nn.sigmoid, "softplus": jax.nn.softplus, "silu": jax.nn.silu, "gelu": jax.nn.gelu,
    "gelu exact": lambda x: jax.nn.gelu(x, approximate=False), "elu": jax.nn.elu, "selu": jax.nn.selu,
    "celu": jax.nn.celu, "leaky_relu": jax.nn.leaky_relu, "hard_tanh": jax.nn.hard_tanh, "mish": jax.nn.mish,
    "hard_sigmoid": jax.nn.hard_sigmoid, "hard_swish": jax.nn.hard_swish, "log_sigmoid": jax.nn.log_sigmoid,
    "soft_sign": jax.nn.soft_sign, "trunc": jnp.trunc, "reciprocal": lambda x: 1 / x,
    "deg2rad": jnp.deg2rad, "sinc": jnp.sinc, "nan_to_num": jnp.nan_to_num, "round half away": lax.round,
    "digamma": jax.scipy.special.digamma, "gammaln": jax.scipy.special.gammaln, "i0e": jax.scipy.special.i0e,
    "i1e": jax.scipy.special.i1e, "squareplus": jax.nn.squareplus,
}  # fmt: skip
POSITIVE = {
    "log": jnp.log, "log1p": jnp.log1p, "log2": jnp.log2, "log10": jnp.log10, "sqrt": jnp.sqrt, "rsqrt": lax.rsqrt,
    "xlogy": lambda x: jax.scipy.special.xlogy(x, x), "entr": jax.scipy.special.entr,
}  # fmt: skip
INSIDE = {"arcsin": jnp.arcsin, "arccos": jnp.arccos, "arctanh": jnp.arctanh, "erfinv": jax.scipy.special.erfinv,
          "ndtri": lambda x: jax.scipy.special.ndtri(x * x)}  # fmt: skip
BINARY = {
    "add": jnp.add, "subtract": jnp.subtract, "multiply": jnp.multiply, "divide": jnp.divide,
    "maximum": jnp.maximum, "minimum": jnp.minimum, "arctan2": jnp.arctan2, "hypot": jnp.hypot,
    "logaddexp": jnp.logaddexp, "remainder": jnp.remainder, "fmod": jnp.fmod, "floor_divide": jnp.floor_divide,
    "greater": jnp.greater, "less_equal": jnp.less_equal, "equal": jnp.equal, "not_equal": jnp.not_equal,
    "heaviside": jnp.heaviside, "copysign": lambda x, y: jnp.where(y < 0, -jnp.abs(x), jnp.abs(x)),
    "where": lambda x, y: jnp.where(x > 0, x, y), "squared_difference": lambda x, y: (x - y) ** 2,
}  # fmt: skip
INTEGERS = {
    "add": jnp.add, "subtract": jnp.subtract, "multiply": jnp.multiply, "maximum": jnp.maximum,
    "minimum": jnp.minimum, "and": jnp.bitwise_and, "or": jnp.bitwise_or, "xor": jnp.bitwise_xor,
    "shift_left": lambda x, y: jnp.left_shift(x, abs(y)), "shift_right": lambda x, y: jnp.right_shift(x, abs(y)),
    "logical": lambda x, y: lax.shift_right_logical(x, abs(y) + 0 * x), "floor_divide": lambda x, y: x // (abs(y) + 1),
    "remainder": lambda x, y: x % (abs(y) + 1), "rem": lambda x, y: lax.rem(x, abs(y) + 1 + 0 * x), "less": jnp.less,
    "arithmetic": lambda x, y: lax.shift_right_arithmetic(x, abs(y) + 0 * x), "sort": lambda x, y: jnp.sort(x) + y,
    "power": lambda x, y: x ** abs(y), "popcount": lambda x, y: lax.population_count(x + y),
    "count leading zeros": lambda x, y: lax.clz(x + y), "negative": lambda x, y: -x + y,
    "mulhi": lambda x, y: lax.mulhi(x, y + 0 * x), "gcd": jnp.gcd, "lcm": jnp.lcm,
    "remainder by 0": lambda x, y: lax.rem(x, y * 0 + 0 * x), "division by 0": lambda x, y: lax.div(x, y * 0 + 0 * x),
    "invert": lambda x, y: ~x + y, "sign": lambda x, y: jnp.sign(x) * y, "clip": lambda x, y: jnp.clip(x, -2, 3) + y,
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
