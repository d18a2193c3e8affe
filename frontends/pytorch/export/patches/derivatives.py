"""Derivatives of torch.func in a form that torch.export can capture.

Forward mode keeps the tangent beside a tensor, where capture does not see it: `_make_dual` of a fake tensor fails. A
product of a Jacobian with a vector is the derivative of the product from the other side, which is linear in what it is
taken at (https://j-towns.github.io/2017/06/12/A-new-trick.html), so backward mode twice gives it. The unit vectors of
`jacrev` and `jacfwd` are written to a diagonal in place, which fails under `vmap`; here they are the rows of an `eye`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from ...torch_internals import pytree, vjp_of_arguments


def jvp(
    func: Callable[..., Any], primals: Any, tangents: Any, argnums: Any, *, strict: bool = False, has_aux: bool
) -> tuple[Any, ...]:
    """Outputs of `func` and their derivatives along `tangents`, as `_jvp_with_argnums` gives them."""
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
    """The same Jacobian by rows: forward mode by two backward ones inside of another fixes sizes at the example's."""
    return torch.func.jacrev(func, argnums, has_aux=has_aux)


def unit_vectors(
    tensors: Sequence[Tensor], tensor_numels: Sequence[int], chunk_size: int | None = None
) -> Iterator[tuple[Tensor, ...]]:
    """The unit vectors of all tensors together, `chunk_size` at a time, each tensor's part in its shape."""
    total = sum(tensor_numels)
    for rows in torch.eye(total).split(chunk_size or max(total, 1)):
        parts = rows.split(list(tensor_numels), 1)
        yield tuple(p.to(t.dtype).view(len(rows), *t.shape) for p, t in zip(parts, tensors, strict=True))
