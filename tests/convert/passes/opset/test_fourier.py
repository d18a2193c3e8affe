"""Fourier transforms at opsets that lack them give NumPy's results, at known and unknown lengths."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir
import onnxruntime
import pytest

from convert.errors import Unsupported
from convert.graph import Graph
from convert.passes.opset.convert import convert_opset

OPSETS = (9, 11, 13, 16)


def run(g: Graph, opset: int, feeds: dict[str, np.ndarray]) -> np.ndarray:
    model = g.model()
    convert_opset(model, opset)
    model.ir_version = 7
    assert not {n.op_type for n in model.graph.all_nodes()} & {"DFT", "STFT"}
    (got,) = onnxruntime.InferenceSession(ir.serde.serialize_model(model).SerializeToString()).run(None, feeds)
    return np.asarray(got)


def numbers(*shape: int) -> np.ndarray:
    return np.random.default_rng(7).standard_normal(shape).astype(np.float32)


def close(got: np.ndarray, wanted: np.ndarray) -> None:
    wanted = np.stack([wanted.real, wanted.imag], -1) if np.iscomplexobj(wanted) else wanted[..., None]
    assert got.shape == wanted.shape
    np.testing.assert_allclose(got, wanted, rtol=0, atol=2e-6 * np.abs(wanted).max())


def complex_of(x: np.ndarray) -> np.ndarray:
    return x[..., 0] + 1j * x[..., 1]


CASES: list[tuple[str, tuple[int, ...], int, dict[str, int], int | None, Any]] = [
    ("rfft", (2, 12, 1), 1, {"onesided": 1}, None, lambda x: np.fft.rfft(x[..., 0], axis=1)),
    ("rfft, longer", (2, 5, 1), 1, {"onesided": 1}, 9, lambda x: np.fft.rfft(x[..., 0], 9, axis=1)),
    ("rfft, cut", (2, 9, 1), 1, {"onesided": 1}, 4, lambda x: np.fft.rfft(x[..., 0], 4, axis=1)),
    ("fft", (2, 7, 3, 2), 1, {}, None, lambda x: np.fft.fft(complex_of(x), axis=1)),
    ("fft of real", (2, 6, 1), 1, {}, None, lambda x: np.fft.fft(x[..., 0], axis=1)),
    ("ifft", (2, 3, 8, 2), 2, {"inverse": 1}, None, lambda x: np.fft.ifft(complex_of(x), axis=2)),
    ("irfft", (2, 5, 2), 1, {"inverse": 1, "onesided": 1}, None, lambda x: np.fft.irfft(complex_of(x), axis=1)),
    ("irfft, odd", (2, 5, 2), 1, {"inverse": 1, "onesided": 1}, 9, lambda x: np.fft.irfft(complex_of(x), 9, axis=1)),
    ("irfft, short", (2, 3, 2), 1, {"inverse": 1, "onesided": 1}, 8, lambda x: np.fft.irfft(complex_of(x), 8, axis=1)),
    ("fft, in factors", (1, 4096, 2), 1, {}, None, lambda x: np.fft.fft(complex_of(x), axis=1)),
    ("rfft, in factors", (1, 6000, 1), 1, {"onesided": 1}, None, lambda x: np.fft.rfft(x[..., 0], axis=1)),
    ("ifft, in factors", (1, 4096, 2), 1, {"inverse": 1}, None, lambda x: np.fft.ifft(complex_of(x), axis=1)),
]


@pytest.mark.parametrize("case", CASES, ids=lambda c: c[0])
def test_lengths_that_are_known(case: Any) -> None:
    _, shape, axis, how, length, wanted = case
    given = numbers(*shape)
    for opset in OPSETS if given.size < 1000 else (13,):
        g = Graph()
        x = g.input("x", ir.DataType.FLOAT, ["batch", *shape[1:]])
        g.output(g.DFT(x, None if length is None else np.int64(length), np.int64(axis), **how), "y")
        close(run(g, opset, {"x": given}), wanted(given))


@pytest.mark.parametrize("case", [c for c in CASES if "factors" not in c[0]], ids=lambda c: c[0])
def test_lengths_that_the_run_tells(case: Any) -> None:
    _, shape, axis, how, length, wanted = case
    given = numbers(*shape)
    g = Graph()
    x = g.input("x", ir.DataType.FLOAT, [f"d{i}" for i in range(len(shape) - 1)] + [shape[-1]])
    n = None if length is None else g.input("n", ir.DataType.INT64, [])
    g.output(g.DFT(x, n, np.int64(axis), **how), "y")
    feeds = {"x": given} if length is None else {"x": given, "n": np.array(length)}
    close(run(g, 13, feeds), wanted(given))


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("opset", [11, 16])
def test_frames_of_a_signal(opset: int, dynamic: bool) -> None:
    given, window = numbers(2, 50, 1), np.hanning(16).astype(np.float32)
    g = Graph()
    x = g.input("x", ir.DataType.FLOAT, ["b", "n" if dynamic else 50, 1])
    g.output(g.STFT(x, np.int64(5), window, onesided=1), "y")
    frames = np.stack([given[:, i : i + 16, 0] for i in range(0, 35, 5)], 1) * window
    close(run(g, opset, {"x": given}), np.fft.rfft(frames, axis=-1))


def test_a_long_prime_is_refused() -> None:
    g = Graph()
    g.output(g.DFT(g.input("x", ir.DataType.FLOAT, [1, 10007, 1])), "y")
    with pytest.raises(Unsupported, match="a transform of 10007 numbers"):
        convert_opset(g.model(), 13)
