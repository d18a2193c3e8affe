"""Runs a graph with other numbers in place of some of its values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx_ir as ir

from convert.reference.executor import Executor


def run_replaced(model: ir.Model, feeds: Mapping[str, np.ndarray], values: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """Outputs of a model of the canonical opset by name, where values of the outermost graph are those given by name.

    values: of the shapes that they have there, whether they are inputs or what a node gives. Raises as `run` of the
    executor does.
    """
    executor = _ReplacedExecutor(set(), every=False)
    executor.replaced = values
    return executor.run_model(model, feeds)


class _ReplacedExecutor(Executor):
    replaced: Mapping[str, np.ndarray]

    def _store(self, value: ir.Value, array: Any) -> None:
        given = self.replaced.get(str(value.name))
        super()._store(value, array if given is None else given)
