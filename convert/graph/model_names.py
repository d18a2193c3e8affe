"""The names of a model's values, for passes that add some."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import onnx_ir as ir


@dataclass
class ModelNames:
    """The names of a model's values, and the constants put into its outermost graph.

    `replaced` pairs constants that some node has given up with the moved one, if any, that has taken their place.
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
        """`name`, or `name_1`, `name_2` … where that is taken."""
        candidate, count = name, 0
        while candidate in self.taken:
            count += 1
            candidate = f"{name}_{count}"
        self.taken.add(candidate)
        return candidate

    def initializer(self, name: str, tensor: ir.TensorProtocol) -> ir.Value:
        """A constant of the outermost graph."""
        shape, kind = ir.Shape(tensor.shape.numpy()), ir.TensorType(tensor.dtype)
        value = ir.Value(name=self.unique(name), type=kind, shape=shape, const_value=tensor)
        tensor.name = value.name
        self.root.register_initializer(value)
        return value

    def array(self, name: str, content: np.ndarray) -> ir.Value:
        """A small constant, shared with others of the same content."""
        key = repr((content.dtype.str, content.shape)).encode() + content.tobytes()
        if key not in self.small:
            self.small[key] = self.initializer(name, ir.Tensor(np.ascontiguousarray(content)))
        return self.small[key]
