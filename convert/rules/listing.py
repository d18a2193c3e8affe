"""What the rooms say of their operator tables: the rows of `convert ops`, and the decorators for rules of one's own."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any

from convert.differences import Difference, reasons_by_operator
from convert.plugin import Operator

if TYPE_CHECKING:
    from convert.rules import Rules


_NONE: Mapping[str, str] = {}


def operator_rows(
    table: Rules,
    gaps: Mapping[str, str] = _NONE,
    limits: Mapping[str, str] = _NONE,
    differences: Sequence[Difference] = (),
    written_out: Collection[str] = (),
    lacking: Collection[str] = (),
) -> Iterator[Operator]:
    """One row for each operator that `table` has a rule for, or declares a gap, without this project's own domains.

    `written_out` names operators that are written out where there is no rule: they have rows too, unless they are gaps.
    `lacking` names operators with a rule that a format writes out all the same.

    `gaps` and `limits` are what a format has besides: operators that it lacks, or has for some inputs only;
    `differences` what its runtime computes otherwise at the edge of numbers.
    """
    reasons = {**dict.fromkeys((*written_out, *table.entries), ""), **table.gaps, **gaps}
    bounds, differs = {**table.limits, **limits}, reasons_by_operator(differences)
    for name, why in sorted(reasons.items()):
        if not name.startswith("convert."):
            limit, differing = bounds.get(name, ""), differs.get(name.partition(".")[0], "")
            yield Operator(name, why, *(() if why else (limit, differing, name not in table or name in lacking)))


def lazy_attributes(
    module: str, places: Mapping[str, str], *, renamed: Mapping[str, str] = _NONE
) -> Callable[[str], Any]:
    """A module's `__getattr__` (PEP 562) that imports attributes when they are asked for: decorators cost a framework.

    places: the submodule of each, as in `__getattr__ = lazy_attributes(__name__, {"onnx_op": ".rules"})`.
    renamed: old names that still work, with a DeprecationWarning, each with the new one.
    """

    def attribute(name: str) -> Any:
        new = renamed.get(name, name)
        if new not in places:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        if new != name:
            warnings.warn(f"{module}.{name} is called {new} now", DeprecationWarning, stacklevel=2)
        return getattr(import_module(places[new], module), new)

    return attribute
