"""A constant minus, or divided by, a reshaped or transposed tensor; TensorFlow's converter swaps the operands."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is the oracle")
pytest.importorskip("ai_edge_litert.interpreter", reason="ai-edge-litert runs the files")

from tests.support.tensorflow_lite_helper import encode, graph_of, run  # noqa: E402  (after what it needs)

FORMS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "difference": lambda y: -0.15 - y,
    "of a Relu": lambda y: 0.3 - torch.relu(y),
    "quotient": lambda y: 2.5 / (y + 9),
    "reciprocal": lambda y: torch.reciprocal(y + 9),
    "negated": lambda y: -y + 0.3,
    "negated twice": lambda y: torch.tensor(-2.5) / (-y - 9),
}


class Moved(torch.nn.Module):
    """A convolution, its result with other dims, and one of the forms applied to it."""

    def __init__(self, form: Callable[[torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.conv, self.form = torch.nn.Conv2d(2, 2, 1), form

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.form(self.conv(x).unsqueeze(1).permute(0, 2, 3, 4, 1).flatten(3, 4))


class Pooled(torch.nn.Module):
    """A linear layer whose bias is added after a transpose, a difference, and a pool that needs a transpose."""

    def __init__(self) -> None:
        super().__init__()
        self.linear, self.c = torch.nn.Linear(4, 1), torch.nn.Buffer(torch.randn(1, 8, 6, 1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.avg_pool2d(torch.nn.functional.pad(self.c - self.linear(x), [1, 1, 2, 0]), 2)


def test_a_sum_with_what_was_moved_is_moved(tmp_path: Path) -> None:
    torch.manual_seed(1)
    module, x = Pooled().eval(), np.random.default_rng(0).standard_normal((1, 8, 6, 4)).astype(np.float32)
    with torch.no_grad():
        want = module(torch.from_numpy(x)).numpy()
    (got,) = run(encode(graph_of(module, "x:float32[1,8,6,4]"), tmp_path), {"x": x}).values()
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_the_constant_stays_on_its_side(form: Callable[[torch.Tensor], torch.Tensor], tmp_path: Path) -> None:
    torch.manual_seed(1)
    module, x = Moved(form).eval(), np.random.default_rng(0).standard_normal((1, 2, 6, 4)).astype(np.float32)
    with torch.no_grad():
        want = module(torch.from_numpy(x)).numpy()
    (got,) = run(encode(graph_of(module, "x:float32[1,2,6,4]"), tmp_path), {"x": x}).values()
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)
