"""The names of a model's values, for passes that add values."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import onnx_ir as ir


@dataclass
class ModelNames:
    """The names of a model's values, and the constants that passes added to its outermost graph.

    `replaced` pairs each constant that a node no longer uses with the moved constant that replaced it, or None.
    """

    root: ir.Graph
    taken: set[str] = field(default_factory=set)
    moved: dict[tuple[ir.Value, int], ir.Value] = field(default_factory=dict)
    small: dict[bytes, ir.Value] = field(default_factory=dict)
    replaced: list[tuple[ir.Value, ir.Value | None]] = field(default_factory=list)

    def __post_init__(self) -> None:
        for graph in (self.root, *self.root.subgraphs()):
            self.taken.update(x.name for x in (*graph.inputs, *graph.initializers.values()) if x.name)
            self.taken.update(node.name for node in graph if node.name)
            self.taken.update(x.name for node in graph for x in node.outputs if x.name)

    def unique(self, name: str) -> str:
        """Return `name`, or the first of `name_1`, `name_2`, … that is not taken, and reserve it."""
        candidate, count = name, 0
        while candidate in self.taken:
            count += 1
            candidate = f"{name}_{count}"
        self.taken.add(candidate)
        return candidate

    def initializer(self, name: str, tensor: ir.TensorProtocol) -> ir.Value:
        """Add a constant to the outermost graph and return it."""
        shape, kind = ir.Shape(tensor.shape.numpy()), ir.TensorType(tensor.dtype)
        value = ir.Value(name=self.unique(name), type=kind, shape=shape, const_value=tensor)
        tensor.name = value.name
        self.root.register_initializer(value)
        return value

    def array(self, name: str, content: np.ndarray) -> ir.Value:
        """Return a small constant; equal constants share one initializer."""
        key = repr((content.dtype.str, content.shape)).encode() + content.tobytes()
        if key not in self.small:
            self.small[key] = self.initializer(name, ir.Tensor(np.ascontiguousarray(content)))
        return self.small[key]
