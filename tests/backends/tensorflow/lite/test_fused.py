"""Layers followed by the addition of one number in TensorFlow Lite, whose converter turns the number into a bias."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is the oracle")
pytest.importorskip("ai_edge_litert.interpreter", reason="ai-edge-litert runs the files")

from torch import nn  # noqa: E402  (after what it needs)

from tests.support.tensorflow_lite_helper import encode, graph_of, run  # noqa: E402

LAYERS = {
    "conv": lambda bias: nn.Conv2d(4, 4, 3, bias=bias),
    "depthwise": lambda bias: nn.Conv2d(4, 4, 3, groups=4, bias=bias),
    "transposed": lambda bias: nn.ConvTranspose2d(4, 4, 3, bias=bias),
    "transposed with strides": lambda bias: nn.ConvTranspose2d(4, 4, 2, stride=2, bias=bias),
    "transposed to one": lambda bias: nn.ConvTranspose2d(4, 1, 2, bias=bias),
    "transposed and cut": lambda bias: nn.ConvTranspose2d(4, 4, 3, padding=1, bias=bias),
}
FORMS = {
    "sum": lambda y: y + 0.82,
    "sum of a vector of one": lambda y: torch.full((1,), 0.82) + y,
    "difference": lambda y: y - 0.82,
    "scaled sum": lambda y: torch.relu(y * 0.5 + 0.82),
    "hard sigmoid": nn.functional.hardsigmoid,
}


class Every(nn.Module):
    """Each layer, with and without a bias, before each form of addition."""

    def __init__(self, layers: list[str], forms: list[str]) -> None:
        super().__init__()
        self.layers = nn.ModuleDict({
            f"{layer}, {form}, {bias}": LAYERS[layer](bias)
            for layer in layers for form in forms for bias in (True, False)
        })  # fmt: skip

    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        return {f"y{i}": FORMS[n.split(", ")[1]](layer(x)) for i, (n, layer) in enumerate(self.layers.items())}


@pytest.mark.parametrize(
    ("layers", "forms"),
    [(["transposed", "conv"], ["sum"]), pytest.param(list(LAYERS), list(FORMS), marks=pytest.mark.long)],
    ids=["first", "all"],
)
def test_one_number_is_added_to_every_channel(layers: list[str], forms: list[str], tmp_path: Path) -> None:
    torch.manual_seed(1)
    module, x = Every(layers, forms).eval(), np.random.default_rng(0).standard_normal((2, 4, 5, 6)).astype(np.float32)
    with torch.no_grad():
        want = {name: y.numpy() for name, y in module(torch.from_numpy(x)).items()}
    got = run(encode(graph_of(module, "x:float32[2,4,5,6]"), tmp_path), {"x": x})
    for place, name in enumerate(module.layers):
        np.testing.assert_allclose(got[f"y{place}"], want[f"y{place}"], rtol=1e-5, atol=1e-5, err_msg=name)
