"""Forms that TensorFlow Lite computes faster than the literal ones: the operators, and the results."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is the oracle")
pytest.importorskip("ai_edge_litert.interpreter", reason="ai-edge-litert runs the files")

from torch import nn  # noqa: E402  (after what it needs)

from tests.backends.tensorflow.lite.test_quantized import operators_of  # noqa: E402
from tests.support.tensorflow_lite_helper import encode, graph_of, run  # noqa: E402


class Steps(nn.Module):
    """A recurrent layer, of which the last step is used."""

    def __init__(self, kind: Callable[..., nn.RNNBase]) -> None:
        super().__init__()
        self.layer = kind(4, 5, batch_first=True)

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return self.layer(input)[0][:, -1]


def shuffled(last: Callable[[], nn.Module]) -> nn.Module:
    return nn.Sequential(nn.Conv2d(3, 12, 3, padding=1), last(), nn.PixelShuffle(2))


FORMS: dict[str, tuple[Callable[[], nn.Module], str, set[str], set[str]]] = {
    # a module, its input, operators that the file has, and those that it lacks
    "LSTM": (lambda: Steps(nn.LSTM), "1,7,4", {"FULLY_CONNECTED"}, {"WHILE", "SPLIT_V"}),
    "GRU": (lambda: Steps(nn.GRU), "1,7,4", {"FULLY_CONNECTED"}, {"WHILE", "SELECT_V2"}),
    "GRU, any batch": (lambda: Steps(nn.GRU), "batch,7,4", {"FULLY_CONNECTED"}, {"WHILE", "SELECT_V2"}),
    "LSTM, many steps": (lambda: Steps(nn.LSTM), "1,300,4", {"WHILE"}, set()),
    "pixel shuffle": (lambda: shuffled(nn.ReLU), "1,3,6,6", {"DEPTH_TO_SPACE"}, {"RESHAPE"}),
    "pixel shuffle, channels": (lambda: shuffled(lambda: nn.PReLU(12)), "1,3,6,6", {"RESHAPE"}, {"DEPTH_TO_SPACE"}),
    "transposed": (lambda: nn.ConvTranspose2d(4, 6, 4, 2, 1), "1,4,5,6", {"TRANSPOSE_CONV"}, {"STRIDED_SLICE", "ADD"}),
    "transposed, odd": (lambda: nn.ConvTranspose2d(4, 6, 3, 2, 1), "1,4,5,6", {"TRANSPOSE_CONV"}, set()),
    "hard sigmoid": (nn.Hardsigmoid, "1,4,5,6", set(), {"RELU_0_TO_1"}),
}


@pytest.mark.parametrize("name", FORMS)
def test_operators_and_results(name: str, tmp_path: Path) -> None:
    make, dims, has, lacks = FORMS[name]
    torch.manual_seed(0)
    module = make().eval()
    x = 3 * np.random.default_rng(0).standard_normal([int(d) if d.isdigit() else 2 for d in dims.split(",")])
    path = encode(graph_of(module, f"input:float32[{dims}]"), tmp_path)
    found = {operator for operator, _, _ in operators_of(path)}
    assert has <= found
    assert not lacks & found
    (got,) = run(path, {"input": x.astype(np.float32)}).values()
    with torch.no_grad():
        want = module(torch.from_numpy(x.astype(np.float32))).numpy()
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)


def test_a_step_needs_no_reshape(tmp_path: Path) -> None:
    """TensorFlow's converter reshapes an operand of [1, n] to [n], which XNNPACK does not take."""
    torch.manual_seed(0)
    path = encode(graph_of(Steps(nn.LSTM), "input:float32[1,7,4]"), tmp_path)
    names = [operator for operator, _, _ in operators_of(path)]
    assert names.count("RESHAPE") <= 3
    assert names.count("ADD") >= 12
