"""Scaled dot-product attention."""

from __future__ import annotations

import onnx_ir as ir

from convert.errors import Unsupported
from convert.graph import Graph

from ..rules import aten
from ..sizes import reshape, size

_DROPOUT = aten.limit(
    "scaled_dot_product_attention", "dropout_p draws random numbers even in eval mode; pass 0 unless self.training"
)
_MASK = aten.limit("scaled_dot_product_attention of rank 5", "a mask of rank 3 or more that is shared by leading dims")


@aten("scaled_dot_product_attention")
def scaled_dot_product_attention(
    g, query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, *, scale=None, enable_gqa=False
):
    """One Attention node over [batch, heads, length, features]; fewer or more leading dims are reshaped."""
    if dropout_p:
        raise Unsupported(_DROPOUT)
    rank = g.rank(query)
    if attn_mask is not None and rank > 4 and g.rank(attn_mask) > 2:
        raise Unsupported(_MASK)
    q, k, v = (_heads(g, x) for x in (query, key, value))
    mask = attn_mask
    if mask is not None and rank == 3 and g.rank(mask) == 3:
        mask = g.Unsqueeze(mask, [1])
    out = g.Attention(q, k, v, mask, is_causal=int(is_causal) or None, scale=scale)
    if rank == 4:
        return out
    lead = [size(g, query, d) for d in range(rank - 2)]
    return reshape(g, out, [*lead, size(g, query, -2), size(g, value, -1)])


def _heads(g: Graph, x: ir.Value) -> ir.Value:
    """[length, features] gets batch and heads, [batch, length, features] one head, more leading dims become one."""
    rank = g.rank(x)
    if rank == 4:
        return x
    if rank < 4:
        return g.Unsqueeze(x, [1] if rank == 3 else [0, 1])
    return reshape(g, x, [-1, *(size(g, x, d) for d in (-3, -2, -1))])
