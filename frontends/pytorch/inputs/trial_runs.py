"""Runs a module to find out which lengths its inputs may have."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Mapping
from contextlib import nullcontext

import torch
from torch import nn

from ..common.state import kept_buffers, track_assignments
from ..common.without_content import WithoutContent
from ..torch_internals import pytree
from .arguments import arrange_arguments


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

    A capture does not treat different lengths as one. The steps suit strided layers.
    """
    step = 32 if tensor.dim() < 5 else 16
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


def _outputs(module: nn.Module, tensors: Mapping[str, torch.Tensor], content: bool) -> list[torch.Tensor] | None:
    """Return forward's outputs, None if it does not run; the module is restored afterwards."""
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
    except Exception:  # any exception of forward
        return None
    finally:
        for m in training:
            m.training = True
    return [leaf for leaf in pytree.tree_leaves(found) if isinstance(leaf, torch.Tensor)]
