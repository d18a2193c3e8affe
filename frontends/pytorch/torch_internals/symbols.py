"""PyTorch's symbolic sizes and its decisions about them: a module of its own, because sympy takes long to import."""

from __future__ import annotations

from typing import Any

# fx.experimental promises no stability, and no public names exist. `ShapeEnv` answers all questions of a capture about
# sizes.
from torch.fx.experimental import symbolic_shapes as symbolic_shapes
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode as GuardOnDataDependentSymNode
from torch.fx.experimental.symbolic_shapes import PendingUnbackedSymbolNotFound as PendingUnbackedSymbolNotFound
from torch.fx.experimental.symbolic_shapes import ShapeEnv as ShapeEnv
from torch.fx.experimental.symbolic_shapes import statically_known_true as statically_known_true

# The functions of which sizes are composed: PyTorch defines its own for sympy, whose rounding differs from sympy's.
from torch.utils._sympy.functions import CeilToInt as CeilToInt
from torch.utils._sympy.functions import FloorDiv as FloorDiv
from torch.utils._sympy.functions import IntTrueDiv as IntTrueDiv
from torch.utils._sympy.functions import Max as Max
from torch.utils._sympy.functions import Mod as Mod
from torch.utils._sympy.functions import PythonMod as PythonMod
from torch.utils._sympy.numbers import int_oo as int_oo
from torch.utils._sympy.printers import PythonPrinter as PythonPrinter
from torch.utils._sympy.symbol import SymT as SymT
from torch.utils._sympy.symbol import symbol_is_type as symbol_is_type
from torch.utils._sympy.value_ranges import ValueRanges as ValueRanges


def sizes_of_examples(environment: Any) -> Any:
    """Return the size that each symbol has in the examples of a capture; PyTorch 2.10 has another name for the
    table.
    """
    return environment.backed_var_to_val if hasattr(environment, "backed_var_to_val") else environment.var_to_val


def decided_by_ranges(condition: Any, ranges: tuple[tuple[Any, Any], ...]) -> Any:
    """Return the value that a condition has for all values of its symbols in these ranges; None if it has several, or
    if a symbol has no range.
    """
    if condition.free_symbols - {symbol for symbol, _ in ranges}:
        return None
    environment: Any = ShapeEnv()
    environment.var_to_range.update(ranges)  # not as an argument, which simplifying a quotient does not pass on
    return environment._maybe_evaluate_static(condition, axioms=())


def set_expression(size: Any, expression: Any) -> None:
    """Rewrite the expression of a size in another form; `size.expr` itself is read-only."""
    size._expr = expression
