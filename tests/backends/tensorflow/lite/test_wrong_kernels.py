"""Ordinary numbers that TensorFlow Lite's kernels, or its converter's rewrites, computed wrongly: 1/√0, …"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir
import pytest

from convert.graph import Graph

pytest.importorskip("ai_edge_litert.interpreter", reason="ai-edge-litert runs the files")

from tests.support.tensorflow_lite_helper import encode, run

Form = Callable[[Graph, Any], Any]


def of_one_input(form: Form, x: np.ndarray, folder: Path, dims: tuple[Any, ...] | None = None) -> np.ndarray:
    """Return TensorFlow Lite's output for `form` of x. dims: the input's dims in the model."""
    g = Graph()
    g.output(form(g, g.input("x", ir.DataType.FLOAT, dims or x.shape)), "y")
    (got,) = run(encode(g.model(), folder), {"x": x}).values()
    return np.asarray(got)


ROOTS: dict[str, Form] = {
    "reciprocal": lambda g, x: g.Reciprocal(g.Sqrt(x)),
    "quotient": lambda g, x: g.Div(np.float32(2.5), g.Sqrt(x)),
    "quotient of two": lambda g, x: g.Div(g.Add(x, np.float32(1)), g.Sqrt(x)),
    "power": lambda g, x: g.Pow(x, np.float32(-0.5)),
}


@pytest.mark.parametrize("form", ROOTS.values(), ids=ROOTS)
def test_what_is_divided_by_a_root_of_zero_is_infinite(form: Form, tmp_path: Path) -> None:
    """The converter makes an RSQRT of such a division, which gives NaN here. From `tests.suites.compose --source
    pytorch --seed 12691`.
    """
    got = of_one_input(form, np.float32([0, 1e-30, 4, 0.25]), tmp_path)
    scale = {"quotient": [2.5] * 4, "quotient of two": [1, 1, 5, 1.25]}
    name = next(n for n, f in ROOTS.items() if f is form)
    want = np.float32([np.inf, 1e15, 0.5, 2]) * np.float32(scale.get(name, [1] * 4))
    np.testing.assert_allclose(got, want, rtol=3e-7)


@pytest.mark.parametrize("batch", [1, "n"])
def test_a_squeeze_behind_a_transpose(batch: int | str, tmp_path: Path) -> None:
    """The converter swaps the two, as around the projections of torch.nn.MultiheadAttention, and refuses its result."""
    g = Graph()
    x = g.input("x", ir.DataType.FLOAT, (5, batch, 12))
    parts = g.Unsqueeze(g.Reshape(x, np.int64([5, -1, 3, 4])), np.int64([0]))
    moved = g.Squeeze(g.Transpose(parts, perm=[3, 1, 2, 0, 4]), np.int64([-2]))
    for place in range(3):
        g.output(g.Gather(moved, np.int64(place)), f"y{place}")
    content = np.random.default_rng(0).standard_normal((5, 1, 12)).astype(np.float32)
    got = run(encode(g.model(), tmp_path), {"x": content})
    for place in range(3):
        np.testing.assert_array_equal(got[f"y{place}"], content.reshape(5, 1, 3, 4)[:, :, place])


def test_the_root_of_a_norm_stays_one_operator(tmp_path: Path) -> None:
    """A mean of squares plus a positive number is never 0."""
    from ai_edge_litert.interpreter import Interpreter

    g = Graph()
    x = g.input("x", ir.DataType.FLOAT, (3, 4))
    squares = g.ReduceMean(g.Mul(x, x), [1], keepdims=1)
    g.output(g.Div(x, g.Sqrt(g.Add(squares, np.float32(1e-5)))), "y")
    path = encode(g.model(), tmp_path)
    names = [operator["op_name"] for operator in Interpreter(str(path))._get_ops_details()]
    assert "RSQRT" in names
    assert "DIV" not in names


@pytest.mark.parametrize("exponent", [[1, 1], [1], [], ["m"], "constant"], ids=str)
@pytest.mark.parametrize("number", [0.9999947, 2.000004, -1.5])
def test_an_exponent_near_an_integer_is_not_taken_for_it(exponent: Any, number: float, tmp_path: Path) -> None:
    """LiteRT 2.3 rounds the exponent if one exponent applies to many numbers. From `tests.suites.compose --source onnx
    --seed 12610`.
    """
    g, x, y = Graph(), np.float32([0.87936467, 0.3652818, 0.34855494, 0.32108897]), np.float32(number)
    feed = {"x": x}
    base = g.input("x", ir.DataType.FLOAT, ("n",))
    if exponent == "constant":
        power = y
    else:
        power = g.input("y", ir.DataType.FLOAT, tuple(exponent))
        feed["y"] = np.full([1 if isinstance(d, str) else d for d in exponent], y, np.float32)
    g.output(g.Pow(base, power), "out")
    (got,) = run(encode(g.model(), tmp_path), feed).values()
    np.testing.assert_allclose(np.ravel(got), x.astype(np.float64) ** np.float64(y), rtol=2e-7)


def exact(name: str, x: np.ndarray) -> np.ndarray:
    """The function in float64."""
    below = np.expm1(np.minimum(x, 0))
    softplus = np.logaddexp(0, x)
    return {
        "Softplus": softplus,
        "Mish": x * np.tanh(softplus),
        "Elu": np.where(x < 0, 0.5 * below, x),
        "Selu": 1.0507009873554804934 * np.where(x < 0, 1.6732632423543772848 * below, x),
        "Celu": np.where(x < 0, 0.7 * np.expm1(np.minimum(x / 0.7, 0)), x),
    }[name]


@pytest.mark.parametrize("dims", [("n",), None], ids=["dynamic", "known"])
@pytest.mark.parametrize("name", ["Softplus", "Mish", "Elu", "Selu", "Celu"])
def test_activations_of_large_and_of_small_numbers(name: str, dims: Any, tmp_path: Path) -> None:
    """Softplus of 100 was 88.4 and Softplus of −17 was 0; Selu of −1e-6 was 1.3 % off."""
    size = np.float32([1e-20, 1e-6, 1e-3, 0.1, 1, 3, 5, 9, 12, 17, 19.9, 20.1, 25, 88.5, 100, 1e4, 1e30])
    x = np.concatenate([size, -size, np.float32([0])])
    more = {"Elu": {"alpha": 0.5}, "Celu": {"alpha": 0.7}}.get(name, {})
    got = of_one_input(lambda g, v: getattr(g, name)(v, **more), x, tmp_path, dims)
    np.testing.assert_allclose(got, exact(name, x.astype(np.float64)), rtol=1.5e-6, atol=1e-36)  # denormals count as 0
