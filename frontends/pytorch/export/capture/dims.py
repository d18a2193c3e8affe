"""Names of dynamic dims: PyTorch's symbols (`s31`) become "batch", expressions of them "3*height"."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import sympy
import torch

from convert.graph import Dim

_LONGEST = 60
"""Maximum length of an expression as a dim name: a decoder's cache has the length
`past_decoder_sequence_length+decoder_sequence_length`.
"""


class Dims:
    """The names of one program's symbols. `name` gives equal expressions equal names."""

    def __init__(self, chosen: Mapping[sympy.Symbol, str]) -> None:
        self.symbols = {symbol: sympy.Symbol(name, integer=True, positive=True) for symbol, name in chosen.items()}
        self.names: dict[sympy.Expr, str] = {}

    def of(self, dim: int | torch.SymInt) -> Dim:
        """Return a dim of a fake tensor as an int or a name."""
        return dim if isinstance(dim, int) else self.name(dim.node.expr)

    def name(self, expression: sympy.Expr) -> Dim:
        """Return the name of an expression, or its value if it is a number."""
        if expression.is_number:
            return int(expression)
        if expression not in self.names:
            for symbol in sorted(expression.free_symbols, key=str):
                if symbol not in self.symbols:
                    self.symbols[symbol] = sympy.Symbol(str(symbol), integer=True, positive=True)
            text = str(expression.xreplace(self.symbols)).replace(" ", "")
            # A long expression is unreadable: the dim gets a short name of its own.
            self.names[expression] = text if len(text) <= _LONGEST else f"dim{len(self.names)}"
        return self.names[expression]


def is_fixed(dim: int | torch.SymInt) -> bool:
    """Return whether a dim has one size only, including dims that capture fixed."""
    return isinstance(dim, int) or bool(dim.node.expr.is_number)


def choose_dim_names(
    inputs: Iterable[tuple[str, Any]], wanted: Mapping[tuple[str, int], str]
) -> dict[sympy.Symbol, str]:
    """Return names for the symbols in the shapes of `inputs` (by name): those `wanted` for (input, dim), else by
    position.

    The first dim is "batch", the last two of an image are "height" and "width", others "<input>_<dim>".
    """
    chosen: dict[sympy.Symbol, str] = {}
    places = []
    for label, tensor in inputs:
        if isinstance(tensor, torch.Tensor):
            sizes: tuple[Any, ...] = tensor.shape  # ints and SymInts, which PyTorch's annotations call ints
            places += [(label, tensor, place, dim) for place, dim in enumerate(sizes) if not is_fixed(dim)]
    # A name given to a sum (`past+new`) names no term of the sum; the terms may be dims of later inputs.
    for label, tensor, place, dim in sorted(places, key=lambda row: not row[3].node.expr.is_symbol):
        for symbol in sorted(dim.node.expr.free_symbols, key=str):
            if symbol in chosen:
                continue
            # The user may give several dims one name, which makes them equal.
            name = wanted.get((label, place))
            if name is None:
                name = _default_dim_name(label, tensor, place)
                name = f"{label}_{place}" if name in chosen.values() or name in wanted.values() else name
            chosen[symbol] = name
    return chosen


def bounds_json(dims: Dims, ranges: Mapping[sympy.Symbol, Any], shapes: Iterable[Sequence[Any]]) -> str:
    """Return the bounds of the named dims as JSON, {"batch": [1, null]}.

    PyTorch reports 2 as the least length of a dim with unknown bounds, because it treats 0 and 1 specially. This is no
    property of the model, so it is written as 1 and left to verification.
    """
    found: dict[str, list[int | None]] = {}
    for shape in shapes:
        for dim in shape:
            if is_fixed(dim):
                continue
            low, high = _dim_range(dim.node.expr, ranges)
            found[str(dims.name(dim.node.expr))] = [low, high]
    return json.dumps(found)


def _dim_range(expression: sympy.Expr, ranges: Mapping[sympy.Symbol, Any]) -> tuple[int, int | None]:
    known = ranges.get(expression)
    if known is None:
        return 1, None
    low = finite_bound(known.lower)
    return (1 if low is None or low <= 2 else low), finite_bound(known.upper)


def finite_bound(number: Any) -> int | None:
    """Return a bound of PyTorch as an int, or None for infinity."""
    try:
        value = int(number)
    except (TypeError, ValueError, OverflowError, AttributeError):
        return None
    return None if value >= 2**31 - 1 else value


def _default_dim_name(label: str, tensor: torch.Tensor, place: int) -> str:
    if place == 0:
        return "batch"
    if tensor.dim() == 4 and tensor.is_floating_point() and place >= 2:
        return ("height", "width")[place - 2]
    return f"{label}_{place}"
