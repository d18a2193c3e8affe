"""Scaled dot-product attention."""

from __future__ import annotations

import onnx_ir as ir

from convert.errors import Unsupported
from convert.graph import Graph

from ..common.sizes import broadcast_to_rank, reshape, size, vector
from ..rules import torch_op

_DROPOUT = torch_op.limit(
    "scaled_dot_product_attention", "dropout_p draws random numbers even in eval mode; pass 0 unless self.training"
)
_MASK = torch_op.limit(
    "scaled_dot_product_attention of rank 5", "a mask of rank 3 or more that is shared by leading dims"
)


@torch_op("scaled_dot_product_attention")
def scaled_dot_product_attention(
    g, query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, *, scale=None, enable_gqa=False
):
    """Emit one Attention node over [batch, heads, length, features]; operands of other ranks are reshaped."""
    if dropout_p:
        raise Unsupported(_DROPOUT)
    query, key, value = _broadcast_leading_dims(g, query, key, value, enable_gqa)
    rank = g.rank(query)
    if attn_mask is not None and rank > 4 and g.rank(attn_mask) > 2:
        raise Unsupported(_MASK)
    q, k, v = (_reshape_to_heads(g, x) for x in (query, key, value))
    mask = attn_mask
    if mask is not None and rank == 3 and g.rank(mask) == 3:
        mask = g.Unsqueeze(mask, [1])
    if mask is not None and g.rank(mask) and g.shape(mask)[-1] == 1 and g.shape(k)[-2] != 1:
        # A mask with one key for all keys: ONNX's Attention-24 would hide all keys but the first, and onnxruntime
        # rejects it.
        mask = g.Expand(mask, vector(g, [*[1] * (g.rank(mask) - 1), size(g, k, -2)]))
    out = g.Attention(q, k, v, mask, is_causal=int(is_causal) or None, scale=scale)
    if rank == 4:
        return out
    lead = [size(g, query, d) for d in range(rank - 2)]
    return reshape(g, out, [*lead, size(g, query, -2), size(g, value, -1)])


def _broadcast_leading_dims(g: Graph, query: ir.Value, key: ir.Value, value: ir.Value, gqa: bool) -> list[ir.Value]:
    """Return the three with equal leading dims; with `gqa`, key and value may have fewer heads (dim -3)."""
    given = [query, key, value]
    rank = max(map(g.rank, given))
    kept = 3 if gqa else 2
    leads = {g.shape(x)[: g.rank(x) - kept] for x in given}
    if len(leads) == 1 and None not in (lead := leads.pop()) and all(g.rank(x) == rank for x in given):
        return given
    given = [broadcast_to_rank(g, x, rank) for x in given]
    if any(None in g.shape(x)[:-kept] for x in given):
        return given
    # For each leading dim, the first size that is not 1; the other operands have the same size, or 1 and broadcast.
    owners = [next((x for x in given if g.shape(x)[d] != 1), given[0]) for d in range(rank - kept)]
    lead = tuple(g.shape(x)[d] for d, x in enumerate(owners))
    sizes = [size(g, x, d) for d, x in enumerate(owners)]
    return [x if g.shape(x)[:-kept] == lead else g.Expand(x, vector(g, [*sizes, *[1] * kept])) for x in given]


def _reshape_to_heads(g: Graph, x: ir.Value) -> ir.Value:
    """Return x as [batch, heads, length, features]: missing dims are added, and further leading dims merged."""
    rank = g.rank(x)
    if rank == 4:
        return x
    if rank < 4:
        return g.Unsqueeze(x, [1] if rank == 3 else [0, 1])
    return reshape(g, x, [-1, *(size(g, x, d) for d in (-3, -2, -1))])
