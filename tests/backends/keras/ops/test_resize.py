"""Resize by the rule of `backends/keras/ops/resize.py` and written out, against onnxruntime."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

import convert
from tests.backends.keras.ops.keras_support import Outcomes, check, shared_rows
from tests.backends.tensorflow.ops.onnx_cases import const, f16
from tests.support.cases import Case, case, f64, params
from tests.support.run_targets import run_target

RNG = np.random.default_rng(0)
TWICE = None, const(np.float32([1, 1, 2, 2]))
ROWS = [
    *shared_rows(__name__),
    case("Resize", f64(1, 2, 3, 4), *TWICE, mode="linear").named("whole factors of float64"),
    case("Resize", f16(1, 2, 3, 4), *TWICE, mode="linear").named("whole factors of float16"),
]


@pytest.mark.parametrize("row", params(ROWS))
def test_operator(row: Case, keras_outcomes: Outcomes) -> None:
    check(row, keras_outcomes)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("factors", "dtype"), [((2, 2), "float32"), ((3, 4), "float32"), ((1, 5), "float32"), ((2, 3), "float64")]
)
def test_bilinear_pictures_of_dynamic_size(factors: tuple[int, int], dtype: str, tmp_path: Path) -> None:
    class Upsampled(nn.Module):
        def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
            return {"y": functional.interpolate(x, scale_factor=factors, mode="bilinear")}

    path = tmp_path / "m.keras"
    convert.convert(Upsampled().eval(), "keras", path, inputs=[f"x:{dtype}[b,6,h,w]"], verify=False)
    feeds = [RNG.standard_normal((2, 6, *size)).astype(dtype) for size in ((4, 5), (1, 1), (7, 2))]
    for x, got in zip(feeds, run_target("keras", path, [{"x": x} for x in feeds]), strict=True):
        want = Upsampled()(torch.from_numpy(x))["y"].numpy()
        assert got["y"].dtype == dtype
        np.testing.assert_allclose(got["y"], want, rtol=0, atol=8 * np.finfo(dtype).eps * np.abs(want).max())
