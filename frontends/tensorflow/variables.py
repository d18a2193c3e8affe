"""Variables: what a resource handle stands for while a graph is lowered."""

from __future__ import annotations

from dataclasses import dataclass

import onnx_ir as ir

from convert.graph import Graph


@dataclass
class Variable:
    """A variable with the value that the model was saved with; handles of it travel through calls as they are."""

    name: str
    tensor: ir.TensorProtocol
    value: ir.Value | None = None

    def read(self, g: Graph) -> ir.Value:
        """Its content: one initializer, however often it is read."""
        if self.value is None:
            self.value = g.initializer(self.name, self.tensor)
        return self.value
