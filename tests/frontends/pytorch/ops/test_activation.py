"""The rules of `frontends/pytorch/ops/activation.py` against PyTorch."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from tests.frontends.pytorch.ops.support import check, check_unknown_sizes, layers
from tests.support.cases import Case, case, f32, i64, params
from tests.support.pytorch_tools import read, run

X = f32(2, 4, 6, 7)
RANGE = np.linspace(-8, 8, 33, dtype=np.float32)

ROWS = [
    *layers(
        *(
            case(name, RANGE)
            for name in (
                "relu",
                "relu6",
                "hardtanh",
                "leaky_relu",
                "elu",
                "selu",
                "celu",
                "gelu",
                "silu",
                "mish",
                "hardswish",
                "hardsigmoid",
                "softplus",
                "log_sigmoid",
                "hardshrink",
                "softshrink",
                "rrelu",
            )
        ),
        case("relu", i64(2, 3)).named("int"),
        case("hardtanh", RANGE, -2, 3).named("bounds"),
        case("leaky_relu", RANGE, 0.3).named("slope"),
        case("elu", RANGE, 0.7).named("alpha"),
        case("elu", RANGE, 0.7, 1.5, 0.5).named("scales"),
        case("celu", RANGE, 2.0).named("alpha"),
        case("gelu", RANGE, approximate="tanh").named("tanh"),
        case("softplus", RANGE, 2, 3).named("threshold"),
        case("softplus", RANGE, 0.5).named("beta"),
        case("hardshrink", RANGE, 1).named("wide"),
        case("softshrink", RANGE, 1).named("wide"),
        case("threshold", RANGE, 0.5, 7),
        case("prelu", X, f32(4)),
        case("prelu", RANGE, f32(1)).named("one"),
        case("prelu", np.array(-2.0, np.float32), f32(1)).named("number"),
        case("_prelu_kernel", f32(2, 3), f32(1, 3)),
        case("glu", f32(2, 6)),
        case("glu", X, 1).named("channels"),
        *(
            case(name, f32(2, 5), 1)
            for name in ("softmax", "log_softmax", "special_softmax", "special_log_softmax", "_safe_softmax")
        ),
        case("_softmax", f32(2, 5), 1, False),
        case("_log_softmax", f32(2, 5), 0, False),
        case("softmax", i64(2, 3), 0, 6).named("dtype"),
        *(
            case(name, f32(2, 5), 0.5, False)
            for name in ("dropout", "feature_dropout", "alpha_dropout", "feature_alpha_dropout")
        ),
        case("rrelu_with_noise", RANGE, RANGE),
    ),
    case("_safe_softmax", np.array([[1, 2], [-np.inf, -np.inf]], np.float32), 1),
]


@pytest.mark.parametrize("row", params(ROWS))
def test_rule_agrees_with_pytorch(row: Case) -> None:
    check(row)


@pytest.mark.slow
@pytest.mark.parametrize("row", params(row for row in ROWS if not row.reason))
def test_rule_agrees_where_sizes_are_unknown(row: Case) -> None:
    check_unknown_sizes(row)


def test_celu_leaves_positive_numbers_as_they_are() -> None:
    """From `tests.suites.compose --source pytorch --seed 48927`: a comparison with the input shows whether it was
    changed.
    """
    x = torch.rand(100) + 0.1
    (found,) = run(read(nn.CELU(0.38), "float32[100]"), x.numpy())
    np.testing.assert_array_equal(found, x)
