"""Test the programs of `near_patterns.py`: those that an optimizer has computed wrongly, and with `long` all of
them.
"""

from __future__ import annotations

import pytest

from tests.suites.near_patterns import FORMS, programs, wrong_programs

TRAPS = [
    "product: by a vector (0, 2, 1) 1.0",
    "norm: layer norm in two -1 0.1 ** -0.5",
    "layer: maximum 1.5 of a product",
    "layer: maximum / 0.5 of a convolution",
    "layer: leaky_relu of a sum",
    "layer: mish of a sum",
    "bias: a product and (1,)",
    "bias: a map and (1, 1, 1, 1)",
    "bias: a line by (1,)",
    "size: a slice as rows of 3 dims without a bias 2",
    "pair: mish of silu of a map",
    "pad: a convolution (0, 0, 0, 0, 1, 1) 0.0",
    "pad: a padded volume (1, 1, 0, 0, 2, 0)",
]
"""Programs that onnxruntime 1.32 or TensorFlow 2.21 (mostly with oneDNN) computes wrongly if written plainly."""


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS)
def test_known_traps(form: str) -> None:
    assert wrong_programs(form, TRAPS) == {}


@pytest.mark.long
@pytest.mark.parametrize("onednn", ["1", "0"])
@pytest.mark.parametrize("form", FORMS)
def test_every_program(form: str, onednn: str) -> None:
    assert wrong_programs(form, list(programs()), onednn) == {}
