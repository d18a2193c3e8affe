"""Captures loops over the indices where a mask is true, `for k in mask.nonzero():`, such as loops over used experts.

The number of iterations depends on data, but a mask of known size has a known number of positions. The loop runs over
all of these: over every one, if runs show that positions without a hit change nothing; otherwise each position is a
decision (`decisions.py`).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from ....inputs.arguments import arrange_arguments
from ....inputs.examples import Call
from ....inputs.output_names import plain_containers
from ....torch_internals import pytree
from ...capture.captured import kept_state

_MOST_PLACES = 1024
"""Maximum number of mask positions for which a loop is unrolled: the experts of one layer."""

_DRAWS = 64


@contextmanager
def places_of_hits(every: bool) -> Iterator[LoopsOverHits]:
    """Run loops over `nonzero` over all positions of the mask if `every`, else over each position that is a hit."""
    with LoopsOverHits(every) as mode:
        yield mode


class LoopsOverHits(TorchFunctionMode):
    """`loops` has, for each started loop, the number of its positions and those without a hit, if known."""

    def __init__(self, every: bool) -> None:
        super().__init__()
        self.every = every
        self.loops: list[tuple[int, set[int]]] = []
        self._hits: dict[int, tuple[Tensor, Tensor]] = {}

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        first = args[0] if args else None
        mask = self._hits.get(id(first), (None, None))[1]
        if isinstance(first, Tensor) and mask is not None and func in _ROWS and args[1:] in ((), (0,)) and not kwargs:
            return self._rows(mask, first.dim() == 2)
        if isinstance(first, Tensor) and mask is not None and func is Tensor.tolist and first.dim() == 1:
            return (int(place) for place in self._rows(mask, False))
        if func is Tensor.__format__ and first is not None and first.dim() == 0:
            return format(first.item(), *args[1:])  # "expert_1": a captured tensor has no number to format
        made = func(*args, **kwargs)
        if mask is not None and func in _FLATTENING and isinstance(made, Tensor) and made.dim() == mask.dim() == 1:
            self._hits[id(made)] = made, mask
        elif isinstance(first, Tensor) and func in (Tensor.nonzero, torch.nonzero, torch.where) and _has_places(first):
            alone = made[0] if isinstance(made, tuple) and len(made) == 1 else made
            if isinstance(alone, Tensor) and (func is not torch.where or len(args) == 1):
                self._hits[id(alone)] = alone, first
        return made

    def _rows(self, mask: Tensor, is_list: bool) -> Iterator[Tensor]:
        """Yield the rows of `nonzero`, or with `is_list` False the indices of a one-dim mask."""
        idle: set[int] = set()
        self.loops.append((math.prod(mask.shape), idle))
        for i, place in enumerate(itertools.product(*map(range, mask.shape))):
            if not self.every and mask[place] == 0:
                continue
            if self.every and type(mask) is Tensor and not mask[place]:
                idle.add(i)
            yield torch.tensor(place if is_list else place[0], device=mask.device)


_ROWS = (Tensor.unbind, torch.unbind)
_FLATTENING = {Tensor.squeeze, torch.squeeze, Tensor.flatten, torch.flatten, Tensor.view, Tensor.reshape,
               torch.reshape, Tensor.__getitem__}  # fmt: skip


def _has_places(mask: Tensor) -> bool:
    return mask.dim() > 0 and all(type(n) is int for n in mask.shape) and 0 < math.prod(mask.shape) <= _MOST_PLACES


def loops_over_hits(module: nn.Module, call: Call) -> bool | None:
    """Return whether positions without a hit change nothing in loops over hits; None if forward has no such loop.

    Both ways run with the example, and with inputs that repeat one row, which use few experts, until each position of
    each loop has been without a hit. All outputs must be equal, with NaN at the same positions.
    """
    tensors = {name: example.tensor for name, example in call.items()}
    waiting: dict[int, set[int]] = {}
    generator = torch.Generator().manual_seed(0)
    for draw in range(_DRAWS):
        given = tensors if draw == 0 else {name: _one_row(t, generator) for name, t in tensors.items()}
        try:
            want, got = _outputs(module, given), None
            with places_of_hits(True) as found:
                got = _outputs(module, given)
        except Exception:
            return False if draw or waiting else None
        if not found.loops:
            return None
        if not draw:
            waiting = {i: set(range(count)) for i, (count, _) in enumerate(found.loops)}
        if len(want) != len(got) or not all(map(_is_same, want, got)) or len(found.loops) != len(waiting):
            return False
        for i, (_, idle) in enumerate(found.loops):
            waiting[i] -= idle
        if draw > 1 and not any(waiting.values()):
            return True
    return False


def _one_row(tensor: Tensor, generator: torch.Generator) -> Tensor:
    """Return a tensor of this shape with one repeated row: random numbers for floats, one number of the tensor
    for other dtypes.
    """
    if not tensor.numel() or not tensor.dim():
        return tensor
    if tensor.is_floating_point():
        return torch.randn(tensor.shape[-1:], generator=generator).to(tensor.dtype).expand(tensor.shape).clone()
    place = int(torch.randint(tensor.numel(), (), generator=generator))
    return tensor.flatten()[place].expand(tensor.shape).clone()


def _outputs(module: nn.Module, tensors: dict[str, Tensor]) -> list[Any]:
    args, kwargs = arrange_arguments(module, {name: t.clone() for name, t in tensors.items()})
    with torch.random.fork_rng(devices=[]), kept_state(module):
        torch.manual_seed(0)
        return pytree.tree_leaves(plain_containers(module(*args, **kwargs)))


def _is_same(a: Any, b: Any) -> bool:
    if not isinstance(a, Tensor) or not isinstance(b, Tensor):
        return bool(a == b)
    return a.shape == b.shape and a.dtype == b.dtype and torch.allclose(a, b, rtol=0.0, atol=0.0, equal_nan=True)
