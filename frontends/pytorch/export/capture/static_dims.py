"""Makes dims static that the user did not ask to be dynamic, if the model does not convert otherwise; a note says
so.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import replace

import onnx_ir as ir
import torch

from convert.errors import ConvertError, Unsupported, UsageError
from convert.outcome.report import Report

from ...inputs.examples import Call, Example, example_tensor
from ...rules import torch_op

Place = tuple[str, int]
"""A dim of an input: the input's name and the dim's index."""

_MOST_GROUPS = 4
"""Maximum number of groups of dims that are tried one by one; each attempt is a capture."""


def fixed_example(example: Example, places: Collection[int]) -> Example:
    """Return the example with the dims at `places` static, each at the length that it should then have."""
    tensor = example.tensor
    for place in places:
        fixed = example.dynamic_dims[place].fixed if place in example.dynamic_dims else None
        tensor = tensor if fixed is None else _with_length(tensor, place, fixed)
    return replace(
        example, tensor=tensor, dynamic_dims={p: w for p, w in example.dynamic_dims.items() if p not in places}
    )


def _with_length(tensor: torch.Tensor, place: int, length: int) -> torch.Tensor:
    """Return an example with another length of one dim; a longer one has new numbers."""
    if length <= tensor.shape[place]:
        return tensor.narrow(place, 0, length)
    return example_tensor((*tensor.shape[:place], length, *tensor.shape[place + 1 :]), tensor.dtype)


def with_static_dims(call: Call, static: Collection[Place]) -> Call:
    """Return the call with the dims `static`, which the user did not ask to be dynamic, made static."""
    return {name: fixed_example(e, [p for p in e.dynamic_dims if (name, p) in static]) for name, e in call.items()}


def read_with_static_dims(
    attempt: Callable[[Collection[Place], Report], ir.Model], call: Call, report: Report, error: ConvertError
) -> ir.Model:
    """Return the result of `attempt` with fewer dynamic dims, after it raised `error` with all of them dynamic.

    Only dims that the user did not ask for are made static, and no more than needed: if all of them static help, one
    group at a time is tried. Raises `error` if nothing helps.
    """
    groups = _free_groups(call)
    if not groups or _is_without_rule(error):
        raise error
    every = [place for group in groups for place in group]
    chosen, tried = every, _try(attempt, every, report)
    if tried is None:
        raise error
    if 1 < len(groups) <= _MOST_GROUPS:
        for group in groups:
            fewer = _try(attempt, group, report)
            if fewer is not None:
                chosen, tried = group, fewer
                break
    model, done = tried
    report.notes[:] = done.notes
    for (label, size), names in _by_label(call, chosen).items():
        report.note(
            f"the dim {label} of {', '.join(names)} is fixed at {size}: a dynamic one does not convert ({_why(error)})",
            code="fixed-dim",
        )
    return model


def _by_label(call: Call, places: Iterable[Place]) -> dict[tuple[str | int, int], list[str]]:
    """Return the inputs that have a dim at `places`, by its name, or else its index, and its fixed size."""
    found: dict[tuple[str | int, int], list[str]] = {}
    for name, place in places:
        size = fixed_example(call[name], [place]).tensor.shape[place]
        found.setdefault((call[name].dynamic_dims[place].name or place, size), []).append(name)
    return found


def _try(
    attempt: Callable[[Collection[Place], Report], ir.Model], static: Collection[Place], report: Report
) -> tuple[ir.Model, Report] | None:
    """Return the result of an attempt, and a report with its notes only; None if it is refused."""
    scratch = replace(report, notes=list(report.notes))
    try:
        return attempt(static, scratch), scratch
    except (Unsupported, UsageError):
        return None


def _free_groups(call: Call) -> list[list[Place]]:
    """Return the dims that may become static, grouped by input, with the first dim (the batch) separate.

    A dim that a configuration names is in the group of the first input that has it: a mask has its text's length.
    """
    groups: dict[tuple[str, bool], list[Place]] = {}
    first: dict[str | None, str] = {}
    for name, example in call.items():
        for place, dynamic_dim in example.dynamic_dims.items():
            if not dynamic_dim.required:
                owner = first.setdefault(dynamic_dim.name, name) if dynamic_dim.assumed else name
                groups.setdefault((owner, place == 0), []).append((name, place))
    # A vector of one element is the least likely to have one element per row.
    return sorted(groups.values(), key=lambda group: call[group[0][0]].tensor.dim() > 1)


def _is_without_rule(error: ConvertError) -> bool:
    """Return whether operators without a rule caused the error; other sizes would not help then."""
    problems = error.problems if isinstance(error, Unsupported) else ()
    return any(p.at.operator and p.at.operator not in torch_op for p in problems)


def _why(error: ConvertError) -> str:
    if isinstance(error, UsageError):
        return "forward does not run with another length"
    return " ".join((str(error.problems[0]) if isinstance(error, Unsupported) else error.message).split())
