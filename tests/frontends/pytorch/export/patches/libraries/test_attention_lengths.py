"""Capture knows that attention has as many values as keys, in every kernel with which PyTorch infers shapes."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from convert.frontends.pytorch.export.patches.libraries.attention import no_mask_without_padding
from torch.nn.functional import scaled_dot_product_attention

import convert


class Attention(torch.nn.Module):
    def __init__(self, **options: Any) -> None:
        super().__init__()
        self.options = options

    def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return scaled_dot_product_attention(q, k, v, **self.options)


@pytest.mark.parametrize("options", [{}, {"is_causal": True}], ids=["plain", "causal"])
@pytest.mark.parametrize(
    "leading", [("batch", "batch"), ("batch,4", "batch,4"), ("2,batch,4", "2,batch,4"), ("batch,4", "batch,2")],
    ids=["rank 3", "rank 4", "rank 5", "grouped heads"],
)  # fmt: skip
def test_keys_and_values_have_one_length(leading: tuple[str, str], options: dict[str, Any]) -> None:
    """Lengths to which the user gives different names become one dim, for any rank."""
    module = Attention(**options, enable_gqa=leading[0] != leading[1])
    dims = zip("qkv", (leading[0], leading[1], leading[1]), ("n", "m", "l"), strict=True)
    report = convert.inspect(module, inputs=[f"{name}:float32[{lead},{length},8]" for name, lead, length in dims])
    queries, keys, values = (tensor.shape[-2] for tensor in report.inputs if tensor.shape)
    assert keys == values
    assert isinstance(keys, str)
    assert queries != keys


def test_a_mask_is_left_out_without_padding() -> None:
    """transformers decides otherwise only where a text is padded, or attention is local."""
    ignores = no_mask_without_padding(lambda *_: False)
    assert ignores(None, 5)
    assert not ignores(None, 5, 2)
    assert not ignores(torch.ones(1, 5), 5)
