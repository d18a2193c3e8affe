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

    forms: what operators returned for arguments of a form; runs that share it call each operator once for each form.
    """

    def __init__(self, forms: dict[Any, Any] | None = None) -> None:
        super().__init__()
        self.forms: dict[Any, Any] = {} if forms is None else forms
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
        result = self._result(func, args, kwargs)
        self.called(func, args, kwargs, result)
        return result

    def _result(self, func: Any, args: Any, kwargs: Any) -> Any:
        """Return what an operator returns, without calling it again if it returned new tensors for this form.

        PyTorch computes the shapes of a batch norm by twenty operators in Python.
        """
        form = _form((args, kwargs)) if _returns_new_tensors(func) else None
        if form is None:
            return func(*args, **kwargs)
        key = func, form, torch.get_default_dtype()
        if (known := self.forms.get(key)) is not None:
            return _new_tensors(known)
        result = func(*args, **kwargs)
        self.forms[key] = _form(result)
        return result


def _form(value: Any) -> Any:
    """Return a key that is equal for arguments or results with equal shapes, strides, dtypes and plain values.

    Returns None if there is no such key.
    """
    if type(value) in (torch.Tensor, torch.nn.Parameter):
        plain = value.layout is torch.strided and not (value.storage_offset() or value.is_conj() or value.is_neg())
        return (_TENSOR, value.shape, value.stride(), value.dtype) if plain else None
    if type(value) in (tuple, list):
        parts = tuple(map(_form, value))
        return None if None in parts else (type(value), parts)
    if type(value) is dict:
        return _form([*value, *value.values()])
    return (type(value), value) if value is None or type(value) in _PLAIN else None


_TENSOR = object()
_PLAIN = (bool, int, float, str, torch.dtype, torch.device, torch.layout, torch.memory_format)


def _new_tensors(form: Any) -> Any:
    """Return tensors of a form that `_form` gave for a result."""
    kind, *rest = form
    if kind is _TENSOR:
        shape, stride, dtype = rest
        return torch.empty_strided(shape, stride, dtype=dtype, device="meta")
    return kind(map(_new_tensors, rest[0])) if kind in (tuple, list) else rest[0]


@cache
def _returns_new_tensors(func: Any) -> bool:
    """Return whether an operator neither writes to an argument nor returns one, or a view of one."""
    schema = schema_of(func)
    return not schema.is_mutable and all(value.alias_info is None for value in (*schema.arguments, *schema.returns))


@cache
def _has_device(func: Any) -> bool:
    return any(argument.name == "device" for argument in schema_of(func).arguments)
