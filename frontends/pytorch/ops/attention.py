"""Scaled dot-product attention, and the fused kernels of PyTorch's attention layers without gradients.

The fused kernels are traced under `torch.no_grad()`. Unlike scaled_dot_product_attention, which returns 0, they return
NaN for a query that may not attend to any key.
"""

from __future__ import annotations

import math

import onnx_ir as ir
import torch

from convert.errors import Unsupported
from convert.graph import Graph

from ..common.sizes import broadcast_to_rank, reshape, size, vector
from ..common.values import cast
from ..rules import torch_op
from .nn import layer_norm, linear

# -- scaled dot-product attention -------------------------------------------------------------------------------------


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


# -- the fused kernels of attention layers ----------------------------------------------------------------------------


@torch_op("_native_multi_head_attention")
def native_multi_head_attention(
    g, query, key, value, embed_dim, num_head, qkv_weight, qkv_bias, proj_weight, proj_bias, mask=None,
    need_weights=True, average_attn_weights=True, mask_type=None,
):  # fmt: skip
    """Multi-head attention of [batch, length, features] each.

    mask: type 0 is [length, keys], 1 is [batch, keys], 2 is [batch, heads, length, keys]; non-zero entries are masked,
    whatever the dtype.
    """
    weights, biases = (g.Split(x, axis=0, num_outputs=3, outputs=3) for x in (qkv_weight, qkv_bias))
    q, k, v = (
        _split_heads(g, linear(g, *given), num_head, embed_dim)
        for given in zip((query, key, value), weights, biases, strict=True)
    )
    if mask is None and not need_weights:
        heads, scores = g.Attention(q, k, v), None
    else:
        scale = g.const(1 / math.sqrt(embed_dim / num_head), g.dtype(q))
        scores = g.MatMul(g.Mul(q, scale), g.Transpose(k, perm=[0, 1, 3, 2]))
        if mask is not None:
            scores = g.Where(_mask_of_scores(g, mask, mask_type), g.const(-math.inf, g.dtype(q)), scores)
        scores = g.Softmax(scores, axis=-1)
        heads = g.MatMul(scores, v)
    joined = reshape(g, g.Transpose(heads, perm=[0, 2, 1, 3]), [size(g, query, 0), size(g, query, 1), embed_dim])
    out = linear(g, joined, proj_weight, proj_bias)
    if scores is not None and average_attn_weights:
        scores = g.ReduceMean(scores, [1], keepdims=0)
    return [out, scores if need_weights else None]


def _split_heads(g: Graph, x: ir.Value, heads: int, features: int) -> ir.Value:
    split = reshape(g, x, [size(g, x, 0), size(g, x, 1), heads, features // heads])
    return g.Transpose(split, perm=[0, 2, 1, 3])


def _mask_of_scores(g: Graph, mask: ir.Value, mask_type: int | None) -> ir.Value:
    if mask_type not in (0, 1, 2):
        raise Unsupported(f"a mask of type {mask_type}, where PyTorch knows 0, 1 and 2")
    mask = cast(g, mask, torch.bool)
    return g.Unsqueeze(mask, [1, 2]) if mask_type == 1 else mask


@torch_op("_transformer_encoder_layer_fwd")
def transformer_encoder_layer_fwd(
    g, src, embed_dim, num_heads, qkv_weight, qkv_bias, proj_weight, proj_bias, use_gelu, norm_first, eps,
    norm_weight_1, norm_bias_1, norm_weight_2, norm_bias_2, ffn_weight_1, ffn_bias_1, ffn_weight_2, ffn_bias_2,
    mask=None, mask_type=None,
):  # fmt: skip
    def attend(x: ir.Value) -> ir.Value:
        return native_multi_head_attention(
            g, x, x, x, embed_dim, num_heads, qkv_weight, qkv_bias, proj_weight, proj_bias, mask, False, True, mask_type
        )[0]

    def feed_forward(x: ir.Value) -> ir.Value:
        inner = linear(g, x, ffn_weight_1, ffn_bias_1)
        return linear(g, g.Gelu(inner) if use_gelu else g.Relu(inner), ffn_weight_2, ffn_bias_2)

    norms = (norm_weight_1, norm_bias_1), (norm_weight_2, norm_bias_2)
    x = src
    for part, norm in zip((attend, feed_forward), norms, strict=True):
        if norm_first:
            x = g.Add(part(layer_norm(g, x, [embed_dim], *norm, eps)), x)
        else:
            x = layer_norm(g, g.Add(part(x), x), [embed_dim], *norm, eps)
    return x
