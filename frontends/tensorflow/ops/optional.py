"""Optional values: lowering knows whether they have content, and which."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx_ir as ir

from convert.errors import Unsupported
from convert.graph import Graph

from ..rules import tf_op

UNKNOWN = tf_op.limit("OptionalGetValue", "an optional value that comes out of an iterator, or holds nothing")


@dataclass(frozen=True)
class OptionalValue:
    """An optional; its content is None if it is empty."""

    components: tuple[Any, ...] | None


@tf_op("OptionalFromValue")
def from_value(g: Graph, components: Sequence[Any]) -> OptionalValue:
    return OptionalValue(tuple(components))


@tf_op("OptionalNone")
def nothing(g: Graph) -> OptionalValue:
    return OptionalValue(None)


@tf_op("OptionalHasValue")
def has_value(g: Graph, optional: Any) -> ir.Value:
    if not isinstance(optional, OptionalValue):
        raise Unsupported(UNKNOWN)
    return g.const(np.array(optional.components is not None))


@tf_op("OptionalGetValue")
def get_value(g: Graph, optional: Any, *, output_shapes: object = None) -> list[Any]:
    if not isinstance(optional, OptionalValue) or optional.components is None:
        raise Unsupported(UNKNOWN)
    return list(optional.components)
