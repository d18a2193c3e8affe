"""Keeps nn.AdaptiveLogSoftmaxWithLoss from skipping clusters depending on data.

PyTorch's own methods compute the log-probabilities of only those clusters that the rows of a batch need; the numbers
are the same (`log_prob` in torch/nn/modules/adaptive.py).
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ....torch_internals import assert_true, outputs_of_clusters


def predict(self: Any, input: Tensor) -> Tensor:
    """Return the classes, from the log-probabilities of all of them."""
    found = torch.argmax(self.head(input), dim=1)
    return torch.where(found < self.shortlist_size, found, self.log_prob(input).argmax(dim=1))


def forward(self: Any, input_: Tensor, target_: Tensor) -> Any:
    """Return the log-probabilities of the targets and their loss; all targets are checked at once."""
    batched = target_.dim() > 0
    rows, target = (input_, target_) if batched else (input_.unsqueeze(0), target_.unsqueeze(0))
    assert_true(((target >= 0) & (target < self.n_classes)).all(), "targets are no classes")
    output = self.log_prob(rows).gather(1, target.unsqueeze(1)).squeeze(1)
    loss = (-output).mean()
    return outputs_of_clusters(output if batched else output.squeeze(0), loss)
