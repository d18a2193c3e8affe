"""Captures `self.layer.to(dtype)` in forward, for a layer that already has that dtype; PyTorch would replace its
weights.

A call that would change a dtype stays PyTorch's, and is refused as before.
"""

from __future__ import annotations

from typing import Any

from torch import nn

from ....torch_internals import parse_to


def casts_that_change_something(original: Any) -> Any:
    """Return `Module.to` that leaves a module unchanged if its tensors have the requested dtype and device."""

    def to(self: nn.Module, *args: Any, **kwargs: Any) -> nn.Module:
        device, dtype, _, layout = parse_to(*args, **kwargs)
        tensors = [*self.parameters(), *self.buffers()]
        as_asked = all(
            (device is None or t.device == device)
            and (dtype is None or t.dtype == dtype or not (t.is_floating_point() or t.is_complex()))
            for t in tensors
        )
        return self if as_asked and layout is None else original(self, *args, **kwargs)

    return to
