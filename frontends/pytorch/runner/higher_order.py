"""Control flow of PyTorch in eager mode, for the modes that have to see the operators of its bodies."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch

from convert.errors import Unsupported

from ..torch_internals import is_higher_order, pytree


@contextmanager
def uncompiled_control_flow() -> Iterator[None]:
    """Inside the block `torch.cond` and its like call their operators as they are.

    In eager mode PyTorch compiles them first, where it meets no mode, and gives up after a few shapes.
    """
    compile_function = torch.compile

    def compile_others(function: Any = None, **options: Any) -> Any:
        return function if is_higher_order(function) else compile_function(function, **options)

    torch.__dict__["compile"] = compile_others
    try:
        yield
    finally:
        torch.__dict__["compile"] = compile_function


def run_higher_order(name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """The outputs of one call of a higher-order operator, whose bodies are run as Python functions.

    The meaning of each operator is that of its `CompositeExplicitAutograd` implementation in
    `torch/_higher_order_ops`. Raises `Unsupported` for one that is not known here.
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
    """The last values of what is carried, then the rows of each output, stacked along the first axis."""
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
