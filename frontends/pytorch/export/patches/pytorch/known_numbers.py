"""Gives capture the numbers that Python reads from constant tensors of a module."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ....torch_internals import disable_proxy_modes_tracing, storage_number, unset_fake_temporarily

_PARTS = frozenset({Tensor.unbind, torch.unbind, Tensor.__getitem__})
"""Operators that select parts of a tensor: those of a constant are constants."""
_NUMBERS = frozenset({Tensor.item, Tensor.tolist, Tensor.__float__, Tensor.__int__, Tensor.__index__, Tensor.__bool__})
_FILLS = {torch.full: 1, torch.full_like: 1, Tensor.new_full: 2}
"""Operators that create a tensor of one number, and the position of the number among their arguments."""
_MOST = 1024
"""Maximum number of elements of a constant whose parts are known; parts of a larger one would be further weights."""


class KnownNumbers:
    """The content of a module's constants during capture, except for those that forward writes to.

    Examples are a detector's strides (`for stride in self.stride: torch.full((h * w, 1), float(stride))`): torch.export
    forgets their content, and treats what forward does with them as depending on data.
    """

    def __init__(self) -> None:
        self.written: set[int] = set()

    def result(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any] | None:
        """Return the result, in a tuple, of a call that reads a constant; None for any other call."""
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
        """Return whether a tensor has content and is neither weight nor input; capture has fake tensors for those."""
        if type(value) is not Tensor or value.requires_grad or value.numel() > _MOST:
            return False
        storage = _storage(value)
        return bool(storage) and storage not in self.written


def _storage(value: Tensor) -> int:
    """Return a key of a tensor's storage; 0 for tensors wrapped by torch.func, which have none."""
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
    """Return whether an index consists of Python numbers; one with dynamic sizes is an operator of the graph."""
    parts = [(v.start, v.stop, v.step) if isinstance(v, slice) else v for v in values]
    return all(_are_numbers(v) if isinstance(v, tuple) else type(v) in (int, type(None), type(...)) for v in parts)
