"""Random numbers, which depend on a state alone, and the bits of numbers, which they are made of, against JAX."""

from __future__ import annotations

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from convert.frontends import jax as frontend
from jax import lax

from convert.outcome.report import Report
from convert.request.options import Options
from convert.request.source import Source
from tests.frontends.jax.support import Row, check, exported, params, read, row, run_graph
from tests.support.cases import f32, i32

pytestmark = pytest.mark.not_core

KEY = np.array([1, 2**32 - 1], np.uint32)
STATE = np.array([0x0123456789ABCDEF, 2**64 - 2], np.uint64)
FLOATS = np.array([1, 0, -0.0, -3, 1e-45, 1.1754944e-38, 3e38, np.inf, -np.inf], np.float32)
WIDE = np.array([1, 0, -0.0, -3, 5e-324, 2.2250738585072014e-308, 1.7976931348623157e308, -np.inf])
OUTPUTS = {"uint32": [(5,), (4, 3), (3, 3), (1, 3, 5), (), (0,)], "uint64": [(3, 2)], "uint8": [(2, 3)]}
ALGORITHMS = {"default": lax.RandomAlgorithm.RNG_DEFAULT, "threefry": lax.RandomAlgorithm.RNG_THREE_FRY,
              "philox": lax.RandomAlgorithm.RNG_PHILOX}  # fmt: skip

ROWS = [
    *(row(f"{name} {dtype}{list(dims)}", lambda s, a=algorithm, d=dims, t=dtype: lax.rng_bit_generator(
        s, d, jnp.dtype(t), algorithm=a), STATE)
      for name, algorithm in ALGORITHMS.items() for dtype, every in OUTPUTS.items() for dims in every),
    *(row(name, f, KEY) for name, f in {
        "uniform": lambda k: jax.random.uniform(k, (3, 4)), "normal": lambda k: jax.random.normal(k, (3, 4)),
        "uniform float64": lambda k: jax.random.uniform(k, (3, 4), jnp.float64),
        "uniform bfloat16": lambda k: jax.random.uniform(k, (5,), jnp.bfloat16),
        "bernoulli": lambda k: jax.random.bernoulli(k, 0.3, (7,)), "split": lambda k: jax.random.split(k, 3),
        "randint": lambda k: jax.random.randint(k, (7,), -3, 30), "fold_in": lambda k: jax.random.fold_in(k, 7),
        "permutation": lambda k: jax.random.permutation(k, 9), "gumbel": lambda k: jax.random.gumbel(k, (5,)),
        "truncated_normal": lambda k: jax.random.truncated_normal(k, -1, 2, (5,)),
    }.items()),
    row("categorical", jax.random.categorical, KEY, f32(3, 5)),
    row("uniform of rbg", lambda k: jax.random.uniform(jax.random.wrap_key_data(k, impl="rbg"), (3, 4)),
        np.array([1, 2, 3, 4], np.uint32)),
    row("dropout", lambda k, x: jnp.where(jax.random.bernoulli(k, 0.5, x.shape), x * 2, 0), KEY, f32(3, 4)),
    *(row(f"bits as {t}", lambda x, t=t: lax.bitcast_convert_type(x, jnp.dtype(t)), FLOATS)
      for t in ("uint32", "int32", "uint8", "float16")),
    *(row(f"bits as {t} of float64", lambda x, t=t: lax.bitcast_convert_type(x, jnp.dtype(t)), WIDE)
      for t in ("uint64", "int64", "uint32")),
    row("bits of uint32 as float32", lambda x: lax.bitcast_convert_type(x, jnp.float32), FLOATS.view(np.uint32)),
    row("bits of bytes as float32", lambda x: lax.bitcast_convert_type(x, jnp.float32), FLOATS.view(np.uint8).reshape(
        -1, 4)),
    row("bits of int64 as float64", lambda x: lax.bitcast_convert_type(x, jnp.float64), WIDE.view(np.int64)),
    row("bits of uint32 as uint64", lambda x: lax.bitcast_convert_type(x, jnp.uint64), STATE.view(np.uint32).reshape(
        2, 2)),
    row("bits of bfloat16", lambda x: lax.bitcast_convert_type(x.astype(jnp.bfloat16), jnp.uint16), f32(5)),
    row("signbit", jnp.signbit, FLOATS), row("copysign", jnp.copysign, FLOATS, FLOATS[::-1]),
    row("frexp", jnp.frexp, FLOATS[[0, 1, 3, 6]]), row("ldexp", jnp.ldexp, f32(4), i32(4, low=-5, high=20)),
    row("nextafter", jnp.nextafter, np.repeat(FLOATS, 3), np.tile(np.float32([np.inf, -1, 1]), len(FLOATS))),
]  # fmt: skip
DRAWN = [
    row("rng uniform", lambda a, b: lax.rng_uniform(a, b, (50, 40)), np.float32(-3), np.float32(5)),
]


@pytest.mark.parametrize("case", params(ROWS, ("uniform", "threefry uint32[5]", "bits as int32")))
def test_random(case: Row, tmp_path: Path) -> None:
    check(case, tmp_path)


def test_a_note_says_whose_random_bits_they_are() -> None:
    report = Report("convert")
    frontend.read(Source("jax-export-object", model=exported(ROWS[0])), Options(), report)
    assert "random-bits" in {note.code for note in report.notes}


@pytest.mark.slow
@pytest.mark.parametrize("case", [pytest.param(r, id=r.name) for r in DRAWN])
def test_numbers_without_a_state_have_the_distribution(case: Row, tmp_path: Path) -> None:
    model = read(exported(case))
    low, high = case.inputs
    (found,) = run_graph(
        model, dict(zip([v.name for v in model.graph.inputs], map(np.asarray, case.inputs), strict=True)), tmp_path
    ).values()
    assert found.shape == (50, 40)
    assert low <= found.min() < found.max() < high
    assert abs(found.mean() - (low + high) / 2) < 5 * (high - low) / np.sqrt(12 * found.size)
