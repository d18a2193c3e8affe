"""Functions of jax.numpy, jax.lax, jax.nn and jax.scipy, grouped by the inputs that they take."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import lax

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
