"""JetMoE's experts as products of groups of rows, against transformers itself."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import pytest
import torch
from convert.frontends.pytorch.export.patch_table import Stage, patched

from tests.support.timm_helper import declare_torchvision_operators

declare_torchvision_operators()
transformers: Any = pytest.importorskip("transformers", reason="JetMoE is transformers'")


@pytest.mark.parametrize("tokens", [1, 7])
def test_groups_of_rows_give_what_the_experts_give_one_by_one(tokens: int) -> None:
    """With few tokens, some experts have no rows."""
    torch.manual_seed(0)
    config = transformers.JetMoeConfig(hidden_size=8, intermediate_size=6, num_local_experts=5, num_experts_per_tok=2)
    layer = import_module("transformers.models.jetmoe.modeling_jetmoe").JetMoeMoE(config)
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.normal_()
        given = torch.randn(2, tokens, 8)
        want = layer(given)
        with patched(Stage.CACHE_SIZES):
            torch.testing.assert_close(layer(given), want)
