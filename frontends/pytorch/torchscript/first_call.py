"""Attributes that are None until the first call: replaced by zeros, if the module returns the same with them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import Any

import torch

from convert.errors import ResourceLimit
from convert.outcome.report import Report

from ..torch_internals import pytree
from .inputs import Input, run_on_examples


def zeros_for_none(
    module: Any, inputs: Mapping[str, Input], fixed: Mapping[str, Any], report: Report
) -> Callable[[Collection[str]], dict[str, torch.Tensor]]:
    """Return a function from paths of None attributes to zeros; with the zeros, the first call returns the same.

    Recurrent layers start this way: `if self.h is None: h = torch.zeros(…)`. The zeros have the shape and dtype that
    the first call leaves in the attribute. Two kinds of attributes are left out: those whose zeros change an output or
    an attribute, in any bit, for one of two sets of examples, and those whose shape depends on a dynamic dim.
    """
    found: dict[str, torch.Tensor] = {}

    def start(paths: Collection[str]) -> dict[str, torch.Tensor]:
        new = [path for path in paths if path not in found]
        zeros = _zeros(module, list(inputs.values()), fixed, new) if new else {}
        for path, tensor in zeros.items():
            report.note(
                f"{path} is unset until the first call. The converted model starts with zeros of "
                f"{list(tensor.shape)}, which give the same outputs (both were run)",
                code="first-call",
            )
        found.update(zeros)
        return found

    return start


def _zeros(
    module: Any, inputs: list[Input], fixed: Mapping[str, Any], paths: Collection[str]
) -> dict[str, torch.Tensor]:
    """Return zeros for all these attributes at once (an LSTM has two); an empty dict if the results differ with
    zeros.
    """
    longer = [replace(i, sizes=_longer(i)) for i in inputs]
    try:
        first, other = (run_on_examples(module, given, fixed)[1] for given in (inputs, longer))
        if not all(isinstance(first.get(p), torch.Tensor) and first[p].shape == other[p].shape for p in paths):
            return {}
        zeros = {p: torch.zeros_like(first[p]) for p in paths}
        for change in (torch.clone, _spread):
            if not _is_same(*(run_on_examples(module, inputs, fixed, states, change) for states in ({}, zeros))):
                return {}
    except ResourceLimit:
        raise
    except Exception:
        return {}
    return zeros


def _longer(given: Input) -> tuple[int, ...]:
    return tuple(n if isinstance(d, int) else n + 1 for n, d in zip(given.sizes, given.dims, strict=True))


def _spread(example: torch.Tensor) -> torch.Tensor:
    """Return values other than the example's: floats of both signs, ones for integers and booleans."""
    return example * 6 - 3 if example.is_floating_point() else torch.ones_like(example)


def _is_same(a: Any, b: Any) -> bool:
    leaves = [pytree.tree_leaves(x) for x in (a, b)]
    return len(leaves[0]) == len(leaves[1]) and all(map(_is_equal, *leaves))


def _is_equal(a: Any, b: Any) -> bool:
    if not isinstance(a, torch.Tensor) or not isinstance(b, torch.Tensor):
        return bool(a == b)
    same = a.shape == b.shape and a.dtype == b.dtype
    return same and torch.allclose(a, b, rtol=0.0, atol=0.0, equal_nan=True)
