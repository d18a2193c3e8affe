"""Runs a graph with replacements for some of its values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx_ir as ir

from convert.reference.executor import Executor


def run_replaced(model: ir.Model, feeds: Mapping[str, np.ndarray], values: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """Return the outputs of a model by name, with values of the outermost graph replaced by the arrays in `values`.

    `model` must be at the canonical opset. An array must have the shape of the value that it replaces, which may be an
    input or an output of a node. Raises as `run` of the executor does.
    """
    executor = _ReplacedExecutor(set(), every=False)
    executor.replaced = values
    return executor.run_model(model, feeds)


class _ReplacedExecutor(Executor):
    replaced: Mapping[str, np.ndarray]

    def _store(self, value: ir.Value, array: Any) -> None:
        given = self.replaced.get(str(value.name))
        super()._store(value, array if given is None else given)
