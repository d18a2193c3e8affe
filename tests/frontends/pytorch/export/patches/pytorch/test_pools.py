"""1-D and 2-D pools of any size, with windows of fixed lengths and of the length of a dim."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnxruntime
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is the oracle")

from torch import Tensor, nn  # noqa: E402  (after what it needs)
from torch.nn import functional as F  # noqa: E402

import convert  # noqa: E402

FORMS: dict[str, Callable[[Tensor], Tensor]] = {
    "windows of two": lambda x: F.max_pool1d(x, 2),
    "windows that overlap": lambda x: F.max_pool1d(x, 3, 2, 1, ceil_mode=True),
    "windows with gaps": lambda x: F.max_pool1d(x, 2, 1, 0, 2),
    "a module": lambda x: nn.MaxPool1d(3)(x),
    "without a batch": lambda x: F.max_pool1d(x[0], 2),
    "three times": lambda x: F.max_pool1d(F.max_pool1d(F.max_pool1d(x, 2), 2), 2),
    "whole line": lambda x: F.max_pool1d(x, x.shape[-1]).squeeze(-1),
    "whole line, one step": lambda x: F.max_pool1d(x, kernel_size=x.size(2), stride=1),
    "mean of the line": lambda x: F.avg_pool1d(x, x.size(2)),
    "whole rows": lambda x: F.max_pool2d(x[:, None], (2, x.shape[-1])),
    "whole map": lambda x: F.max_pool2d(x[:, :, None], kernel_size=x[:, :, None].size()[2:]),
    "mean of rows": lambda x: F.avg_pool2d(x[:, None], (2, x.shape[-1]), stride=1),
    "greatest": lambda x: F.adaptive_max_pool1d(x, 1),
    "place of the greatest": lambda x: F.adaptive_max_pool2d(x[:, :, None], 1, return_indices=True)[1],
    "windows with places": lambda x: F.max_pool1d(x, 2, return_indices=True)[1],
}


class Pools(nn.Module):
    def forward(self, x: Tensor) -> dict[str, Tensor]:
        return {f"y{i}": form(x) for i, form in enumerate(FORMS.values())}


def test_pools_of_any_length(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    convert.convert(Pools(), "onnx", path, inputs="x:float32[batch,4,time]", verify=False)
    session = onnxruntime.InferenceSession(path)
    for batch, time in ((1, 16), (2, 17), (3, 40)):
        x = torch.from_numpy(np.random.default_rng(time).standard_normal((batch, 4, time)).astype(np.float32))
        want = Pools()(x).values()
        for name, a, b in zip(FORMS, session.run(None, {"x": x.numpy()}), want, strict=True):
            np.testing.assert_allclose(a, b.numpy(), rtol=1e-6, atol=1e-6, err_msg=f"{name}, {batch} of {time}")
