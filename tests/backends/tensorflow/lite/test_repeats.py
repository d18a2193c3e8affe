"""Repeats of a dim of unknown size before arithmetic in TensorFlow Lite, whose converter drops TILE there."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is the oracle")
pytest.importorskip("ai_edge_litert.interpreter", reason="ai-edge-litert runs the files")

from tests.support.tensorflow_lite_helper import encode, graph_of, run  # noqa: E402  (after what it needs)

REPEATS = [(2, 1, 1), (3, 2, 2), (12, 1, 1), (0, 1, 1)]
FORMS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "product": lambda y: y * 2,
    "sum": lambda y: 0.5 + y,
    "of integers": lambda y: y.long() + 3,
    "nothing": lambda y: y,
}


class Repeated(torch.nn.Module):
    """Each form of each repeat, and one repeat with a count known at run time."""

    def __init__(self, repeats: list[tuple[int, int, int]], forms: list[str]) -> None:
        super().__init__()
        self.repeats, self.forms = repeats, forms
        # After this operator the converter forgets static lengths.
        self.forgets = torch.nn.Conv2d(2, 2, 2, padding=1, dilation=2, groups=2)

    def forward(self, x: torch.Tensor) -> list[torch.Tensor]:
        forms = [FORMS[name] for name in self.forms]
        some = [form(x.repeat(*counts)) for counts in self.repeats for form in forms]
        forgotten = self.forgets(x[:, :, None, :1].expand(-1, -1, x.shape[2], 4))
        some += [form(forgotten.repeat(1, 1, 1, 2)) for form in forms]
        return [*some, *(form(x.repeat(x.shape[0], 1, 1)) for form in forms)]


@pytest.mark.parametrize(
    ("repeats", "forms"),
    [(REPEATS[:1], ["product"]), pytest.param(REPEATS, list(FORMS), marks=pytest.mark.long)],
    ids=["first", "all"],
)
def test_nothing_is_left_out(repeats: list[tuple[int, int, int]], forms: list[str], tmp_path: Path) -> None:
    module = Repeated(repeats, forms)
    path = encode(graph_of(module, "x:float32[n,2,k]"), tmp_path)
    for n, k in ((2, 3), (1, 1), (3, 2)):
        x = np.random.default_rng(n).standard_normal((n, 2, k)).astype(np.float32)
        want = [y.detach().numpy() for y in module(torch.from_numpy(x))]
        for got, y in zip(run(path, {"x": x}).values(), want, strict=True):
            assert (got.dtype, got.shape) == (y.dtype, y.shape)
            np.testing.assert_allclose(got, y, rtol=1e-6, atol=1e-6)
