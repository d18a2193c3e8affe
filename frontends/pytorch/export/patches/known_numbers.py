"""Numbers that Python takes out of tensors which are constants of a module: known while it is captured."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ...torch_internals import disable_proxy_modes_tracing, storage_number, unset_fake_temporarily

_PARTS = frozenset({Tensor.unbind, torch.unbind, Tensor.__getitem__})
"""What gives parts of a tensor: those of a constant are constants."""
_NUMBERS = frozenset({Tensor.item, Tensor.tolist, Tensor.__float__, Tensor.__int__, Tensor.__index__, Tensor.__bool__})
_FILLS = {torch.full: 1, torch.full_like: 1, Tensor.new_full: 2}
"""What makes a tensor of one number, and the place of the number among its arguments."""
_MOST = 1024
"""Elements of a constant whose parts are taken: those of a larger one would be further weights."""


class KnownNumbers:
    """What the constants of a module hold while it is captured, but for those that forward writes to.

    A detector's strides (`for stride in self.stride: torch.full((h * w, 1), float(stride))`) are such: torch.export
    forgets what they hold, and takes what forward does with them for a question about data.
    """

    def __init__(self) -> None:
        self.written: set[int] = set()

    def result(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any] | None:
        """The result, in a tuple, of a call that reads a constant; None for any other call."""
        if func in _FILLS:
            place = _FILLS[func]
            if len(args) > place and self._is_constant(args[place]) and args[place].dim() == 0:
                return (func(*args[:place], _eagerly(Tensor.item, args[place]), *args[place + 1 :], **kwargs),)
        elif func in _PARTS or func in _NUMBERS:
            if args and not kwargs and self._is_constant(args[0]) and _are_numbers(args[1:]):
                return (_eagerly(func, *args),)
        elif args and type(args[0]) is Tensor and _writes(func):
            self.written.add(_storage(args[0]))
        return None

    def _is_constant(self, value: Any) -> bool:
        """True for a tensor with content that is neither weight nor input: capture has those without content."""
        if type(value) is not Tensor or value.requires_grad or value.numel() > _MOST:
            return False
        storage = _storage(value)
        return bool(storage) and storage not in self.written


def _storage(value: Tensor) -> int:
    """What tells a tensor's storage from others; 0 for what torch.func wraps, which has none."""
    try:
        return storage_number(value)
    except NotImplementedError:
        return 0


def _eagerly(func: Any, *args: Any) -> Any:
    with unset_fake_temporarily(), disable_proxy_modes_tracing():
        return func(*args)


def _writes(func: Any) -> bool:
    name = getattr(func, "__name__", "")
    return (name.endswith("_") and not name.endswith("__")) or name.startswith(("__i", "__set"))


def _are_numbers(values: tuple[Any, ...]) -> bool:
    """True for an index of Python's own numbers: one of sizes that are dynamic is an operator of the graph."""
    parts = [(v.start, v.stop, v.step) if isinstance(v, slice) else v for v in values]
    return all(_are_numbers(v) if isinstance(v, tuple) else type(v) in (int, type(None), type(...)) for v in parts)
