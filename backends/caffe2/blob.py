"""A blob of a net that is being written: its name, dtype, shape, and what is known of its content."""

from __future__ import annotations

from dataclasses import dataclass

import onnx_ir as ir

from convert.graph import Dim


@dataclass(eq=False)
class Blob:
    """A tensor of the net. `content` is set for a constant; if an operator uses it, it becomes a weight on `device`.

    `shape` holds ints, names of dynamic dims, or None for unknown ones; it is None where not even the rank is known.
    """

    name: str
    dtype: ir.DataType
    shape: tuple[Dim, ...] | None = None
    content: ir.TensorProtocol | None = None
    device: int = 0
