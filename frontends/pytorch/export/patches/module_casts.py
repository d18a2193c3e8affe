"""`self.layer.to(dtype)` in forward, of a layer that is in that dtype: PyTorch exchanges its weights all the same.

What would change a dtype stays PyTorch's, and is refused as it was.
"""

from __future__ import annotations

from typing import Any

from torch import nn

from ...torch_internals import parse_to


def casts_that_change_something(original: Any) -> Any:
    """Return `Module.to` that leaves a module alone whose tensors have the dtype and the device asked for."""

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
