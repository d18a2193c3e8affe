"""Every combination of each family of fused layers, in child processes that may crash, with oneDNN on and off."""

from __future__ import annotations

import pytest

from tests.suites.fused import LAYERS, run_family

# One of each kind of error: those that TensorFlow 2.21 is known to fuse wrongly if they are emitted plainly.
SAMPLE = {
    "matmul": [
        ("matmul", "wider", "none", "float32"),
        ("matmul", "one_wider", "Relu", "float32"),
        ("matmul", "wider_negative", "none", "float32"),
    ],
    "conv3d": [("conv3d", "none", "LeakyRelu", "float32"), ("conv3d", "none", "MaxSlope", "float32")],
    "conv2d": [("conv2d", "bias", "MaxMultiple", "float32"), ("conv2d", "none", "MaxMultiple", "float32")],
    "matmul_of_rank_4": [("matmul_of_rank_4", "vector", "none", "float32")],
    "batches_of_one": [("batches_of_one", "vector", "Relu", "float32")],
    "conv2d_of_more_channels": [("conv2d_of_more_channels", "bias", "Relu", "float32")],
    "conv2d_in_its_pads": [("conv2d_in_its_pads", "bias", "none", "float32")],
    "conv2d_in_pads": [("conv2d_in_pads", "bias", "Relu", "float32")],
    "conv3d_of_more_channels": [("conv3d_of_more_channels", "none", "none", "float32")],
    "conv3d_behind_pad": [("conv3d_behind_pad", "bias", "Elu", "float32")],
    "batches_of_one_row": [("batches_of_one_row", "longer", "Relu", "float32")],
}


@pytest.mark.slow
@pytest.mark.parametrize("family", SAMPLE)
def test_known_traps(family: str) -> None:
    assert run_family(family, "1", SAMPLE[family]) == []


@pytest.mark.long
@pytest.mark.parametrize("onednn", ["1", "0"])
@pytest.mark.parametrize("family", LAYERS)
def test_family(family: str, onednn: str) -> None:
    assert run_family(family, onednn) == []
