"""A blob of a net under construction: its name, dtype, shape, and content if it is known."""

from __future__ import annotations

from dataclasses import dataclass

import onnx_ir as ir

from convert.graph import Dim


@dataclass(eq=False)
class Blob:
    """A tensor of the net. `content` is set for a constant; if an operator uses it, it becomes a weight on `device`.

    `shape` holds ints, names of dynamic dims, or None for unknown ones; it is None if the rank is unknown.
    """

    name: str
    dtype: ir.DataType
    shape: tuple[Dim, ...] | None = None
    content: ir.TensorProtocol | None = None
    device: int = 0
