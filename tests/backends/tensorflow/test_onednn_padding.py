"""Convolutions whose padding has room for a whole window; oneDNN's kernels with a bias crash the process for these."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from convert.backends.tensorflow.emit import FUSION_BARRIER
from onnx import helper

from tests.backends.tensorflow.test_onednn import RANDOM, call, model, operations, written
from tests.support.tensorflow_networks import onnxruntime_of


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("stride", [2, 1])
@pytest.mark.parametrize(
    ("kernel", "pads", "width", "apart"),
    [([2, 1], [1, 0, 1, 1], 2, True), ([3, 1], [1, 3, 1, 2], 1, True), ([1, 2], [0, 0, 0, 2], 2, True),
     ([1], [3, 1], 1, True), ([3, 3], [1, 1, 1, 1], 5, False)], ids=str,
)  # fmt: skip
def test_padding_with_room_for_a_window_is_not_fused_with_a_bias(
    kernel: list[int], pads: list[int], width: int, apart: bool, stride: int, channels: int, tmp_path: Path
) -> None:
    """oneDNN's fused kernel crashes the process if a window along the width holds padding only.

    From `tests.suites.compose --source onnx --seed 12512`; TensorFlow 2.21. Of 600 convolutions, all that crashed had
    such a window. Convolutions without one are still fused.
    """
    rank = len(kernel)
    nodes = [helper.make_node("Conv", ["x", "w", "b"], ["h"], strides=[stride] * rank, pads=pads),
             helper.make_node("HardSwish", ["h"], ["y"])]  # fmt: skip
    weights = {"w": RANDOM.normal(size=(4, channels, *kernel)), "b": RANDOM.normal(size=4)}
    dims: list[Any] = ["n", channels, *["h"][: rank - 1], width]
    stored: Any = {n: a.astype(np.float32) for n, a in weights.items()}
    proto = model(nodes, dims, ["n", 4, *[None] * rank], **stored)
    path = written(proto, tmp_path, "tf-frozen")
    (added,) = [op for op in operations(path) if op.type == "BiasAdd"]
    before = added.inputs[0].op
    assert (before.type == "Squeeze" and before.name.endswith(FUSION_BARRIER)) == apart
    for height in (1, 2, 5) if rank == 2 else (1,):
        x = RANDOM.normal(size=(2, channels, *[height][: rank - 1], width)).astype(np.float32)
        np.testing.assert_allclose(call(path, x), onnxruntime_of(proto, {"x": x})[0], rtol=1e-4, atol=2e-5)


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_what_is_convolved_may_be_a_constant(rank: int, tmp_path: Path) -> None:
    """An example is a tensor of ones that counts the elements of a window.

    It has no producer that could be a Pad.
    """
    nodes = [helper.make_node("Conv", ["ones", "x"], ["y"])]
    ones: Any = np.ones((1, 1, *[4] * rank), np.float32)
    proto = model(nodes, ["n", 1, *[2] * rank], [1, "n", *[3] * rank], ones=ones)
    x = RANDOM.normal(size=(3, 1, *[2] * rank)).astype(np.float32)
    found = call(written(proto, tmp_path, "tf-frozen"), x)
    np.testing.assert_allclose(found, onnxruntime_of(proto, {"x": x})[0], rtol=1e-4, atol=2e-5)
