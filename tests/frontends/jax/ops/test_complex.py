"""Complex numbers, which are pairs of real numbers in the graph, against JAX."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from convert.frontends.jax.runner import runner
from jax import lax

import convert
from convert.request.options import Options
from convert.request.source import Source
from tests.frontends.jax.support import Row, check, exported, params, row
from tests.support.cases import f32, f64, i32

pytestmark = pytest.mark.not_core

Z = (f32(3, 4) + 1j * f32(3, 4, low=-1.5)).astype(np.complex64)
Y = (f32(4, 2) - 2j * f32(4, 2, low=0.3)).astype(np.complex64)
WIDE = Z.astype(np.complex128)

FUNCTIONS = {
    "add": lambda z: z + 2j, "subtract": lambda z: 1 - z, "negate": lambda z: -z, "multiply": lambda z: z * z[0],
    "divide": lambda z: z / (z[:1] + 3), "exp": jnp.exp, "log": jnp.log, "sqrt": jnp.sqrt, "rsqrt": lax.rsqrt,
    "power": lambda z: z ** (1 + 1j), "cos": jnp.cos, "sin": jnp.sin, "tanh": jnp.tanh, "cosh": jnp.cosh,
    "sinh": jnp.sinh, "tan": jnp.tan, "expm1": jnp.expm1, "arcsin": jnp.arcsin, "arccos": jnp.arccos,
    "arctan": jnp.arctan, "arcsinh": jnp.arcsinh, "arccosh": jnp.arccosh, "arctanh": jnp.arctanh, "log1p": jnp.log1p,
    "square": jnp.square, "abs": jnp.abs, "angle": jnp.angle, "conj": jnp.conj, "real": jnp.real,
    "imag": jnp.imag, "equal": lambda z: z == z[0], "not equal": lambda z: z != z[0],
    "parts": lambda z: lax.complex(z.imag, z.real), "sum": lambda z: z.sum(1), "mean": lambda z: z.mean(0),
    "reshape": lambda z: z.reshape(-1, 2), "transpose": lambda z: z.T, "slice": lambda z: z[1:, ::2],
    "concatenate": lambda z: jnp.concatenate([z, 1j * z], 1), "flip": lambda z: jnp.flip(z, 1),
    "pad": lambda z: jnp.pad(z, ((0, 0), (1, 2)), constant_values=1 + 2j), "where": lambda z: jnp.where(
        z.real > 0, z, 1j), "take": lambda z: z[:, jnp.array([2, 0])], "set": lambda z: z.at[:, 1].set(3j),
    "add at": lambda z: z.at[:, jnp.array([1, 1])].add(3j), "a large constant": lambda z: z + jnp.asarray(
        np.arange(4) * (1 + 2j), z.dtype), "wider": lambda z: z.astype(jnp.complex128),
    "sign": jnp.sign, "sign of 0": lambda z: jnp.sign(z - z), "iota": lambda z: z + lax.iota(z.dtype, 4),
    "logistic": lax.logistic, "logistic of large numbers": lambda z: lax.logistic(20 * z), "log1p near 0": lambda z: (
        jnp.log1p(z * 1e-3)), "maximum": lambda z: jnp.maximum(jnp.round(z), jnp.round(z[0])), "minimum": lambda z: (
        jnp.minimum(jnp.round(z), jnp.round(z[0]))), "atan2": lambda z: lax.atan2(z, z[:1] + 3 + 0 * z),
    "broadcast": lambda z: jnp.broadcast_to(z[:, None], (z.shape[0], 2, 4)),
}  # fmt: skip
TRANSFORMS = {
    "fft": lambda x: jnp.fft.fft(x), "ifft": lambda x: jnp.fft.ifft(x, axis=0), "fft2": jnp.fft.fft2,
    "rfft": lambda x: jnp.fft.rfft(x.real), "irfft": lambda x: jnp.fft.irfft(x), "rfft2": lambda x: jnp.fft.rfft2(
        x.real), "irfft of an odd length": lambda x: jnp.fft.irfft(x, 5), "irfft2": jnp.fft.irfft2,
    "fft of a length": lambda x: jnp.fft.fft(x, 7), "power spectrum": lambda x: jnp.abs(jnp.fft.rfft(x.real)) ** 2,
    "convolution": lambda x: jnp.fft.irfft(jnp.fft.rfft(x.real) * jnp.fft.rfft(x.imag), 4),
    "orthogonal": lambda x: jnp.fft.fft2(x, norm="ortho"), "product": lambda x: x.prod(),
    "products": lambda x: x.prod(1),
    "fftshift": lambda x: jnp.fft.fftshift(jnp.fft.fft(x)),
}  # fmt: skip
TIES = (i32(3, 4, low=-2, high=3) + 1j * i32(3, 4, low=-2, high=3)).astype(np.complex64)
"""Numbers of which several have the same real part, and some the same imaginary part as well."""
DECAY = np.exp(1j * np.linspace(0, 1, 4)).astype(np.complex64) * np.float32(0.9)
LARGE = np.array([60 + 1j, -60 + 1j, 1e-4 + 1j, 0.1 + 1.57j], np.complex64)


def ssm(x: Any) -> Any:
    """A state space model with a diagonal of complex numbers, over the rows of a tensor."""
    return lax.scan(lambda h, v: ((h * DECAY + v), (h * v).real), jnp.zeros(4, jnp.complex64), x)


CONTROL = {
    "scan": lambda z: lax.scan(lambda h, v: (h * DECAY + v, h), jnp.zeros(4, z.dtype), z),
    "scan from the end": lambda z: lax.scan(lambda h, v: (h * DECAY + v,) * 2, z[0], z, reverse=True),
    "while": lambda z: lax.while_loop(lambda s: jnp.abs(s).max() < 10, lambda s: s * (1 + 1j), z + 0.1),
    "loop": lambda z: lax.fori_loop(0, 3, lambda i, s: s * s + z[i], z),
    "branches": lambda z: lax.cond(z.real.sum() > 0, lambda v: v * 1j, jnp.conj, z),
    "three branches": lambda z: lax.switch(jnp.int32(z.real.max()), [lambda v: v * 1j, jnp.conj, jnp.exp], z),
    "map": lambda z: lax.map(lambda v: (v * v).sum(), z),
    "escape time": lambda z: lax.fori_loop(0, 5, lambda i, s: (
        jnp.where(jnp.abs(s[0]) < 2, s[0] * s[0] + z, s[0]), s[1] + (jnp.abs(s[0]) < 2)),
        (z * 0, jnp.zeros(z.shape, jnp.int32)))[1],
    "associative scan": lambda z: lax.associative_scan(
        lambda p, q: (p[0] * q[0], q[0] * p[1] + q[1]), (z * DECAY, z), axis=1)[1],
    "cumsum": lambda z: jnp.cumsum(z, 1), "cumprod": lambda z: jnp.cumprod(z, 1),
    "products of windows": lambda z: lax.reduce_window(z, z.dtype.type(1), lax.mul, (1, 2), (1, 1), "VALID"),
    "reduction by a function": lambda z: lax.reduce(
        (z, z.real), (z.dtype.type(1), z.real.dtype.type(0)), lambda a, b: (a[0] * b[0], a[1] + b[1]), (1,)),
}  # fmt: skip
SORTS = {
    "sort": jnp.sort, "sort along the first axis": lambda z: jnp.sort(z, 0), "argsort": jnp.argsort,
    "descending": lambda z: jnp.sort(z, descending=True), "all": lambda z: jnp.sort(z, None),
    "by real numbers": lambda z: lax.sort((jnp.abs(z), z), num_keys=1),
    "and real numbers": lambda z: lax.sort((z, jnp.abs(z)[:, ::-1]), num_keys=2),
}  # fmt: skip
ROWS = [
    *(row(f"complex {name}", f, Z) for name, f in CONTROL.items()),
    *(row(f"complex {name} in 128 bits", f, WIDE, tolerance=1e-10) for name, f in CONTROL.items()),
    *(row(f"complex sort, {name}", f, TIES, dims=["b,4"] if name not in ("all", "sort along the first axis") else [])
      for name, f in SORTS.items()),
    *(row(f"complex {name} of any length", CONTROL[name], Z, dims=["b,4"])
      for name in ("scan", "while", "branches", "map", "escape time")),
    row("complex states", ssm, f32(3, 4), dims=["b,4"]),
    *(row(f"complex {name} of large and small numbers", f, LARGE) for name, f in
      {"tanh": jnp.tanh, "expm1": jnp.expm1, "tan": jnp.tan}.items()),
    *(row(f"complex {name}", f, Z, dims=[] if name == "multiply" else ["b,4"]) for name, f in FUNCTIONS.items()),
    *(row(f"complex {name} in 128 bits", f, WIDE, tolerance=1e-10) for name, f in FUNCTIONS.items()),
    *(row(name, f, Z) for name, f in TRANSFORMS.items()),
    *(row(f"{name} in 128 bits", f, WIDE, tolerance=1e-10) for name, f in TRANSFORMS.items()),
    row("orthogonal of any batch", lambda x: jnp.fft.fft2(x, norm="ortho"), f32(2, 3, 4), dims=["b,3,4"]),
    row("complex matmul", jnp.matmul, Z, Y, dims=["b,4"]),
    row("real and complex", lambda x, z: jnp.matmul(x, z), f32(3, 4), Y, dims=["b,4"]),
    row("fft of real numbers", jnp.fft.fft, f64(3, 8), tolerance=1e-10),
    row("rows of a transform", jnp.fft.rfft, f32(3, 8), dims=["b,8"]),
]  # fmt: skip


@pytest.mark.parametrize("case", params(ROWS, ("complex multiply", "rfft")))
def test_complex(case: Row, tmp_path: Path) -> None:
    check(case, tmp_path)


@pytest.mark.slow
def test_a_run_in_float64_has_its_digits() -> None:
    program = exported(row("spectrum", lambda z: jnp.exp(jnp.fft.fft(z) * (0.1 + 0.2j)), Z))
    feed = {"z": np.stack([Z.real, Z.imag], -1)}
    (found,) = runner.run(Source("jax-export-object", model=program), [feed], precision="float64", options=Options())
    expected = np.exp(np.fft.fft(WIDE) * (0.1 + 0.2j))  # the number that was written, not its float32
    np.testing.assert_allclose(found["output"], np.stack([expected.real, expected.imag], -1), rtol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("target", ["a.onnx", "a.savedmodel"])
def test_complex_inputs_and_outputs_are_pairs(target: str, tmp_path: Path) -> None:
    def filtered(z: Any) -> Any:
        return jnp.fft.ifft(jnp.fft.fft(z) * jnp.linspace(1, 0, 8))

    program = exported(row("filter", filtered, (f32(3, 8) + 1j * f32(3, 8)).astype(np.complex64), dims=["b,8"]))
    report = convert.convert(program, "onnx" if target.endswith("onnx") else "tf", tmp_path / target)
    assert report.verdict is not None
    assert report.verdict.status == "PASS", report.verdict.reason
    assert [str(x) for x in report.inputs] == ["z: float32[b,8,2]"]
    assert "complex-pairs" in {note.code for note in report.notes}
