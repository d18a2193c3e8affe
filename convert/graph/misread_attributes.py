"""Finds attributes that pass ONNX's own checks, but on which its shape inference crashes or hangs."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from convert import limits

_TERM = r"[A-Za-z]*(?:\.\.\.[A-Za-z]*)?"
_EQUATION = re.compile(rf"{_TERM}(?:,{_TERM})*(?:->{_TERM})?")


def misread_attribute(operator: str, given: Mapping[str, int | str], outputs: int) -> str:
    """Describe an attribute of an ONNX operator that its specification gives no meaning; "" if there is none.

    Call this before inference, which ends the process or hangs instead of raising a Python exception.
    """
    find = _CHECKS.get(operator)
    return "" if find is None else find(given, outputs)


def has_misread_attributes(operator: str) -> bool:
    """Return whether `misread_attribute` has a check for an operator."""
    return operator in _CHECKS


def _einsum(given: Mapping[str, int | str], outputs: int) -> str:
    equation = str(given.get("equation", ""))
    return "" if _EQUATION.fullmatch(equation.replace(" ", "")) else f"{equation[:100]!r} is no equation"


def _gather_nd(given: Mapping[str, int | str], outputs: int) -> str:
    dims = int(given.get("batch_dims", 0))
    return "" if 0 <= dims <= limits.TENSOR_DIMS else f"its inputs cannot have {dims} dims of a batch in common"


def _layer_normalization(given: Mapping[str, int | str], outputs: int) -> str:
    axis = int(given.get("axis", -1))
    return "" if abs(axis) <= limits.TENSOR_DIMS else f"no tensor has an axis {axis}"


def _split(given: Mapping[str, int | str], outputs: int) -> str:
    count = int(given.get("num_outputs", outputs))
    return "" if count == outputs else f"its num_outputs is {count}, and it has {outputs} outputs"


_CHECKS: dict[str, Callable[[Mapping[str, int | str], int], str]] = {
    "Einsum": _einsum,
    "GatherND": _gather_nd,
    "LayerNormalization": _layer_normalization,
    "Split": _split,
}
