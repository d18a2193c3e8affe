"""The CTC loss by masks and a scan, because PyTorch's own operator reads the values of its lengths."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ....torch_internals import scan

_NEVER = -1e30
"""The logarithm of probability zero: finite, so that differences of it are not NaN."""


def ctc_loss(
    log_probs: Tensor,
    targets: Tensor,
    input_lengths: Any,
    target_lengths: Any,
    blank: int = 0,
    reduction: str = "mean",
    zero_infinity: bool = False,
) -> Tensor:
    """Return -log of the probability of each target, over all alignments (Graves et al., 2006).

    log_probs: [time, batch, classes] or [time, classes]. targets: [batch, length], or all targets concatenated.
    """
    lone = log_probs.dim() == 2
    if lone:
        log_probs = log_probs.unsqueeze(1)
        targets = targets.unsqueeze(0) if targets.dim() == 1 else targets
    batch = log_probs.shape[1]
    steps, lengths = (_lengths(n, batch) for n in (input_lengths, target_lengths))
    labels = _labels(targets.to(torch.int64), lengths)
    start, alphas = _forward_variables(log_probs, labels, blank)
    last = torch.where((steps > 0).unsqueeze(1), alphas[(steps - 1).clamp(min=0), torch.arange(batch)], start)
    ends = torch.stack((2 * lengths, (2 * lengths - 1).clamp(min=0)), 1)
    likely = last.gather(1, ends)
    second = torch.where(lengths > 0, likely[:, 1], _NEVER)
    loss = -torch.logaddexp(likely[:, 0], second)
    loss = torch.where(loss > -_NEVER / 2, 0.0 if zero_infinity else float("inf"), loss)
    if reduction == "mean":
        return (loss / lengths.clamp(min=1)).mean()
    if reduction == "sum":
        return loss.sum()
    return loss.squeeze(0) if lone else loss


def ctc_loss_numbered(
    log_probs: Tensor,
    targets: Tensor,
    input_lengths: Any,
    target_lengths: Any,
    blank: int = 0,
    reduction: int = 1,
    zero_infinity: bool = False,
) -> Tensor:
    """Replace torch.ctc_loss, whose reductions are numbers."""
    name = ("none", "mean", "sum")[reduction]
    return ctc_loss(log_probs, targets, input_lengths, target_lengths, blank, name, zero_infinity)


def _lengths(given: Any, batch: int) -> Tensor:
    found = given if isinstance(given, Tensor) else torch.tensor(given)
    return found.to(torch.int64).reshape(-1).expand(batch)


def _labels(targets: Tensor, lengths: Tensor) -> Tensor:
    """Return [batch, longest] labels; entries after a target's end are arbitrary."""
    if targets.dim() == 2:
        return targets
    starts = torch.cumsum(lengths, 0) - lengths
    places = starts.unsqueeze(1) + torch.arange(targets.shape[0])
    return targets[places.clamp(max=targets.shape[0] - 1)]


def _forward_variables(log_probs: Tensor, labels: Tensor, blank: int) -> tuple[Tensor, Tensor]:
    """Return the CTC forward variables over blank, label, blank, …, blank: before the first step, and for all steps
    [time, batch, states].
    """
    batch, longest = labels.shape
    states = torch.full((batch, 2 * longest + 1), blank, dtype=torch.int64)
    states = states.index_copy(1, 2 * torch.arange(longest) + 1, labels)
    count = 2 * longest + 1
    # A state can also be reached from two states before, if its label differs and is no blank.
    before = torch.nn.functional.pad(states, (2, 0), value=blank)[:, :count]
    skips = (states != blank) & (states != before)
    emitted = log_probs.gather(2, states.unsqueeze(0).expand(log_probs.shape[0], batch, count))
    start = torch.full((batch, count), _NEVER, dtype=log_probs.dtype)
    start = torch.where((torch.arange(count) < 1), 0.0, start)

    def step(alpha: Tensor, now: Tensor) -> tuple[Tensor, Tensor]:
        one = torch.nn.functional.pad(alpha, (1, 0), value=_NEVER)[:, :count]
        two = torch.where(skips, torch.nn.functional.pad(alpha, (2, 0), value=_NEVER)[:, :count], _NEVER)
        new = torch.logaddexp(torch.logaddexp(alpha, one), two) + now
        new = new.clamp(min=_NEVER)
        return new, new.clone()

    return start, scan(step, start, emitted)[1]
