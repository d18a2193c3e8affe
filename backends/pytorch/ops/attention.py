"""Scaled dot product attention (ONNX Attention, opset 23 and later)."""

from __future__ import annotations

from typing import Any

import onnx_ir as ir
import torch
import torch.nn.functional as F

from convert.errors import Unsupported

from ..dtypes import torch_dtype
from ..rules import onnx_op

MINUS_INFINITY = float("-inf")


@onnx_op("Attention")
def attention(
    t, q, k, v, attn_mask, past_key, past_value, nonpad_kv_seqlen=None, *, is_causal, kv_num_heads, q_num_heads,
    qk_matmul_output_mode, scale, softcap, softmax_precision, left_window_size=-1, right_window_size=-1,
):  # fmt: skip
    flat = q.dim() == 3
    if flat:
        q, k, v = split_heads(q, q_num_heads), split_heads(k, kv_num_heads), split_heads(v, kv_num_heads)
    offset = 0
    if past_key is not None:
        offset = past_key.shape[2]
        k, v = torch.cat([past_key, k], 2), torch.cat([past_value, v], 2)
    elif nonpad_kv_seqlen is not None:
        offset = nonpad_kv_seqlen.reshape(-1, 1, 1, 1) - q.shape[2]
    present_key, present_value = k, v
    k, v = repeat_heads(k, q), repeat_heads(v, q)
    windows = left_window_size >= 0 or right_window_size >= 0
    bias = attention_bias(q, k, attn_mask, nonpad_kv_seqlen, offset, is_causal, left_window_size, right_window_size)
    plain = (
        q.dtype in (torch.float32, torch.float64)
        and t.outputs < 4
        and not softcap
        and nonpad_kv_seqlen is None
        and not windows
        and v.dtype == q.dtype
    )
    if plain and softmax_precision is None and (attn_mask is None or attn_mask.dtype != torch.bool):
        if past_key is None and attn_mask is None and is_causal:
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=scale)
        else:
            y = F.scaled_dot_product_attention(q, k, v, attn_mask=bias, scale=scale)
        return merged(y, flat), present_key, present_value
    scores = scaled_products(q, k, q.shape[-1] ** -0.5 if scale is None else scale)
    shown = scores
    if softcap:
        scores = torch.tanh(scores / softcap) * softcap
        shown = scores if qk_matmul_output_mode == 1 else shown
    nothing = None
    if bias is not None:
        shown = scores + bias if qk_matmul_output_mode == 2 else shown
        if attn_mask is not None or nonpad_kv_seqlen is not None or windows:
            # A query that may not attend to any key gives zeros. Avoid NaN as an intermediate, which would stay in
            # gradients.
            nothing = torch.amax(bias, -1, True) == MINUS_INFINITY
            bias = torch.where(nothing, torch.zeros_like(bias), bias)
        scores = scores + bias
    kind = scores.dtype if softmax_precision is None else torch_dtype(ir.DataType(softmax_precision))
    weights = torch.softmax(scores.to(kind), -1).to(scores.dtype)
    weights = weights if nothing is None else torch.where(nothing, torch.zeros_like(weights), weights)
    shown = weights if qk_matmul_output_mode == 3 else shown
    return merged(torch.matmul(weights, v.to(q.dtype)), flat), present_key, present_value, shown


def scaled_products(q: Any, k: Any, scale: Any) -> Any:
    """Return the products of queries and keys. In half precision both are scaled first, so that nothing overflows."""
    if q.dtype in (torch.float32, torch.float64):
        return torch.matmul(q * scale, k.mT)
    half = scale**0.5
    return torch.matmul(q * half, (k * half).mT)


def split_heads(x: Any, count: Any) -> Any:
    """Reshape [batch, sequence, heads · size] to [batch, heads, sequence, size]."""
    if count is None:
        raise Unsupported("Attention of rank 3 without the number of heads")
    n, s, width = x.shape
    return x.reshape(n, s, count, width // count).transpose(1, 2)


def merged(y: Any, flat: Any) -> Any:
    """Merge the heads again if the input had them merged."""
    if not flat:
        return y
    n, h, s, d = y.shape
    return y.transpose(1, 2).reshape(n, s, h * d)


def repeat_heads(x: Any, q: Any) -> Any:
    """Repeat keys or values so that each query head has its own."""
    own, wanted = x.shape[1], q.shape[1]
    if isinstance(own, int) and isinstance(wanted, int) and own == wanted:
        return x
    return torch.repeat_interleave(x, wanted // own, 1)


def attention_bias(q: Any, k: Any, mask: Any, lengths: Any, offset: Any, is_causal: Any, left: Any, right: Any) -> Any:
    """Return the mask plus −∞ wherever a query may not attend to a key; None if nothing is masked."""
    rows, columns = q.shape[2], k.shape[2]
    bias = None if mask is None else mask_to_bias(q, mask, columns, lengths is None)
    place = torch.arange(rows)[:, None] + offset
    key = torch.arange(columns)[None, :]
    conditions = []
    if is_causal:
        conditions.append(key <= place)
    if left >= 0:
        conditions.append(place - key <= left)
    if right >= 0:
        conditions.append(key - place <= right)
    if lengths is not None:
        conditions.append(key < lengths.reshape(-1, 1, 1, 1))
    for allowed in conditions:
        zero = torch.zeros((), dtype=q.dtype)
        added = torch.where(allowed, zero, torch.full((), MINUS_INFINITY, dtype=q.dtype))
        bias = added if bias is None else bias + added
    return bias


def mask_to_bias(q: Any, mask: Any, columns: Any, broadcasts: bool) -> Any:
    """Return a mask as numbers to add; keys beyond the end of a shorter mask are masked.

    broadcasts: a mask for a single key applies to all keys, as in Attention-23.
    """
    if mask.dtype == torch.bool:
        zero = torch.zeros((), dtype=q.dtype)
        mask = torch.where(mask, zero, torch.full((), MINUS_INFINITY, dtype=q.dtype))
    own = mask.shape[-1]
    mask = mask.to(q.dtype)
    if not (isinstance(own, int) and isinstance(columns, int)) or own == columns or (own == 1 and broadcasts):
        return mask
    return F.pad(mask, [0, columns - own], value=MINUS_INFINITY)


@onnx_op("ai.onnx.preview::FlexAttention")
def flex_attention(t, q, k, v, *, prob_mod, scale, score_mod, softmax_precision):
    wide = torch.float64 if q.dtype == torch.float64 else torch.float32
    wide = wide if softmax_precision is None else torch_dtype(ir.DataType(softmax_precision))
    scores = scaled_products(q, repeat_heads(k, q), q.shape[-1] ** -0.5 if scale is None else scale).to(wide)
    scores = scores if score_mod is None else t.tensor(score_mod(scores)[0])
    weights = torch.softmax(scores, -1)
    weights = weights if prob_mod is None else t.tensor(prob_mod(weights)[0])
    return torch.matmul(weights.to(q.dtype), repeat_heads(v, q))
