"""Compares what a module and its capture compute at given sizes, by the operators that they call on tensors without
content.

A tensor is described by the operator that returns it and by the descriptions of the arguments. So neither the order of
calls nor unused results count, and no kernel runs.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from contextlib import redirect_stderr
from io import StringIO
from typing import Any

import torch
from torch import nn

from ...common.without_content import WithoutContent
from ...inputs.arguments import arrange_arguments
from ...inputs.output_names import plain_containers
from ...torch_internals import pytree, schema_of
from ..capture.captured import kept_state

_ATEN = torch.ops.aten
_SAME_CONTENT = (_ATEN.detach.default, _ATEN.alias.default, _ATEN.lift_fresh.default, _ATEN.lift_fresh_copy.default)
"""Operators that a capture adds or omits where forward makes a constant."""
_MOST_CALLS = 20_000
"""Maximum number of calls; a recurrent layer makes several for each step."""


def calls_the_same(module: nn.Module, program: Callable[..., Any], tensors: Mapping[str, torch.Tensor]) -> bool | None:
    """Return whether module and program return the same expressions for inputs like these; None if forward does not
    run on tensors without content.
    """
    own = (*module.parameters(), *module.buffers())
    weights = {t.data_ptr() for t in own if t.layout is torch.strided}  # forward stops at sparse ones
    known: dict[Any, int] = {}
    forms: dict[Any, Any] = {}
    with warnings.catch_warnings(), kept_state(module), torch.random.fork_rng(devices=[]):
        warnings.simplefilter("ignore")
        try:
            want = _results(module, module, tensors, _Describing(weights, known, forms))
        except Exception:  # whatever forward raises, and PyTorch if it needs the content of a tensor
            return None
        try:
            # torch.fx prints the source lines of a graph that raises an exception.
            with redirect_stderr(StringIO()):
                return want == _results(module, program, tensors, _Describing(weights, known, forms))
        except Exception:
            return False


def _results(
    module: nn.Module, called: Callable[..., Any], tensors: Mapping[str, torch.Tensor], describing: _Describing
) -> list[Any]:
    """Return the descriptions of the results, and that of the last write in place."""
    given = {name: torch.empty_like(tensor, device="meta") for name, tensor in tensors.items()}
    for name, tensor in given.items():
        describing.note(tensor, ("input", name))
    args, kwargs = arrange_arguments(module, given)
    with describing:
        found = pytree.tree_leaves(plain_containers(called(*args, **kwargs)))
    return [*map(describing.description, found), describing.written]


class _Describing(WithoutContent):
    """Numbers tensors by their descriptions.

    weights: the addresses of parameters and buffers. Other tensors with content are constants.
    known: the numbers of descriptions; equal ones have the same number.
    forms: as in `WithoutContent`.
    """

    def __init__(self, weights: set[int], known: dict[Any, int], forms: dict[Any, Any]) -> None:
        super().__init__(forms)
        self.weights, self.known = weights, known
        self.numbers: dict[int, int] = {}
        self.calls, self.written = 0, -1

    def note(self, tensor: torch.Tensor, description: Any) -> None:
        """Give a tensor the number of a description."""
        self.numbers[id(tensor)] = self.known.setdefault(description, len(self.known))
        self.alive.append(tensor)

    def description(self, value: Any) -> Any:
        """Return a description of an argument or a result."""
        if isinstance(value, torch.Tensor):
            return "tensor", self.numbers[id(self.stand_in(value))]
        if isinstance(value, (list, tuple)):
            return tuple(map(self.description, value))
        return value if value == value else repr(value)  # NaN differs from itself

    def replaced(self, value: torch.Tensor, made: torch.Tensor) -> None:
        what: Any = value.data_ptr()
        if what not in self.weights:
            what = value.detach().reshape(-1).view(torch.uint8).numpy().tobytes() if value.numel() else b""
        self.note(made, (what, value.shape, value.stride(), value.dtype))

    def called(self, func: Any, args: Any, kwargs: Any, result: Any) -> None:
        self.calls += 1
        if self.calls > _MOST_CALLS:
            raise OverflowError("too many calls")
        if func in _SAME_CONTENT or _is_whole_slice(func, args, result):
            self.numbers[id(result)] = self.numbers[id(self.stand_in(args[0]))]
            self.alive.append(result)
            return
        description = self._call(func, args, kwargs)
        for place, leaf in enumerate(pytree.tree_leaves(result)):
            if isinstance(leaf, torch.Tensor):
                self.note(leaf, (description, place))

    def _call(self, func: Any, args: Any, kwargs: Any) -> Any:
        """Return the description of a call, and remember it if the call writes to an argument."""
        named = tuple((name, self.description(value)) for name, value in sorted(kwargs.items()))
        found = (str(func), self.written, self.description(args), named)
        if schema_of(func).is_mutable:
            self.written = self.known.setdefault(found, len(self.known))
        return found


def _is_whole_slice(func: Any, args: Any, result: Any) -> bool:
    """Return whether an operator takes all elements of a dim: captures have one for the colon in `x[:, 0]`."""
    return func is _ATEN.slice.Tensor and result.shape == args[0].shape
