"""Derivatives of torch.func in a form that torch.export can capture.

Forward mode stores the tangent with a tensor, where capture does not see it: `_make_dual` of a fake tensor fails. A
Jacobian-vector product is the derivative of the vector-Jacobian product, which is linear in its vector
(https://j-towns.github.io/2017/06/12/A-new-trick.html), so backward mode twice computes it. `jacrev` and `jacfwd` write
unit vectors to a diagonal in place, which fails under `vmap`; here they are the rows of an `eye`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from ....torch_internals import pytree, vjp_of_arguments


def jvp(
    func: Callable[..., Any], primals: Any, tangents: Any, argnums: Any, *, strict: bool = False, has_aux: bool
) -> tuple[Any, ...]:
    """Return the outputs of `func` and their derivatives along `tangents`, as `_jvp_with_argnums` does."""
    found = func(*primals)
    out = found[0] if has_aux else found
    leaves, spec = pytree.tree_flatten(out)

    def pull(*cotangents: Tensor) -> tuple[Tensor, ...]:
        back: Any = vjp_of_arguments(func, *primals, argnums=argnums, has_aux=has_aux)[1]
        return tuple(pytree.tree_leaves(back(pytree.tree_unflatten(list(cotangents), spec))))

    push: Any = torch.func.vjp(pull, *map(torch.zeros_like, leaves))[1]
    along = pytree.tree_unflatten(list(push(tuple(pytree.tree_leaves(tangents)))), spec)
    return (out, along, found[1]) if has_aux else (out, along)


def jacfwd(func: Callable[..., Any], argnums: Any = 0, has_aux: bool = False, *, randomness: str = "error") -> Any:
    """Return the Jacobian by rows: forward mode as two nested backward passes would fix sizes to the example's."""
    return torch.func.jacrev(func, argnums, has_aux=has_aux)


def unit_vectors(
    tensors: Sequence[Tensor], tensor_numels: Sequence[int], chunk_size: int | None = None
) -> Iterator[tuple[Tensor, ...]]:
    """Yield the unit vectors of all tensors together, `chunk_size` at a time, each tensor's part in its shape."""
    total = sum(tensor_numels)
    for rows in torch.eye(total).split(chunk_size or max(total, 1)):
        parts = rows.split(list(tensor_numels), 1)
        yield tuple(p.to(t.dtype).view(len(rows), *t.shape) for p, t in zip(parts, tensors, strict=True))
