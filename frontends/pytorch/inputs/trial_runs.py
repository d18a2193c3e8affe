"""Runs a module to find out which lengths its inputs may have."""

from __future__ import annotations

import warnings
from collections.abc import Mapping

import torch
from torch import nn

from ..common.state import track_assignments
from ..torch_internals import pytree
from .arguments import arrange_arguments


def takes_length(module: nn.Module, tensors: Mapping[str, torch.Tensor], name: str, place: int) -> bool:
    """Return whether forward runs with twice the length of a dim of an input."""
    return output_shapes(module, {**tensors, name: _doubled(tensors[name], place)}) is not None


def has_rows(module: nn.Module, tensors: Mapping[str, torch.Tensor], name: str) -> bool:
    """Return whether the first dim of an input is a batch: with twice as many rows the output shapes differ.

    For a list of edges, int64[2, edges], forward accepts two rows only, or reads only two.
    """
    more = output_shapes(module, {**tensors, name: _doubled(tensors[name], 0)})
    return more is not None and more != output_shapes(module, tensors)


def _doubled(tensor: torch.Tensor, place: int) -> torch.Tensor:
    return torch.cat([tensor, tensor], place)


def output_shapes(module: nn.Module, tensors: Mapping[str, torch.Tensor]) -> list[torch.Size] | None:
    """Return the shapes of forward's outputs, None if it does not run; the module is restored afterwards."""
    args, kwargs = arrange_arguments(module, {name: tensor.clone() for name, tensor in tensors.items()})
    training = [m for m in module.modules() if m.training]
    buffers = {path: buffer.clone() for path, buffer in module.named_buffers()}
    for m in training:
        m.training = False
    try:
        with torch.no_grad(), torch.random.fork_rng(devices=[]), track_assignments(module), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = module(*args, **kwargs)
    except Exception:  # any exception of forward
        return None
    finally:
        for m in training:
            m.training = True
        for path, buffer in module.named_buffers():
            if path in buffers:
                buffer.copy_(buffers[path])
    return [leaf.shape for leaf in pytree.tree_leaves(found) if isinstance(leaf, torch.Tensor)]
