"""The notation of operator cases: `case("LeakyRelu", f32(2, 3), alpha=0.2)`, one row for each case or declared gap."""

from __future__ import annotations

import importlib
import pkgutil
import zlib
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest


@dataclass(frozen=True)
class Case:
    """An operator applied to inputs with attributes. `reason` marks a declared gap, which must fail (strict)."""

    operator: str
    inputs: tuple[Any, ...]
    attributes: dict[str, Any] = field(default_factory=dict)
    label: str = ""
    reason: str = ""
    dynamic_inputs: int = 99
    """The number of leading inputs that may have dims of unknown size; the rest are weights."""

    def xfail(self, reason: str) -> Case:
        """Return the same case as a declared gap."""
        return replace(self, reason=reason)

    def named(self, label: str) -> Case:
        """Return the same case with a label that distinguishes it from others of its operator."""
        return replace(self, label=label)


def case(operator: str, *inputs: Any, **attributes: Any) -> Case:
    """Return a row. Inputs are arrays (the table decides which are constants), attributes are the operator's own."""
    return Case(operator, inputs, attributes)


def params(cases: Iterable[Case], slow: Collection[str] | Callable[[Case], bool] = ()) -> list[Any]:
    """Return rows as pytest parameters, with ids `Operator-label` or `Operator-2` and strict xfails.

    slow: selects the rows with the mark `slow`, or names the operators of which all rows but the first have it.
    """
    seen: dict[str, int] = {}
    rows = []
    for row in cases:
        seen[row.operator] = seen.get(row.operator, 0) + 1
        suffix = row.label or (str(seen[row.operator]) if seen[row.operator] > 1 else "")
        marks = [pytest.mark.xfail(reason=row.reason, strict=True)] if row.reason else []
        is_slow = slow(row) if callable(slow) else row.operator in slow and seen[row.operator] > 1
        marks += [pytest.mark.slow] if is_slow else []
        rows.append(pytest.param(row, id=f"{row.operator}-{suffix}" if suffix else row.operator, marks=marks))
    return rows


def rows_of_package(package: str) -> list[Any]:
    """Return the `ROWS` of every test module of a package and its folders, in the order of the modules' names."""
    path = importlib.import_module(package).__path__
    found = sorted(info.name for info in pkgutil.walk_packages(path, f"{package}."))
    names = [n for n in found if n.rpartition(".")[2].startswith("test_") and not n.endswith(".test_rules")]
    modules = [importlib.import_module(name) for name in names]
    return [row for module in modules for row in getattr(module, "ROWS", ())]


def f32(*shape: int, low: float = -2.0, high: float = 2.0) -> np.ndarray:
    """Return uniform float32 numbers of `shape`, the same for the same arguments."""
    return _rng("f32", shape, low, high).uniform(low, high, shape).astype(np.float32)


def f64(*shape: int, low: float = -2.0, high: float = 2.0) -> np.ndarray:
    """Return uniform float64 numbers of `shape`, the same for the same arguments."""
    return _rng("f64", shape, low, high).uniform(low, high, shape)


def i64(*shape: int, low: int = -5, high: int = 6) -> np.ndarray:
    """Return uniform int64 numbers in [low, high), the same for the same arguments."""
    return _rng("i64", shape, low, high).integers(low, high, shape)


def i32(*shape: int, low: int = -5, high: int = 6) -> np.ndarray:
    """Return uniform int32 numbers in [low, high), the same for the same arguments."""
    return i64(*shape, low=low, high=high).astype(np.int32)


def boolean(*shape: int) -> np.ndarray:
    """Return random booleans of `shape`, the same for the same arguments."""
    return _rng("bool", shape).random(shape) < 0.5


def _rng(*key: Any) -> np.random.Generator:
    return np.random.default_rng(zlib.crc32(repr(key).encode()))
