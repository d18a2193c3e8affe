"""PyTorch's sizes as symbols, and what it decides about them: apart because sympy takes long to import."""

from __future__ import annotations

from typing import Any

# No public name has them, and fx.experimental promises nothing. What a capture asks about a size ends in `ShapeEnv`.
from torch.fx.experimental import symbolic_shapes as symbolic_shapes
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode as GuardOnDataDependentSymNode
from torch.fx.experimental.symbolic_shapes import PendingUnbackedSymbolNotFound as PendingUnbackedSymbolNotFound
from torch.fx.experimental.symbolic_shapes import ShapeEnv as ShapeEnv
from torch.fx.experimental.symbolic_shapes import statically_known_true as statically_known_true

# What sizes are made of: sympy has operators of its own for them, which round as other ones.
from torch.utils._sympy.functions import Mod as Mod
from torch.utils._sympy.functions import PythonMod as PythonMod
from torch.utils._sympy.numbers import int_oo as int_oo
from torch.utils._sympy.printers import PythonPrinter as PythonPrinter
from torch.utils._sympy.symbol import SymT as SymT
from torch.utils._sympy.symbol import symbol_is_type as symbol_is_type
from torch.utils._sympy.value_ranges import ValueRanges as ValueRanges


def sizes_of_examples(environment: Any) -> Any:
    """Return the size that each symbol has in the examples of a capture; PyTorch 2.10 calls the table otherwise."""
    return environment.backed_var_to_val if hasattr(environment, "backed_var_to_val") else environment.var_to_val


def decided_by_ranges(condition: Any, ranges: tuple[tuple[Any, Any], ...]) -> Any:
    """Return what a condition is for all values of its symbols in these ranges; None where that differs."""
    environment: Any = ShapeEnv()
    return environment._maybe_evaluate_static(condition, axioms=(), var_to_range=ranges)
