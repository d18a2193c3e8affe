"""The rows of `convert ops`, and lazy imports of the decorators for user rules."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any

from convert.plugin import Operator
from convert.runtimes.differences import Difference, reasons_by_operator

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
    """Yield one row for each operator with a rule or a declared gap in `table`, except our own domains.

    - `gaps` and `limits`: operators that a format lacks, or supports for some inputs only, in addition to the table's
    - `differences`: where the format's runtime differs for special values
    - `written_out`: operators that are written out if there is no rule; they have rows too, unless they are gaps
    - `lacking`: operators with a rule that the format writes out nevertheless
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
    """Return a module's `__getattr__` (PEP 562) that imports attributes on first use.

    Decorators would otherwise import a framework.

    - `places`: the submodule of each attribute, as in `__getattr__ = lazy_attributes(__name__, {"onnx_op": ".rules"})`
    - `renamed`: old names that still work with a DeprecationWarning, each with its new name
    """

    def attribute(name: str) -> Any:
        new = renamed.get(name, name)
        if new not in places:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        if new != name:
            warnings.warn(f"{module}.{name} is called {new} now", DeprecationWarning, stacklevel=2)
        return getattr(import_module(places[new], module), new)

    return attribute
