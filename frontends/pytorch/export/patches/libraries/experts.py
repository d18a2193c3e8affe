"""Lets JetMoE hand rows to its experts without numbers of the data, by products of groups of rows."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


def sorted_by_expert(self: Any, hidden_states: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Return what JetMoE's router returns, with the number of rows of each expert as a tensor instead of a list."""
    logits = self.layer(hidden_states).float()
    scores, experts = logits.topk(self.top_k, dim=1)
    gates = torch.softmax(scores, dim=1).type_as(hidden_states).flatten()
    chosen = experts.flatten()
    sizes = (chosen[:, None] == torch.arange(self.num_experts, device=chosen.device)).sum(0)
    order = chosen.sort(0)[1]
    return order, order.div(self.top_k, rounding_mode="trunc"), gates[order], sizes, logits


def rows_in_groups(self: Any, inputs: Tensor, expert_size: Tensor) -> Tensor:
    """Return each row of `inputs` times the matrix of its expert; `expert_size` tells how many rows each one has."""
    ends = expert_size.cumsum(0).to(torch.int32)
    found: Tensor = torch.ops.transformers.grouped_mm_fallback(inputs, self.weight.transpose(1, 2), ends)
    return found
