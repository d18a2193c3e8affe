"""Runs a module to find out which lengths its inputs may have."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import nullcontext

import torch
from torch import nn

from ..common.state import kept_buffers, track_assignments
from ..common.without_content import WithoutContent
from ..torch_internals import pytree
from .arguments import arrange_arguments

STEP = 32
"""The difference between sizes of an image that are tried, or captured; it suits strided layers."""


def free_places(
    module: nn.Module, tensors: Mapping[str, torch.Tensor], name: str, places: Collection[int]
) -> list[int]:
    """Return the dims of an input that may have another length: forward runs with twice the length of each of them,
    and with different lengths of all.

    Beside another length of a later dim, outputs keep their first dim, which is the batch. Tensors have content only if
    forward does not run without.
    """
    shapes = output_shapes(module, tensors, False)
    content = shapes is None
    if shapes is None:
        shapes = output_shapes(module, tensors)
    if shapes is None:
        return []
    rows = [shape[:1] for shape in shapes]

    def runs(other: torch.Tensor, place: int) -> bool:
        found = output_shapes(module, {**tensors, name: other}, content)
        return found is not None and (place == 0 or [shape[:1] for shape in found] == rows)

    given = tensors[name]
    free = [place for place in places if runs(_doubled(given, place), place)]
    return free if len(free) < 2 or runs(with_different_lengths(given, free), free[0]) else []


def with_different_lengths(tensor: torch.Tensor, places: Collection[int]) -> torch.Tensor:
    """Return a tensor in which the dims `places`, all but the first, are longer by different numbers.

    A capture does not treat different lengths as one.
    """
    step = STEP if tensor.dim() < 5 else STEP // 2
    for turn, place in enumerate(sorted(places)[1:], 1):
        longer = torch.cat([tensor] * (1 + -(-turn * step // tensor.shape[place])), place)
        tensor = longer.narrow(place, 0, tensor.shape[place] + turn * step)
    return tensor


def has_rows(module: nn.Module, tensors: Mapping[str, torch.Tensor], name: str) -> bool:
    """Return whether the first dim of an input is a batch: if its first row follows twice more, the outputs differ.

    For a list of edges, int64[2, edges], forward accepts two rows only, or reads only two.
    """
    given = tensors[name]
    outputs = _outputs(module, tensors, True)
    more = _outputs(module, {**tensors, name: torch.cat([given, given[:1], given[:1]])}, True)
    if outputs is None or more is None:
        return False
    return not all(
        a.shape == b.shape and torch.allclose(a, b, equal_nan=True) for a, b in zip(outputs, more, strict=True)
    )


def _doubled(tensor: torch.Tensor, place: int) -> torch.Tensor:
    return torch.cat([tensor, tensor], place)


def output_shapes(
    module: nn.Module, tensors: Mapping[str, torch.Tensor], content: bool = True
) -> list[torch.Size] | None:
    """Return the shapes of forward's outputs, None if it does not run.

    content: whether tensors have content; without it, no kernel runs.
    """
    found = _outputs(module, tensors, content)
    return None if found is None else [tensor.shape for tensor in found]


def failure_without_content(module: nn.Module, tensors: Mapping[str, torch.Tensor]) -> str | None:
    """Return the exception that forward raises on tensors without content, as text; None if it runs."""
    try:
        _run(module, tensors, content=False)
    except Exception as error:  # any exception of forward
        return f"{type(error).__name__}: {error}"
    return None


def first_that_runs(failure: Callable[[int], str | None], sizes: Sequence[int]) -> int | None:
    """Return the smallest size without a failure, or None.

    If two sizes fail in the same way, those between them are assumed to fail too, so that few have to be tried.
    """
    if not sizes:
        return None
    low, high = failure(sizes[0]), failure(sizes[-1])
    if low is None:
        return sizes[0]
    if low == high:
        return None
    if len(sizes) == 2:
        return sizes[1] if high is None else None
    middle = len(sizes) // 2
    lower = first_that_runs(failure, sizes[: middle + 1])
    return lower if lower is not None else first_that_runs(failure, sizes[middle:])


def _outputs(module: nn.Module, tensors: Mapping[str, torch.Tensor], content: bool) -> list[torch.Tensor] | None:
    """Return forward's outputs, None if it does not run."""
    try:
        return _run(module, tensors, content)
    except Exception:  # any exception of forward
        return None


def _run(module: nn.Module, tensors: Mapping[str, torch.Tensor], content: bool) -> list[torch.Tensor]:
    """Return forward's outputs; the module is restored afterwards."""
    made = {name: tensor.clone() if content else tensor.to("meta") for name, tensor in tensors.items()}
    args, kwargs = arrange_arguments(module, made)
    training = [m for m in module.modules() if m.training]
    for m in training:
        m.training = False
    try:
        with (
            torch.no_grad(),
            torch.random.fork_rng(devices=[]),
            kept_buffers(module),
            track_assignments(module),
            warnings.catch_warnings(),
        ):
            warnings.simplefilter("ignore")
            with nullcontext() if content else WithoutContent():
                found = module(*args, **kwargs)
    finally:
        for m in training:
            m.training = True
    return [leaf for leaf in pytree.tree_leaves(found) if isinstance(leaf, torch.Tensor)]
