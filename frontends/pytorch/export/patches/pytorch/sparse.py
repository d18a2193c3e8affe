"""Treats sparse tensors as dense ones during capture, because a graph has no others."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from convert.errors import Unsupported
from convert.outcome.report import Report

from ....torch_internals import own_buffers, own_parameters, sparse_sum


@contextmanager
def dense_weights(module: nn.Module, report: Report) -> Iterator[None]:
    """Make a module's sparse tensors dense; a note names them."""
    changed: list[tuple[dict[str, Any], str, Any]] = []
    names = []
    for path, part in module.named_modules():
        for store in (own_buffers(part), own_parameters(part), part.__dict__):
            for name, value in list(store.items()):
                if isinstance(value, Tensor) and value.layout != torch.strided and not value.is_mkldnn:
                    changed.append((store, name, value))
                    names.append(f"{path}.{name}" if path else name)
    for store, name, value in changed:
        dense = value.detach().to_dense()
        store[name] = nn.Parameter(dense, requires_grad=False) if isinstance(value, nn.Parameter) else dense
    if names:
        report.note(f"the sparse tensors {', '.join(names)} are dense ones in the graph", code="dense-tensors")
    try:
        yield
    finally:
        for store, name, value in changed:
            store[name] = value


def sparse_coo_tensor(
    indices: Any, values: Any, size: Any = None, *, dtype: Any = None, is_coalesced: Any = None, **kwargs: Any
) -> Tensor:
    """torch.sparse_coo_tensor as a dense tensor; elements with equal indices are added."""
    if size is None:
        raise Unsupported(
            "torch.sparse_coo_tensor without a size: the data decide it", hint="give it the size that it is to have"
        )
    numbers = torch.as_tensor(values, dtype=dtype)
    places = torch.as_tensor(indices).to(torch.int64)
    return numbers.new_zeros(tuple(size)).index_put(tuple(places.unbind(0)), numbers, accumulate=True)


def sparse_csr_tensor(
    crow_indices: Any, col_indices: Any, values: Any, size: Any = None, *, dtype: Any = None, **kwargs: Any
) -> Tensor:
    """torch.sparse_csr_tensor as a dense tensor. Raises `Unsupported` for a batch, for blocks, and without a size."""
    ends, columns, numbers = torch.as_tensor(crow_indices), torch.as_tensor(col_indices), torch.as_tensor(values)
    if size is None or ends.dim() != 1 or numbers.dim() != 1:
        raise Unsupported(
            "torch.sparse_csr_tensor of a batch, of blocks, or without a size",
            hint="give it the size of one matrix that it is to have",
        )
    rows = torch.searchsorted(ends[1:].contiguous(), torch.arange(numbers.shape[0], dtype=ends.dtype), right=True)
    return sparse_coo_tensor(torch.stack((rows, columns.to(rows.dtype))), numbers, size, dtype=dtype)


def mm(input: Tensor, mat2: Tensor, reduce: str = "sum") -> Tensor:
    """Product of two matrices."""
    if reduce != "sum":
        raise Unsupported(
            f"torch.sparse.mm with reduce={reduce!r} goes over the places that are there, which a dense tensor does "
            "not have",
            hint="write it with index_reduce or scatter_reduce over the indices",
        )
    return torch.mm(input, mat2)


def addmm(mat: Tensor, mat1: Tensor, mat2: Tensor, *, beta: Any = 1.0, alpha: Any = 1.0) -> Tensor:
    """Return a product added to a matrix."""
    return torch.addmm(mat, mat1, mat2, beta=beta, alpha=alpha)


def total(input: Tensor, dim: Any = None, dtype: torch.dtype | None = None) -> Tensor:
    """Sum over some dims or all."""
    return input.sum(dtype=dtype) if dim is None else input.sum(dim, dtype=dtype)


def same(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Return a tensor unchanged, as a change of layout does."""
    return input


def to_dense(input: Tensor, dtype: torch.dtype | None = None, **kwargs: Any) -> Tensor:
    """Return the tensor, which is already dense."""
    return input if dtype is None else input.to(dtype)


REPLACED: dict[Any, Callable[..., Any]] = {
    torch.sparse_coo_tensor: sparse_coo_tensor,
    torch.sparse_csr_tensor: sparse_csr_tensor,
    torch.sparse.mm: mm,
    torch.smm: mm,
    torch.spmm: mm,
    torch.dsmm: mm,
    torch.hspmm: mm,
    torch.sparse.addmm: addmm,
    torch.sspaddmm: addmm,
    sparse_sum: total,  # torch.sparse.sum calls this
    Tensor.to_sparse: same,
    Tensor.to_sparse_coo: same,
    Tensor.to_sparse_csr: same,
    Tensor.to_sparse_csc: same,
    Tensor.coalesce: same,
    Tensor.to_dense: to_dense,
}
"""Functions of sparse tensors, by their dense equivalents."""
