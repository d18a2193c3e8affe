"""Runs a module on tensors without content, which costs little for weights and inputs of any size."""

from __future__ import annotations

from contextlib import ExitStack
from functools import cache
from typing import Any

import torch

from ..torch_internals import TorchDispatchMode, pytree, schema_of
from .uncompiled import uncompiled


class WithoutContent(TorchDispatchMode):
    """Replaces the tensors that operators get by stand-ins on the device "meta".

    What needs the content of a tensor raises an exception, and so does PyTorch for operators that have no shapes.
    """

    def __init__(self) -> None:
        super().__init__()
        self.stand_ins: dict[int, torch.Tensor] = {}
        self.alive: list[torch.Tensor] = []
        self._contexts = ExitStack()

    def __enter__(self) -> Any:
        self._contexts.enter_context(uncompiled())
        return super().__enter__()

    def __exit__(self, *raised: Any) -> None:
        super().__exit__(*raised)
        self._contexts.close()

    def stand_in(self, value: Any) -> Any:
        """Return a stand-in for a tensor with content; any other value unchanged."""
        if not isinstance(value, torch.Tensor) or value.is_meta:
            return value
        if id(value) not in self.stand_ins:
            made = torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device="meta")
            self.stand_ins[id(value)] = made
            self.alive.append(value)  # otherwise its id may become that of another tensor
            self.replaced(value, made)
        return self.stand_ins[id(value)]

    def replaced(self, value: torch.Tensor, made: torch.Tensor) -> None:
        """Do nothing; called for each stand-in."""

    def called(self, func: Any, args: Any, kwargs: Any, result: Any) -> None:
        """Do nothing; called for each operator."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        args, kwargs = pytree.tree_map(self.stand_in, (args, kwargs or {}))
        if _has_device(func):
            kwargs["device"] = "meta"
        result = func(*args, **kwargs)
        self.called(func, args, kwargs, result)
        return result


@cache
def _has_device(func: Any) -> bool:
    return any(argument.name == "device" for argument in schema_of(func).arguments)
