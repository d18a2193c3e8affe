"""Captures modules that compute gradients: forces, `torch.func.grad` under `vmap`, Jacobians.

torch.export records operators above autograd, where a gradient is a call of its engine. Recorded below it, the
operators of the backward pass appear like any others.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn
from torch.export import ExportedProgram

from ...common.late_imports import import_trace
from ...torch_internals import export_below_autograd, pytree
from ..patch_table import patched
from ..patches.patch import Stage

import_trace()

_SIGNS = (
    "fake tensor in the exported program constant's list",
    "has no attribute 'constant'",
    "to view functorch tensor",
    "does not require grad",
    "backward through the graph a second time",
    "is not tracked with proxy",  # for a size that autograd's engine created
)
"""Messages of torch.export about gradients, which it also uses for other errors."""


def may_take_gradients(error: Exception) -> bool:
    """Return whether a capture may have failed because forward computes gradients."""
    return any(sign in str(error) for sign in _SIGNS)


def has_marks(program: ExportedProgram) -> bool:
    """Return whether a graph has marks of torch.func.grad, which leave the gradient to whoever runs it."""
    graphs = [m.graph for m in program.graph_module.modules() if isinstance(m, torch.fx.GraphModule)]
    return any("_for_grad" in getattr(n.target, "__name__", "") for graph in graphs for n in graph.nodes)


def below_autograd(module: nn.Module, *args: Any) -> ExportedProgram:
    """Capture with the operators of the backward pass; arguments are those of `torch.export.export`."""
    with (
        _weights_without_gradients(module),
        _fresh_inputs(module),
        _recording(module),
        patched(Stage.GRADIENTS),
        torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH),
    ):
        program = export_below_autograd(module, *args, strict=False, pre_dispatch=False)
    _write_factors(program.graph)
    return program


_FACTORED = {
    torch.ops.aten._linalg_det.default: 1,
    torch.ops.aten._linalg_slogdet.default: 2,
    torch.ops.aten._linalg_solve_ex.default: 1,
}
"""The position of the factors that these operators keep for gradients among their results; the pivots follow."""


def _write_factors(graph: torch.fx.Graph) -> None:
    """Insert a separate factorization for factors that are kept for the gradient, because the rules of these operators
    do not return them.
    """
    for node in list(graph.nodes):
        first = _FACTORED.get(node.target, 0)
        kept = [user for user in node.users if user.target is operator.getitem and user.args[1] in (first, first + 1)]
        if not first or not kept:
            continue
        matrix = node.args[0]
        with graph.inserting_before(node):
            if _is_factored_transposed(node.target, matrix.meta["val"].is_contiguous()):
                matrix = graph.call_function(torch.ops.aten.transpose.int, (matrix, -2, -1))
                matrix.meta = {**node.meta, "val": node.args[0].meta["val"].mT}
            factors = graph.call_function(torch.ops.aten.linalg_lu_factor_ex.default, (matrix,))
            factors.meta = {**node.meta, "val": torch.linalg.lu_factor_ex(matrix.meta["val"])}
        for user in kept:
            user.args = factors, user.args[1] - first


@cache
def _is_factored_transposed(target: Any, contiguous: bool) -> bool:
    """Return whether the factors are those of the transposed matrix, given the matrix's memory order."""
    matrix = torch.tensor([[1.0, 2.0], [3.0, 5.0]])
    matrix = matrix if contiguous else matrix.mT.contiguous().mT
    found = target(matrix, matrix) if target is torch.ops.aten._linalg_solve_ex.default else target(matrix)
    return not torch.equal(found[_FACTORED[target]], torch.linalg.lu_factor(matrix).LU)


def call_with_gradients_if_asked(module: nn.Module, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Call without gradients, or with them if forward computes some and relies on its caller."""
    try:
        return module(*args, **kwargs)
    except RuntimeError as error:
        if "does not require grad" not in str(error) or torch.is_grad_enabled():
            raise
    with torch.enable_grad(), _fresh_inputs(module):
        return pytree.tree_map_only(Tensor, torch.detach, module(*args, **kwargs))


@contextmanager
def _weights_without_gradients(module: nn.Module) -> Iterator[None]:
    """Let no weight require gradients: PyTorch would keep data for them between runs."""
    asking = [p for p in module.parameters() if p.requires_grad]
    try:
        for weight in asking:
            weight.requires_grad_(False)
        yield
    finally:
        for weight in asking:
            weight.requires_grad_(True)


@contextmanager
def _recording(module: nn.Module) -> Iterator[None]:
    """Run forward with gradients, as programs do by default; PyTorch's capture disables them."""
    before: list[bool] = []

    def begin(module: nn.Module, args: Any) -> None:
        before.append(torch.is_grad_enabled())
        torch.set_grad_enabled(True)

    def end(module: nn.Module, args: Any, result: Any) -> None:
        torch.set_grad_enabled(before.pop())

    handles = module.register_forward_pre_hook(begin), module.register_forward_hook(end, always_call=True)
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


@contextmanager
def _fresh_inputs(module: nn.Module) -> Iterator[None]:
    """Give forward its own inputs, so that `requires_grad_()` does not change those that the capture continues with."""

    def fresh(module: nn.Module, args: Any, kwargs: Any) -> Any:
        return pytree.tree_map_only(Tensor, torch.detach, (args, kwargs))

    handle = module.register_forward_pre_hook(fresh, with_kwargs=True)
    try:
        yield
    finally:
        handle.remove()
