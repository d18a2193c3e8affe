"""The origin of an operator in a module: JAX's name stack and the line of the user's program."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice
from typing import Any

from jaxlib.mlir import ir as mlir

from convert.errors import Location

_WRAPPER = re.compile(r"^(jit|pjit|vmap|jvp|transpose|remat|checkpoint|custom_jvp|custom_vjp|closed_call)\((.*)\)$")
_MOST = 256
"""Maximum number of parts of a location that are read. A location of Python frames contains the next one as a part."""


def location_of(op: mlir.Operation, operator: str) -> Location:
    """Return an operator's name stack as module and node, and the first source line in its location.

    `jit(forward)/Block_0/attn/dot_general` is the node `Block_0/attn/dot_general` of the module `Block_0/attn`.
    """
    name, source = _name_and_source(op.location)
    parts = [p for p in name.rstrip(":").split("/") if p and not _WRAPPER.match(p) and p != "closed_call"]
    prefix = "" if operator.startswith(("chlo.", "@")) else "stablehlo."
    node = "/".join(parts) or operator.lstrip("@")
    return Location(prefix + operator, node, "/".join(parts[:-1]), source)


def argument_name(argument: mlir.Value) -> str:
    """Return JAX's name of a function argument, e.g. `params['w']`; "" if it has no name."""
    return _name_and_source(argument.location)[0]


def _name_and_source(place: Any) -> tuple[str, str]:
    """Return the outermost name of a location that is no Python frame, and the innermost line of a file.

    Only the first `_MOST` parts are read, because a location may contain another one several times, at every level.
    """
    return _walked(place, iter(range(_MOST)))


def _walked(place: Any, left: Iterator[int]) -> tuple[str, str]:
    """Return what `_name_and_source` returns, for at most as many parts as `left` has items."""
    if next(left, None) is None:
        return "", ""
    match place:
        case mlir.NameLoc():
            inner = place.child_loc
            if isinstance(inner, mlir.FileLineColLoc):  # a frame: a function and its line
                return "", _line(inner)
            _, source = _walked(inner, left)
            return place.name_str, source
        case mlir.CallSiteLoc():
            name, source = _walked(place.callee, left)
            if source:
                return name, source
            return name, _walked(place.caller, left)[1]
        case mlir.FusedLoc():
            found = [_walked(inner, left) for inner in islice(place.locations, _MOST)]
            return next((n for n, _ in found if n), ""), next((s for _, s in found if s), "")
        case mlir.FileLineColLoc():
            return "", _line(place)
    return "", ""


def _line(place: Any) -> str:
    return f"{place.filename.value if hasattr(place.filename, 'value') else place.filename}:{place.start_line}"
