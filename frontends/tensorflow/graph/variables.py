"""Variables: what a handle stands for while a graph is lowered, and what is known of those that the graph changes."""

from __future__ import annotations

from dataclasses import dataclass

import onnx_ir as ir

from convert.errors import Unsupported
from convert.graph import Dim, Graph


@dataclass(eq=False)
class Variable:
    """A variable with the value that the model was saved with; handles of it travel through calls as they are.

    One that the graph changes is its `state`: then `value` is what it holds at this point of the lowering, which only
    `home` may change, the graph or branch that is being written. A `reference` (TensorFlow 1) is read where it is used.
    """

    name: str
    tensor: ir.TensorProtocol
    value: ir.Value | None = None
    shape: tuple[Dim, ...] | None = None
    reference: bool = False
    state: str = ""
    home: Graph | None = None

    def read(self, g: Graph) -> ir.Value:
        """Its content: one initializer, however often it is read; of a state what was written last."""
        if self.value is None:
            self.value = g.initializer(self.name, self.tensor)
        return self.value

    def write(self, g: Graph, value: ir.Value) -> None:
        """Give it another value. Raises `Unsupported` inside a loop, and for another dtype or shape."""
        if not self.state or self.home is not g:
            raise Unsupported(f"the variable {self.name!r} is changed inside of a loop", hint="assign to it behind it")
        before = self.read(g)
        if value.dtype != before.dtype:
            raise Unsupported(f"the variable {self.name!r} is given a value of another dtype")
        if value.shape is not None and before.shape is not None:
            old, new = g.shape(before), g.shape(value)
            pairs = zip(old, new, strict=False)
            if len(old) != len(new) or any(isinstance(a, int) and isinstance(b, int) and a != b for a, b in pairs):
                raise Unsupported(f"the variable {self.name!r} is given a value of another shape")
        self.value = value
