"""Generate strings for inputs: a few words, or numbers as text if the graph parses numbers from them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from convert.parity.inputs.boundary_values import uses_of_content

_WORDS = ("", "a", "bc", "Hello")


def drawn_words(value: ir.Value, shape: Sequence[int], rng: np.random.Generator) -> np.ndarray:
    """Return strings for an input: integers if a Cast reads it as integers, other numbers if as floats, else words."""
    kinds = {kind for node, _ in uses_of_content(value) if (kind := _number_kind(node)) is not None}
    if not kinds:
        return rng.choice(np.array(_WORDS, dtype=object), size=tuple(shape))
    whole = rng.integers(-100, 101, size=tuple(shape))
    if any(kind.is_integer() for kind in kinds):
        texts = [str(n) for n in whole.ravel()]
    else:
        texts = [f"{n / 8}" if n % 3 else f"{n}e-2" for n in whole.ravel()]
    return np.array(texts, dtype=object).reshape(tuple(shape))


def _number_kind(node: ir.Node) -> ir.DataType | None:
    """Return the dtype that a Cast parses strings as; None for other nodes."""
    source = node.inputs[0] if node.inputs else None
    if node.op_type != "Cast" or source is None or source.dtype != ir.DataType.STRING:
        return None
    to = ir.DataType(node.attributes.get_int("to", ir.DataType.STRING))
    return None if to == ir.DataType.STRING else to
