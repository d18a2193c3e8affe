"""The rules of `frontends/tensorflow/ops/images/nms.py` against TensorFlow."""

from __future__ import annotations

import numpy as np
import pytest

from tests.frontends.tensorflow.ops.tf_support import also_with_batch, check, with_batch
from tests.support.cases import Case, case, f32, params

CANDIDATES = f32(2, 6, 1, 4, low=0, high=1.3)
CANDIDATES[..., 2:] += CANDIDATES[..., :2]
VOTES = f32(2, 6, 3, low=0, high=1)

ROWS = [
    case("CombinedNonMaxSuppression", CANDIDATES, VOTES, 2, 9, np.float32(0.2), np.float32(0.3)),
    case("CombinedNonMaxSuppression", CANDIDATES, VOTES, 2, 4, np.float32(0.5), np.float32(0.4), clip_boxes=False),
    case("CombinedNonMaxSuppression", CANDIDATES, VOTES, 3, 40, np.float32(0.5), np.float32(0.1), pad_per_class=True),
    case(
        "CombinedNonMaxSuppression",
        np.concatenate([CANDIDATES, CANDIDATES[::-1], 0.9 * CANDIDATES], 2),
        VOTES,
        2,
        5,
        np.float32(0.2),
        np.float32(0.3),
    ).named("boxes of each class"),
]


@pytest.mark.parametrize("row", params(ROWS, also_with_batch))
def test_operator(row: Case) -> None:
    check(row, dynamic=False)


@pytest.mark.parametrize("row", params(with_batch(ROWS)))
def test_operator_with_dynamic_batch(row: Case) -> None:
    check(row, dynamic=True)
