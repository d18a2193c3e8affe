"""Which elements a slice takes, against onnxruntime over a grid of bounds and steps."""

from __future__ import annotations

from itertools import product

import numpy as np
from onnx import helper

from convert.semantics.slices import slice_of
from tests.support.onnx_support import array, info, model, session


def test_slices() -> None:
    runner = session(
        model(
            [helper.make_node("Slice", ["x", "start", "end", "axis", "step"], ["y"])],
            [info("x", ["n"]), *(info(name, [1], 7) for name in ("start", "end", "step"))],
            [info("y", None)],
            [array("axis", [0], np.int64)],
        )
    )
    far = 2**63  # onnxruntime treats the largest number as a position before the first element; the text does not
    bounds = (-far, -far + 1, -9, -4, -3, -1, 0, 1, 2, 3, 9, far - 2)
    for length, start, end, step in product((0, 1, 3), bounds, bounds, (-4, -2, -1, 1, 2, 4)):
        x = np.arange(length, dtype=np.float32)
        feeds = {"x": x, **{n: np.array([v]) for n, v in (("start", start), ("end", end), ("step", step))}}
        (want,) = runner.run(None, feeds)
        assert x[slice_of(start, end, step, length)].tolist() == want.tolist(), (length, start, end, step)
