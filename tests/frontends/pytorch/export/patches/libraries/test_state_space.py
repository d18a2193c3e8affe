"""State space models of transformers with sequences of any length, against transformers itself."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np
import pytest
import torch
from convert.frontends.pytorch.export.patches.libraries import state_space
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


def _chunked(rows: int, length: int) -> tuple[tuple[torch.Tensor, ...], dict[str, Any]]:
    """Return arguments for Mamba-2's recurrence: 4 heads of size 3, 2 groups, states of size 5, chunks of 4 tokens."""
    shapes = ((rows, length, 4, 3), (rows, length, 4), (4,), (rows, length, 2, 5), (rows, length, 2, 5))
    x, dt, a, b, c = (torch.randn(shape) for shape in shapes)
    return (x, dt, -a.exp(), b, c), {"chunk_size": 4, "D": torch.randn(4), "dt_bias": torch.randn(4),
                                     "dt_softplus": True, "dt_limit": (0.1, 2.0)}  # fmt: skip


def _delta(rows: int, length: int, by_channel: bool = False) -> tuple[tuple[torch.Tensor, ...], dict[str, Any]]:
    """Return arguments for the gated delta rule: 4 heads with values of size 5 and keys of size 3."""
    keys = 4 if by_channel else 2
    shapes = ((rows, length, keys, 3), (rows, length, keys, 3), (rows, length, 4, 5),
              (rows, length, 4, 3) if by_channel else (rows, length, 4), (rows, length, 4))  # fmt: skip
    query, key, value, decay, beta = (torch.randn(shape) for shape in shapes)
    return (query, key, value, -decay.exp(), beta.sigmoid()), {"chunk_size": 4, "use_qk_l2norm_in_kernel": True}


RECURRENCES = {
    "mamba2_chunk_scan": ("mamba2", state_space.chunk_scan, _chunked, "initial_states", "return_final_states"),
    "torch_chunk_gated_delta_rule": (
        "qwen3_next", state_space.gated_delta_rule, _delta, "initial_state", "output_final_state"
    ),
    "chunk_kimi_delta_attention": (
        "kimi_linear", state_space.gated_delta_rule, lambda *sizes: _delta(*sizes, by_channel=True), "initial_state",
        "output_final_state",
    ),
}  # fmt: skip
"""Functions of transformers: the model, what replaces it, its arguments, and its options for states."""


@pytest.mark.slow
@pytest.mark.parametrize("name", RECURRENCES)
@pytest.mark.parametrize("length", [2, 9])
def test_a_recurrence_gives_what_its_chunks_give(name: str, length: int) -> None:
    """It also continues from the state of earlier tokens."""
    model, ours, arguments, before, after = RECURRENCES[name]
    theirs = getattr(import_module(f"transformers.models.{model}.modeling_{model}"), name)
    torch.manual_seed(0)
    state = None
    for _ in range(2):
        given, options = arguments(2, length)
        options |= {before: state, after: True}
        want, state = theirs(*given, **options)
        got, ours_after = ours(*given, **options)
        torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(ours_after, state, rtol=1e-4, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("length", [2, 9])
def test_lightning_attention_gives_what_its_blocks_give(length: int) -> None:
    """A second call continues from the state of the first, for which transformers goes token by token."""
    minimax = import_module("transformers.models.minimax.modeling_minimax")
    sizes = {"hidden_size": 16, "num_attention_heads": 2, "num_hidden_layers": 2, "head_dim": 8, "block_size": 4}
    config = transformers.MiniMaxConfig(**sizes, layer_types=["full_attention", "linear_attention"])
    torch.manual_seed(0)
    layer = minimax.MiniMaxLightningAttention(config, layer_idx=1)
    mask = torch.ones(2, length, dtype=torch.int64)
    mask[0, 0] = 0
    caches = minimax.MiniMaxCache(), minimax.MiniMaxCache()
    with torch.no_grad():
        for _ in range(2):
            given = torch.randn(2, length, 16)
            want, _ = layer(given, None, mask, cache=caches[0])
            got, _ = state_space.lightning_attention(layer, given, (given, given), mask, cache=caches[1])
            torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-5)
            states = [cache.get_linear_cache(1) for cache in caches]
            torch.testing.assert_close(states[1], states[0], rtol=1e-4, atol=1e-5)
