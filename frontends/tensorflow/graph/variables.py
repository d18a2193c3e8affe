"""Variables: what a handle refers to during lowering, and the known facts about variables that the graph changes."""

from __future__ import annotations

from dataclasses import dataclass

import onnx_ir as ir

from convert.errors import Unsupported
from convert.graph import Dim, Graph


@dataclass(eq=False)
class Variable:
    """A variable with its saved value; handles of it pass through calls unchanged.

    If the graph changes it, it is a `state`: `value` is its content at this point of the lowering, and only `home`, the
    graph or branch being written, may change it. A `reference` (TensorFlow 1) is read where it is used.
    """

    name: str
    tensor: ir.TensorProtocol
    value: ir.Value | None = None
    shape: tuple[Dim, ...] | None = None
    reference: bool = False
    state: str = ""
    home: Graph | None = None

    def read(self, g: Graph) -> ir.Value:
        """Return the content: one initializer for all reads; for a state, what was written last."""
        if self.value is None:
            self.value = g.initializer(self.name, self.tensor)
        return self.value

    def write(self, g: Graph, value: ir.Value) -> None:
        """Set another value. Raises `Unsupported` inside a loop, and for another dtype or shape."""
        if not self.state or self.home is not g:
            raise Unsupported(
                f"the variable {self.name!r} is changed inside a loop", hint="assign to it after the loop"
            )
        before = self.read(g)
        if value.dtype != before.dtype:
            raise Unsupported(f"the variable {self.name!r} is given a value of another dtype")
        if value.shape is not None and before.shape is not None:
            old, new = g.shape(before), g.shape(value)
            pairs = zip(old, new, strict=False)
            if len(old) != len(new) or any(isinstance(a, int) and isinstance(b, int) and a != b for a, b in pairs):
                raise Unsupported(f"the variable {self.name!r} is given a value of another shape")
        self.value = value
