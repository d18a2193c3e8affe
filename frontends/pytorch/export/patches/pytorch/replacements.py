"""Rewrites functions that torch.export cannot capture, because they read data, by others that it can.

`capturable()` is a mode for the duration of a capture. A decision on data becomes a tensor (`torch.equal`) or a mask
(`ctc_loss`), or is left out if it only rejects bad input (`gaussian_nll_loss`).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

from convert.errors import Unsupported

from ....common.markers import PIECES
from ....torch_internals import check
from ....torch_internals.symbols import statically_known_true
from ...capture.dims import is_fixed
from . import ctc, numbers_of_sizes, pools, quantiles, sized, sparse
from .known_numbers import KnownNumbers


class CaptureReplacements(TorchFunctionMode):
    """Redirects calls of the functions in `_REPLACED` to their replacements, and reads constants."""

    def __init__(self) -> None:
        super().__init__()
        self.known = KnownNumbers()

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        known = self.known.result(func, args, kwargs or {})
        if known is not None:
            return known[0]
        return _REPLACED.get(func, func)(*args, **(kwargs or {}))


# -- comparisons ------------------------------------------------------------------------------------------------------


def equal(input: Tensor, other: Tensor) -> Tensor:
    """Return a boolean of rank 0 in place of Python's; a program that branches on it is still reported."""
    if input.shape != other.shape:
        return torch.full((), False)
    return (input == other).all()


def allclose(input: Tensor, other: Tensor, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> Tensor:
    return torch.isclose(input, other, rtol=rtol, atol=atol, equal_nan=equal_nan).all()


def combinations(input: Tensor, r: int = 2, with_replacement: bool = False) -> Tensor:
    """torch.combinations, whose number torch.export would not derive from the number of elements."""
    if isinstance(input.shape[0], torch.SymInt) and r == 2:
        return sized.pairs(input, with_replacement)
    choose = itertools.combinations_with_replacement if with_replacement else itertools.combinations
    places = list(choose(range(input.shape[0]), r))
    return input[torch.tensor(places, dtype=torch.int64).reshape(len(places), r)] if r else input.new_empty(0)


def unique_consecutive(
    input: Tensor, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None
) -> Any:
    """torch.unique_consecutive along one dim: torch.export would assume a result of more dims."""
    if dim is None:
        return torch.unique_consecutive(input, return_inverse=return_inverse, return_counts=return_counts)
    moved = input.movedim(dim, 0)
    if moved.shape[0] == 0:
        places, inverse = torch.zeros(0, dtype=torch.int64), torch.zeros(0, dtype=torch.int64)
    else:
        differs = (moved[1:] != moved[:-1]).flatten(1).any(1) if moved.dim() > 1 else moved[1:] != moved[:-1]
        starts = torch.cat((torch.ones(1, dtype=torch.bool), differs))
        places, inverse = starts.nonzero().squeeze(1), starts.cumsum(0) - 1
    found = input.index_select(dim, places)
    counts = torch.cat((places, torch.tensor([moved.shape[0]]))).diff()
    rest = [v for v, asked in ((inverse, return_inverse), (counts, return_counts)) if asked]
    return (found, *rest) if rest else found


# -- writes -----------------------------------------------------------------------------------------------------------


def set_data(tensor: Tensor, data: Tensor) -> None:
    """Write the numbers in place of `tensor.data = data`, which torch.export does not record.

    Raises `Unsupported` if the tensor would get another shape or dtype.
    """
    if tensor.shape != data.shape or tensor.dtype != data.dtype:
        raise Unsupported(
            "forward assigns a tensor of another shape or dtype to .data, which a capture does not record",
            hint="give the result a name of its own: y = x instead of y.data = x",
        )
    tensor.detach().copy_(data)


# -- statistics -------------------------------------------------------------------------------------------------------


def cov(
    input: Tensor, *, correction: int = 1, fweights: Tensor | None = None, aweights: Tensor | None = None
) -> Tensor:
    """Covariances of the rows of `input`, without PyTorch's checks of the weights' values."""
    rows = input.unsqueeze(0) if input.dim() < 2 else input
    weights = fweights if aweights is None else aweights if fweights is None else fweights * aweights
    weighted = rows if weights is None else rows * weights
    total = rows.shape[1] if weights is None else weights.sum()
    norm = total - correction
    if weights is not None and aweights is not None and correction != 0:
        norm = total - correction * (weights * aweights).sum() / total
    norm = norm.clamp(min=0) if isinstance(norm, Tensor) else max(norm, 0)
    centred = rows - (weighted.sum(1) / total).unsqueeze(1)
    scaled = centred if weights is None else centred * weights
    return (centred @ scaled.mT.conj() / norm).squeeze()


def corrcoef(input: Tensor) -> Tensor:
    """Covariances divided by the deviations of both rows, clamped to [-1, 1]."""
    found = cov(input)
    if found.dim() == 0:
        return found / found
    deviation = found.diagonal().real.sqrt() if found.is_complex() else found.diagonal().sqrt()
    found = found / deviation.unsqueeze(1) / deviation.unsqueeze(0)
    if found.is_complex():
        return torch.complex(found.real.clamp(-1, 1), found.imag.clamp(-1, 1))
    return found.clamp(-1, 1)


def lstsq(
    A: Tensor, B: Tensor, rcond: float | None = None, *, driver: str | None = None
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Least squares by singular values, which give the shortest solution for any rank.

    The residuals have unknown length: PyTorch returns none if a matrix does not have full rank.
    """
    rows, columns = A.shape[-2:]
    vector = B.dim() == A.dim() - 1 and B.shape == A.shape[:-1]
    right = B.unsqueeze(-1) if vector else B
    u, s, vh = torch.linalg.svd(A, full_matrices=False)
    least = (torch.finfo(A.dtype).eps * max(rows, columns) if rcond is None else rcond) * s.amax(-1, keepdim=True)
    kept = s > least
    inverse = torch.where(kept, 1 / torch.where(kept, s, 1), 0)
    solution = vh.mT @ (inverse.unsqueeze(-1) * (u.mT @ right))
    rank = kept.sum(-1)
    residuals = A.new_zeros(0)
    if rows > columns and driver != "gelsy":
        gaps = (A @ solution - right).square().sum(-2)
        full = (rank == columns).all()
        residuals = gaps.flatten()[full.expand(gaps.numel())].reshape(-1, *gaps.shape[1:])
    singular = s if driver in ("gelsd", "gelss") else A.new_zeros(0)
    count = rank if driver != "gels" else torch.zeros(0, dtype=torch.int64)
    results = (solution.squeeze(-1) if vector else solution, residuals, count, singular)
    return torch.return_types.linalg_lstsq(results)  # type: ignore[attr-defined]  # missing in PyTorch's stubs


def tensor_split(input: Tensor, indices_or_sections: Any, dim: int = 0) -> Any:
    """torch.tensor_split; raises for a number of pieces that depends on data.

    The pieces of an unknown size have symbolic lengths. torch.export would ask for the remainder and fix the lengths to
    it, without a node that fails for another one.
    """
    if isinstance(indices_or_sections, Tensor) and indices_or_sections.dim() == 0:
        raise Unsupported(PIECES)
    if isinstance(indices_or_sections, int) and not is_fixed(input.shape[dim]):
        length, count = input.shape[dim], indices_or_sections
        return input.split_with_sizes([(length + count - 1 - i) // count for i in range(count)], dim)
    return torch.tensor_split(input, indices_or_sections, dim)


def linspace(start: Any, end: Any, steps: int, **kwargs: Any) -> Tensor:
    """torch.linspace with an unknown number of steps, which torch.export would fix. Counted from both ends, as PyTorch
    does.

    If the ends are tensors, PyTorch's own function is used.
    """
    if not isinstance(steps, torch.SymInt) or isinstance(start, Tensor) or isinstance(end, Tensor):
        return torch.linspace(start, end, steps, **kwargs)
    dtype = kwargs.pop("dtype", None) or torch.get_default_dtype()
    wide = dtype if dtype.is_floating_point else torch.float32
    first, last = (n if dtype.is_floating_point else int(n) for n in (start, end))
    place = torch.arange(steps, device=kwargs.get("device"))
    step = torch.full((), last - first, dtype=wide) / torch.sym_max(steps - 1, 1)
    rising, falling = first + step * place.to(wide), last - step * (steps - 1 - place).to(wide)
    return torch.where(place < torch.sym_max(steps // 2, 1), rising, falling).to(dtype)


def div(input: Any, other: Any, *, rounding_mode: str | None = None, **kwargs: Any) -> Any:
    """torch.div of sizes, which are no tensors: PyTorch would create one, and torch.export ask for its content."""
    sizes = isinstance(input, (int, torch.SymInt)) and isinstance(other, (int, torch.SymInt))
    if not sizes or rounding_mode is None or (isinstance(input, int) and isinstance(other, int)):
        return torch.div(input, other, rounding_mode=rounding_mode, **kwargs)
    quotient = input // other
    if rounding_mode == "floor" or all(map(statically_known_true, (input >= 0, other > 0))):
        return quotient
    return torch.sym_max(quotient, 0) + torch.sym_min(-(-input // other), 0)  # towards zero from either side


def narrow(input: Tensor, dim: int, start: Any, length: int) -> Tensor:
    """torch.narrow from a start that is a tensor; torch.export would ask for the number."""
    if not isinstance(start, Tensor):
        return torch.narrow(input, dim, start, length)
    first = torch.where(start < 0, start + input.shape[dim], start)
    return input.index_select(dim, first.reshape(1) + torch.arange(length, device=input.device))


def set_item(input: Tensor, index: Any, value: Any) -> None:
    """Assign at an index that is a tensor of rank 0, such as the end of a cache; torch.export would ask for the
    number.
    """
    parts = index if isinstance(index, tuple) else (index,)
    if not any(map(_is_place, parts)) or not all(_is_place(p) or p is ... or type(p) in (int, slice) for p in parts):
        input[index] = value
        return
    left = [slice(None)] * (input.dim() - sum(p is not ... for p in parts))
    at = next((i for i, p in enumerate(parts) if p is ...), len(parts))
    parts = (*parts[:at], *left, *parts[at + 1 :])
    region = input[tuple(slice(None) if _is_place(p) else p for p in parts)]
    places = [p if _is_place(p) else None for p in parts if type(p) is not int]
    content = torch.as_tensor(value, device=region.device).to(region.dtype)
    while content.dim() > sum(p is None for p in places) and content.shape[0] == 1:
        content = content[0]
    torch.ops.aten.index_put_(region, places, content)


def _is_place(part: Any) -> bool:
    return isinstance(part, Tensor) and part.dim() == 0 and part.dtype in (torch.int64, torch.int32)


def take_along_dim(input: Tensor, indices: Tensor, dim: int | None = None) -> Tensor:
    """torch.take_along_dim with both operands broadcast along the other dims; PyTorch's own asks for these sizes as
    numbers.
    """
    if dim is None:
        return input.flatten().gather(0, indices.flatten())
    dim %= max(input.dim(), 1)
    if input.shape[:dim] != indices.shape[:dim] or input.shape[dim + 1 :] != indices.shape[dim + 1 :]:
        front = torch.broadcast_shapes(input.shape[:dim], indices.shape[:dim])
        behind = torch.broadcast_shapes(input.shape[dim + 1 :], indices.shape[dim + 1 :])
        input = input.expand(*front, input.shape[dim], *behind)
        indices = indices.expand(*front, indices.shape[dim], *behind)
    return input.gather(dim, indices)


# -- layers -----------------------------------------------------------------------------------------------------------


def one_hot(input: Tensor, num_classes: int = -1) -> Tensor:
    """F.one_hot with as many classes as the data has if none are given, or as a symbolic size says."""
    if isinstance(num_classes, torch.SymInt):
        return (input.unsqueeze(-1) == torch.arange(num_classes)).to(torch.int64)
    if num_classes != -1:
        return F.one_hot(input, num_classes)
    count = input.max().item() + 1
    check(count >= 0)
    return (input.unsqueeze(-1) == torch.arange(count)).to(torch.int64)


def embedding(
    input: Tensor,
    weight: Tensor,
    padding_idx: int | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    *rest: Any,
    **named: Any,
) -> Tensor:
    """F.embedding with rows limited to `max_norm`; PyTorch shortens them in the weight before it reads them."""
    table = weight if max_norm is None else _renormed(weight, max_norm, norm_type)
    return F.embedding(input, table, padding_idx, None, norm_type, *rest, **named)


def embedding_bag(
    input: Tensor,
    weight: Tensor,
    offsets: Tensor | None = None,
    max_norm: float | None = None,
    norm_type: float = 2,
    *rest: Any,
    **named: Any,
) -> Tensor:
    """F.embedding_bag with rows limited to `max_norm` each."""
    table = weight if max_norm is None else _renormed(weight, max_norm, norm_type)
    return F.embedding_bag(input, table, offsets, None, norm_type, *rest, **named)


def _renormed(weight: Tensor, most: float, order: float) -> Tensor:
    """Return the rows as `embedding_renorm_` scales them: rows longer than `most` get nearly that length."""
    length = weight.norm(order, dim=1, keepdim=True)
    return torch.where(length > most, weight * (most / (length + 1e-7)), weight)


def gaussian_nll_loss(
    input: Tensor,
    target: Tensor,
    var: Tensor | float,
    full: bool = False,
    eps: float = 1e-6,
    reduction: str = "mean",
) -> Tensor:
    """Half of log(var) + (input - target)² / var, without PyTorch's check that no variance is negative."""
    if not isinstance(var, Tensor):
        var = var * torch.ones_like(input)
    if var.shape != input.shape and input.shape[:-1] == var.shape:
        var = var.unsqueeze(-1)
    var = var.clamp(min=eps)
    loss = 0.5 * (torch.log(var) + (input - target) ** 2 / var)
    if full:
        loss = loss + 0.5 * math.log(2 * math.pi)
    return _reduce_loss(loss, reduction)


def linear_cross_entropy(*args: Any, options: Any = None, **kwargs: Any) -> Tensor:
    """Compute the loss without the options that say how much is computed at a time."""
    return F.linear_cross_entropy(*args, **kwargs)


def _reduce_loss(loss: Tensor, reduction: str) -> Tensor:
    return loss.mean() if reduction == "mean" else loss.sum() if reduction == "sum" else loss


_REPLACED: dict[Any, Callable[..., Any]] = {
    **pools.REPLACED,
    **quantiles.REPLACED,
    **sized.REPLACED,
    **sparse.REPLACED,
    **numbers_of_sizes.REPLACED,
    Tensor.data.__set__: set_data,  # type: ignore[attr-defined]
    torch.equal: equal,
    Tensor.equal: equal,
    torch.allclose: allclose,
    Tensor.allclose: allclose,
    torch.combinations: combinations,
    torch.functional.unique_consecutive: unique_consecutive,
    torch.unique_consecutive: unique_consecutive,
    Tensor.unique_consecutive: unique_consecutive,
    torch.cov: cov,
    Tensor.cov: cov,
    torch.corrcoef: corrcoef,
    Tensor.corrcoef: corrcoef,
    torch.linalg.lstsq: lstsq,
    torch.linspace: linspace,
    torch.div: div,
    torch.narrow: narrow,
    Tensor.narrow: narrow,
    Tensor.__setitem__: set_item,
    torch.take_along_dim: take_along_dim,
    Tensor.take_along_dim: take_along_dim,
    torch.tensor_split: tensor_split,
    Tensor.tensor_split: tensor_split,
    F.one_hot: one_hot,
    F.embedding: embedding,
    F.embedding_bag: embedding_bag,
    F.gaussian_nll_loss: gaussian_nll_loss,
    F.ctc_loss: ctc.ctc_loss,
    torch.ctc_loss: ctc.ctc_loss_numbered,
}
if hasattr(F, "linear_cross_entropy"):  # which PyTorch 2.10 lacks
    _REPLACED[F.linear_cross_entropy] = linear_cross_entropy
