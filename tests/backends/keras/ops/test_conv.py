"""The rules of `backends/keras/ops/conv.py` against onnxruntime: the shared rows of its operators, and more."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import keras
import numpy as np
import onnx
import pytest

import convert
from tests.backends.keras.ops.keras_support import Outcomes, check, shared_rows
from tests.backends.tensorflow.ops.onnx_cases import const
from tests.support.cases import Case, case, f32, params
from tests.support.onnx_support import array, info, model, run_ort

ROWS = [
    *shared_rows(__name__),
    case("Conv", f32(2, 4, 7, 8), f32(6, 2, 3, 3), f32(6), group=2, pads=[1, 0, 1, 2]).named("computed kernel"),
    *(
        case("Conv", f32(2, 2, n, n, n), const(f32(3, 2, k, k, k)), auto_pad="SAME_UPPER", strides=[s] * 3)
        for n, k, s in ((3, 1, 3), (8, 2, 5), (8, 3, 5))
    ),
]


@pytest.mark.parametrize("row", params(ROWS))
def test_operator(row: Case, keras_outcomes: Outcomes) -> None:
    check(row, keras_outcomes)


@pytest.mark.slow
@pytest.mark.parametrize("more", [{}, {"auto_pad": "SAME_UPPER"}], ids=["plain", "same"])
@pytest.mark.parametrize("width", [3, 4, "w"])
def test_one_window_along_the_width_has_no_stride(width: Any, more: dict[str, Any], tmp_path: Path) -> None:
    """With one channel and no stride along the height, oneDNN would read elements outside the window."""
    rng = np.random.default_rng(0)
    node = onnx.helper.make_node("Conv", ["x", "w"], ["y"], strides=[1, 4], **more)
    weights = [array("w", rng.standard_normal((4, 1, 3, 3)))]
    proto = model([node], [info("x", ["n", 1, 6, width])], [info("y", ["n", 4, None, None])], weights)
    convert.convert(proto, "keras", tmp_path / "m.keras", verify=False)
    loaded = keras.saving.load_model(tmp_path / "m.keras")
    (layer,) = [one for one in loaded.layers if isinstance(one, keras.layers.Conv2D)]
    assert layer.strides == (1, 1) or layer.kernel.shape[2] == 2
    for size in (3, 4, 9) if width == "w" else (width,):
        x = rng.standard_normal((4, 1, 6, size)).astype(np.float32)
        np.testing.assert_allclose(loaded.predict(x, verbose=0), run_ort(proto, {"x": x})[0], rtol=1e-4, atol=2e-5)
