"""A squeeze removes dims of length 1 only, and so changes the rank: a dim of unknown length must be longer than 1."""

from __future__ import annotations

from typing import Any

import onnx_ir as ir

from convert.errors import Location
from convert.graph.size_checks import check_sizes

from .context import Walk

SQUEEZES = frozenset(("squeeze", "squeeze_", "squeeze_copy"))


def check_squeezed(walk: Walk, x: ir.Value, args: list[Any], at: Location) -> ir.Value:
    """Return `x` with a check that fails at run time if a dim that a squeeze by `args` keeps has length 1.

    Without the check the result would silently have the wrong rank for such lengths.
    """
    if x.shape is None:
        return x
    g, shape = walk.g, x.shape
    asked = args[0] if args else list(range(len(shape)))
    places = sorted({p % len(shape) for p in ([asked] if isinstance(asked, int) else asked)}) if len(shape) else []
    fits, texts = None, []
    with g.at(at):
        for place in places:
            if isinstance(shape[place], int):
                continue
            name = getattr(shape[place], "value", None)
            texts.append(f"{name or f'dim {place} of {at}'} != 1")
            longer = g.Not(g.Equal(g.Shape(x, start=place, end=place + 1), [1]))
            fits = longer if fits is None else g.And(fits, longer)
            if isinstance(name, str):
                walk.longer.add(name)
    if fits is None:
        return x
    walk.report.note(
        f"a squeeze gives another rank for a length of 1, at {at}: the converted model is for "
        f"{' and '.join(texts)}, and fails when it runs for others",
        code="size-limits",
    )
    return check_sizes(g, x, fits, texts)
