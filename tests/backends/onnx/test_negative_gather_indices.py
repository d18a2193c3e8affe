"""Computed indices that may be negative: onnxruntime gathers correctly with its default optimizations."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from convert.backends import onnx as backend

from convert.graph import Graph
from convert.outcome.report import Report
from convert.request.options import Options
from tests.support.onnx_support import run_ort

X = np.arange(8, dtype=np.float32).reshape(4, 2)

Count = Callable[[Graph, ir.Value], tuple[Any, Any, Any]]

# Start, limit and step of a Range, by the length n of x, and the indices. The first four need the Cast.
COUNTED: dict[str, tuple[Count, list[int]]] = {
    "backwards": (lambda g, n: (g.Sub(n, 1), -1, -1), [3, 2, 1, 0]),
    "from before the first": (lambda g, n: (-1, n, 1), [-1, 0, 1, 2, 3]),
    "the last three": (lambda g, n: (g.Sub(g.Sub(n, 3), n), g.Sub(n, n), 1), [-3, -2, -1]),
    "around the end": (lambda g, n: (g.Sub(1, n), g.Sub(n, 2), 2), [-3, -1, 1]),
    "forwards": (lambda g, n: (0, n, 1), [0, 1, 2, 3]),
    "backwards to the second": (lambda g, n: (g.Max(n, 0), 0, -2), [4, 2]),
}


@pytest.mark.parametrize("name", COUNTED)
def test_counted_places_are_places(name: str, tmp_path: Path) -> None:
    count, places = COUNTED[name]
    g = Graph()
    x = g.input("x", ir.DataType.FLOAT, ["n", 2])
    wide = g.Concat(x, x, axis=0)
    numbers = count(g, g.Squeeze(g.Shape(x, start=0, end=1), [0]))
    g.output(g.Gather(wide, g.Range(*numbers), axis=0), "y")
    backend.write(g.model(), tmp_path / "m.onnx", "onnx", Options(), Report("test"))
    (got,) = run_ort(tmp_path / "m.onnx", {"x": X})
    np.testing.assert_array_equal(got, np.concatenate([X, X])[places])
    casts = [n for n in onnx.load(tmp_path / "m.onnx").graph.node if n.op_type == "Cast"]
    assert len(casts) == (name in list(COUNTED)[:4])
