"""Elements at the edges of functions, where one rounding is more than two evaluations in float64 may differ."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx_ir as ir
import pytest

from convert.graph import Graph
from convert.parity.inputs import Feed
from convert.parity.sensitive import unexplained_error
from convert.passes.to_float64 import widen_model
from convert.reference.executor import run

X = np.random.default_rng(0).standard_normal((9, 8)).astype(np.float32)
FEED = Feed("one", {"x": X})


def angles() -> ir.Model:
    """The angle between each two rows: NaN or nearly 0 between a row and itself."""
    g = Graph()
    x = g.input("x", ir.DataType.FLOAT, ["n", 8])
    unit = g.Div(x, g.Sqrt(g.ReduceSum(g.Mul(x, x), np.array([1]), keepdims=1)))
    g.output(g.Acos(g.MatMul(unit, g.Transpose(unit, perm=[1, 0]))), "y")
    return g.model()


def other_order() -> np.ndarray:
    x = X.astype(np.float64)
    unit = x[:, ::-1] / np.linalg.norm(x, axis=1, keepdims=True)
    with np.errstate(invalid="ignore"):
        return np.arccos((unit[:, None, :] * unit[None, :, :]).sum(-1))


def off(places: object, by: float) -> Callable[[np.ndarray], np.ndarray]:
    def change(y: np.ndarray) -> np.ndarray:
        y[places] += by  # type: ignore[index]
        return y

    return change


@pytest.mark.parametrize(
    ("change", "explained"),
    [
        (lambda y: y, True),
        (off((0, 0), 1e-3), False),
        (off((0, 1), 1e-6), False),
        (off(slice(None), 1e-6), False),
        (lambda y: np.where(np.arange(81).reshape(9, 9) == 1, np.nan, y), False),
        (lambda y: y[:-1], False),
    ],
)
def test_what_a_rounding_moves_by_as_much_is_no_error(
    change: Callable[[np.ndarray], np.ndarray], explained: bool
) -> None:
    graph = angles()
    own = run(widen_model(graph), {"x": X.astype(np.float64)})["y"]
    diagonal = ~(np.isfinite(own.diagonal()) & np.isfinite(other_order().diagonal()))
    assert diagonal.any() or np.abs(own - other_order()).max() > 1e-9, "else there is nothing to explain"
    found = unexplained_error(graph, "y", FEED, change(other_order()), own)
    assert (found <= 1e-9) == explained
