"""Runs control flow operators in eager mode such that dispatch modes see the operators of their bodies."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from convert.errors import Unsupported

from ..torch_internals import pytree


def run_higher_order(name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Return the outputs of one call of a higher-order operator, whose bodies run as Python functions.

    Each operator does what its `CompositeExplicitAutograd` implementation in `torch/_higher_order_ops` does. Raises
    `Unsupported` for an operator that is not listed here.
    """
    if name not in _OPERATORS:
        raise Unsupported(f"{name} does not run in float64")
    return _OPERATORS[name](*args, **kwargs)


def _cond(pred: Any, true_fn: Callable[..., Any], false_fn: Callable[..., Any], operands: Sequence[Any] = ()) -> Any:
    return (true_fn if pred else false_fn)(*operands)


def _while_loop(
    cond_fn: Callable[..., Any],
    body_fn: Callable[..., Any],
    carried_inputs: Sequence[Any],
    additional_inputs: Sequence[Any] = (),
) -> Any:
    carried = tuple(carried_inputs)
    while cond_fn(*carried, *additional_inputs):
        carried = tuple(body_fn(*carried, *additional_inputs))
    return tuple(v.clone() if isinstance(v, torch.Tensor) else v for v in carried)


def _scan(
    combine_fn: Callable[..., Any], init: Sequence[Any], xs: Sequence[Any], additional_inputs: Sequence[Any] = ()
) -> Any:
    """Return the last values of what is carried, then the outputs of all steps, stacked along the first axis."""
    carried, rows = list(init), []
    for i in range(len(xs[0])):
        made = list(combine_fn(*carried, *(x[i] for x in xs), *additional_inputs))
        carried = made[: len(init)]
        rows.append(made[len(init) :])
    return (*carried, *(torch.stack(column) for column in zip(*rows, strict=True)))


def _map(f: Callable[..., Any], xs: Sequence[Any], additional_inputs: Sequence[Any] = ()) -> Any:
    made = [pytree.tree_flatten(f(*(x[i] for x in xs), *additional_inputs)) for i in range(len(xs[0]))]
    stacked = [torch.stack(column) for column in zip(*(leaves for leaves, _ in made), strict=True)]
    return pytree.tree_unflatten(stacked, made[0][1])


_OPERATORS: dict[str, Callable[..., Any]] = {
    "cond": _cond,
    "while_loop": _while_loop,
    "scan": _scan,
    "map_impl": _map,
}
