"""Operators that return views of their argument, and how a write to a view reaches its base."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from convert.graph import Graph

from ..common.einsum_views import view_labels
from ..torch_internals import schema_of

UNCERTAIN = frozenset(
    (
        "reshape",
        "reshape_as",
        "flatten",
        "ravel",
        "contiguous",
        "unflatten",
        "view_as_complex",
        "matrix_H",
        "mT",
        "tensor_split",
        "einsum",
        "broadcast_tensors",
        "to_dense",
    )
)
"""Operators whose result may or may not share memory with their argument, depending on its strides."""

SAME = frozenset(
    (
        "to",
        "type_as",
        "dropout",
        "feature_dropout",
        "alpha_dropout",
        "positive",
        "_autocast_to_reduced_precision",
        "_autocast_to_full_precision",
        "resolve_conj",
        "resolve_neg",
        "cpu",
    )
)
"""Operators that return their argument itself if there is nothing to do."""

_SILENT = frozenset(
    (
        "atleast_1d",
        "atleast_2d",
        "atleast_3d",
        "broadcast_tensors",
        "unsafe_chunk",
        "unsafe_split",
        "unsafe_split_with_sizes",
    )
)
"""Operators whose result shares memory with their argument although their schema does not say so."""


def is_silent(name: str, args: list[Any]) -> bool:
    """Return whether an operator returns a view although its schema does not say so."""
    if name == "einsum":
        return isinstance(args[0], str) and view_labels(args[0]) is not None
    return name in _SILENT


PASSING = frozenset(
    ("contiguous", "detach", "alias", "clone", "requires_grad_", "detach_", "resolve_conj", "resolve_neg")
)
"""Operators that leave the values of their argument unchanged."""

RESHAPED_IN_PLACE = frozenset(("squeeze_", "unsqueeze_", "transpose_", "t_", "swapaxes_", "swapdims_"))
"""Operators that change the shape of a tensor in place, but not its elements."""

_SCATTERS = {"select": "select_scatter", "slice": "slice_scatter", "diagonal": "diagonal_scatter"}
_ROW_MAJOR = frozenset(
    (  # noqa: SIM905
        "view _unsafe_view view_as unsqueeze squeeze detach alias data atleast_1d atleast_2d atleast_3d"
    ).split()
)

Call = Callable[[Any, list[Any]], Any]


def scatter_of(name: str, args: list[Any], call: Call) -> Callable[[Graph, Any, Any], Any] | None:
    """Return `scatter(g, base, content)`, which writes a view's content into its base; None if there is no formula.

    `args` are the arguments, without the tensor, of the operator `name` that made the view; `call(schema, args)`
    applies a rule.
    """
    if name in _SCATTERS:
        schema = schema_of(getattr(torch.ops.aten, _SCATTERS[name]).default)
        return lambda g, base, content: call(schema, [base, content, *args])
    if name == "narrow" and all(isinstance(a, int) for a in args):
        dim, start, length = args
        schema = schema_of(torch.ops.aten.slice_scatter.default)
        end = None if start < 0 and start + length == 0 else start + length
        return lambda g, base, content: call(schema, [base, content, dim, start, end])
    if name in _ROW_MAJOR:
        return lambda g, base, content: g.Reshape(content, g.dims(base))
    if name in ("transpose", "swapaxes", "swapdims"):
        schema = schema_of(torch.ops.aten.transpose.int)
        return lambda g, base, content: call(schema, [content, *args])
    if name in ("t", "numpy_T"):
        return lambda g, base, content: g.Transpose(content, perm=list(range(g.rank(content)))[::-1])
    if name == "permute":
        return lambda g, base, content: g.Transpose(content, perm=_inverse_permutation(args[0]))
    return None


def piece_scatter_of(name: str, args: list[Any], place: int, call: Call) -> Callable[[Graph, Any, Any], Any] | None:
    """Return what `scatter_of` returns, for the piece at `place` if the operator `name` splits a tensor into pieces."""
    if name == "unbind":
        schema = schema_of(torch.ops.aten.select_scatter.default)
        return lambda g, base, content: call(schema, [base, content, args[0], place])
    name = name.removeprefix("unsafe_")
    if name not in ("split", "split_with_sizes", "chunk") or not isinstance(args[0], (int, list)):
        return None
    sizes, dim = args[0], args[1]

    def scatter(g: Graph, base: Any, content: Any) -> Any:
        length = g.shape(base)[dim]
        assert isinstance(length, int)
        each = -(-length // sizes) if name == "chunk" and isinstance(sizes, int) else sizes
        start = sum(each[:place]) if isinstance(each, list) else each * place
        end = start + each[place] if isinstance(each, list) else min(start + each, length)
        return call(schema_of(torch.ops.aten.slice_scatter.default), [base, content, dim, start, end])

    return scatter


def _inverse_permutation(dims: list[int]) -> list[int]:
    rank = len(dims)
    places = [d % rank for d in dims]
    return [places.index(i) for i in range(rank)]
