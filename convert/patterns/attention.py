"""The pattern of scaled dot-product attention: two products around a softmax."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import onnx_ir as ir

from convert.graph import Graph
from convert.graph.values import constant, known_dims
from convert.patterns.expressions import Attribute, Number, Tensor, op, softmax
from convert.patterns.find import Pattern
from convert.patterns.matcher import number

# Adding a larger number to a score gives that number, whatever the score, in float64 too.
_MASKED = -1e30


_SWAPPED = (0, 1, 3, 2)


def _attention(g: Graph, found: Any) -> ir.Value | None:
    """Return Attention of [batch, heads, length, size], with equal batch and heads, and sizes known.

    ONNX's scale attribute is float32, so only exactly representable scales and 1 / √size are recognized.
    """
    key = _swapped(g, found.key, found.key_perm)
    mask = _added_mask(g, found)
    if key is None or found.axis != (3,) or (found.hidden is not None and found.hidden > _MASKED) or _hides_all(mask):
        return None
    shapes = [known_dims(v) for v in (found.query, key, found.v)]
    if not _have_matching_shapes(shapes) or (mask is not None and not _mask_fits(mask, found.query, *shapes[:2])):
        return None
    scale = found.scale
    if abs(scale * math.sqrt(found.query.shape[3]) - 1) < 1e-15:
        scale = None
    elif float(np.float32(scale)) != scale:
        return None
    return g.Attention(found.query, key, found.v, mask, scale=scale)


def _transposed_attention(g: Graph, found: Any) -> ir.Value | None:
    """Return the transpose of Attention, for Vᵀ·weightsᵀ, as JAX's einsum computes it."""
    found.v = _swapped(g, found.turned, found.value_perm)
    made = _attention(g, found) if found.v is not None and found.weights_perm == _SWAPPED else None
    return None if made is None else g.Transpose(made, perm=_SWAPPED)


def _swapped(g: Graph, source: ir.Value, perm: tuple[int, ...] | None) -> ir.Value | None:
    """Return `source` permuted by `perm`, with the last two dims exchanged; None unless it has four dims."""
    if perm is None or len(perm) != 4:
        return None
    perm = (perm[0], perm[1], perm[3], perm[2])
    return source if perm == (0, 1, 2, 3) else g.Transpose(source, perm=perm)


def _added_mask(g: Graph, found: Any) -> ir.Value | None:
    """Return the mask as a term that is added to the scores."""
    if found.seen is None and found.unseen is None:
        return found.mask
    zero, hidden = (g.const(np.array(n), found.query.dtype) for n in (0.0, found.hidden))
    return g.Where(found.seen, zero, hidden) if found.unseen is None else g.Where(found.unseen, hidden, zero)


def _hides_all(mask: ir.Value | None) -> bool:
    """Return whether a mask may be −∞ in a whole row: ONNX's Attention makes it zero, a softmax makes it NaN."""
    node = mask.producer() if mask is not None else None
    if node is not None and node.op_type == "Where":
        return -math.inf in (number(node.inputs[1]), number(node.inputs[2]))
    content = constant(mask)
    return content is not None and bool(np.isneginf(content.numpy()).all(-1).any())


def _have_matching_shapes(shapes: list[Any]) -> bool:
    """Return whether batch and heads are known to be equal, and the sizes known."""
    if any(dims is None or len(dims) != 4 for dims in shapes):
        return False
    q, k, v = shapes
    sizes = all(isinstance(n, int) for n in (q[1], q[3], v[3]))
    return sizes and None not in k[:3] and q[:2] == k[:2] and k[:3] == v[:3] and q[3] == k[3]


def _mask_fits(mask: ir.Value, query: ir.Value, q: Any, k: Any) -> bool:
    """Return whether the added term has the lengths of queries and keys, which ONNX does not broadcast, and no other
    batch.
    """
    m = known_dims(mask)
    if m is None or len(m) not in (2, 4) or mask.dtype != query.dtype:
        return False
    outer = all(n in (1, whole) for n, whole in zip(m[:-2], q[:2], strict=False))
    return outer and None not in m and m[-2:] == (q[2], k[2])


_query, _key, _v, _turned, _seen, _unseen = map(Tensor, ("query", "key", "v", "turned", "seen", "unseen"))
_hidden, _axis = Number("hidden"), Attribute("axis")
_scores = Number("scale") * op("MatMul", _query, op("Transpose", _key, perm=Attribute("key_perm")))
_weights = tuple(
    softmax(masked, _axis)
    for masked in (
        _scores + Tensor("mask", optional=True),
        op("Where", _seen, _scores, _hidden),
        op("Where", _unseen, _hidden, _scores),
    )
)
_turned_value = op("Transpose", _turned, perm=Attribute("value_perm"))

ATTENTION = (
    *(Pattern(_attention, op("MatMul", weights, _v)) for weights in _weights),
    *(
        Pattern(
            _transposed_attention,
            op("MatMul", _turned_value, op("Transpose", weights, perm=Attribute("weights_perm"))),
        )
        for weights in _weights
    ),
)
