"""A module's own description of its inputs and outputs: names in locations and attributes, and dims that are sizes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jaxlib.mlir import ir as mlir

from ..places import argument_name
from ..program import distinct, io_name
from ..types import attribute_value

if TYPE_CHECKING:
    from ..walker import Walker

WRAPPED = "_wrapped_jax_export_main"


def argument_names(walker: Walker) -> list[str]:
    """Return JAX's names of the program's arguments, or "". With symbolic dims, JAX wraps the program in another
    function.
    """
    function = walker.functions.get(WRAPPED) or walker.main()
    entries = _attributes(function, "arg_attrs")
    arguments = function.regions[0].blocks[0].arguments
    return [
        argument_name(a)
        for i, a in enumerate(arguments)
        if not (i < len(entries) and "jax.global_constant" in entries[i])
    ]


def output_names(walker: Walker, count: int) -> list[str]:
    """Return a name for each result: its path in what the function returned."""
    entries = _attributes(walker.main(), "res_attrs")
    found_names = [str(entry.get("jax.result_info", "")) for entry in entries] + [""] * count
    lone = "output" if count == 1 else "output_{}"
    return distinct([io_name(found_names[i], lone.format(i)) for i in range(count)])


def _attributes(function: mlir.Operation, name: str) -> list[dict[str, Any]]:
    if name not in function.attributes:
        return []
    found = attribute_value(function.attributes[name])
    return [entry if isinstance(entry, dict) else {} for entry in found]
