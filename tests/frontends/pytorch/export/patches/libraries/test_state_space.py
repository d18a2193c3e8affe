"""State space models of transformers with sequences of any length, against transformers itself."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from tests.support.pytorch_tools import read, run, shape_of
from tests.support.timm_helper import declare_torchvision_operators

declare_torchvision_operators()
transformers: Any = pytest.importorskip("transformers", reason="Mamba is transformers'")

SMALL = {"vocab_size": 50, "hidden_size": 8, "state_size": 4, "num_hidden_layers": 2, "time_step_rank": 2}


class Ids(nn.Module):
    """A model without its cache."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = self.inner(input_ids=ids, use_cache=False).last_hidden_state
        return found


@pytest.mark.slow
@pytest.mark.parametrize("name", ["Mamba", "FalconMamba"])
def test_the_length_of_a_sequence_is_dynamic(name: str) -> None:
    torch.manual_seed(0)
    inner = getattr(transformers, f"{name}Model")(getattr(transformers, f"{name}Config")(**SMALL))
    module = Ids(inner).eval()
    model = read(module, "ids:int64[batch,length]")
    assert shape_of(model.graph.outputs[0]) == ["batch", "length", 8]
    for shape in ((1, 1), (2, 5), (3, 9)):
        ids = torch.randint(0, 50, shape)
        np.testing.assert_allclose(run(model, ids.numpy())[0], module(ids).detach(), rtol=1e-4, atol=1e-5)


class Masked(Ids):
    """The same with a mask, which transformers leaves out for a single token."""

    def forward(self, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:  # type: ignore[override]
        found: torch.Tensor = self.inner(input_ids=ids, attention_mask=mask, use_cache=False).last_hidden_state
        return found


@pytest.mark.slow
def test_a_mask_of_any_length() -> None:
    torch.manual_seed(0)
    sizes = {"vocab_size": 50, "hidden_size": 8, "intermediate_size": 12, "num_attention_heads": 2}
    config = transformers.Lfm2Config(
        **sizes, num_key_value_heads=1, num_hidden_layers=2, layer_types=["conv", "full_attention"]
    )
    module = Masked(transformers.Lfm2Model(config)).eval()
    model = read(module, "ids:int64[batch,length]", "mask:int64[batch,length]")
    for shape in ((1, 1), (3, 1), (2, 5), (3, 9)):
        ids, mask = torch.randint(0, 50, shape), torch.randint(0, 2, shape)
        found = run(model, ids.numpy(), mask.numpy())[0]
        np.testing.assert_allclose(found, module(ids, mask).detach(), rtol=1e-4, atol=1e-5)
