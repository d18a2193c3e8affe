"""Scaled dot product attention (ONNX Attention, opset 23 and later)."""

from __future__ import annotations

from typing import Any

import onnx_ir as ir
import torch
import torch.nn.functional as F

from convert.errors import Unsupported

from ..dtypes import torch_dtype
from ..rules import onnx_op

_EXACT = (ir.DataType.FLOAT, ir.DataType.DOUBLE)


def is_plain(node: ir.Node) -> bool:
    """Return whether PyTorch's own function computes a node: no mask of booleans, no windows, no scores returned."""
    q, k, v, mask, past, _, lengths = [*node.inputs, *[None] * 6][:7]
    found = node.attributes
    others = (name for name in ("softcap", "softmax_precision") if name in found and found[name].value)
    windows = (found.get_int(f"{side}_window_size", -1) for side in ("left", "right"))
    if q is None or k is None or v is None or lengths is not None or any(others) or max(windows) >= 0:
        return False
    if q.dtype not in _EXACT or v.dtype != q.dtype or (len(node.outputs) > 3 and node.outputs[3].name):
        return False
    if mask is None:
        return True
    keys = [x.shape[-2] for x in (k, past) if x is not None and x.shape is not None]
    own, known = mask.shape[-1] if mask.shape is not None else None, [n for n in keys if isinstance(n, int)]
    shorter = isinstance(own, int) and len(known) == len(keys) and own < sum(known)
    return mask.dtype != ir.DataType.BOOL and (own == 1 or not shorter)


@onnx_op("Attention", when=is_plain)
def attention(
    t, q, k, v, attn_mask, past_key, past_value, nonpad_kv_seqlen=None, *, is_causal, kv_num_heads, q_num_heads,
    qk_matmul_output_mode, scale, softcap, softmax_precision, left_window_size=-1, right_window_size=-1,
):  # fmt: skip
    flat, offset = q.dim() == 3, 0
    if flat:
        q, k, v = split_heads(q, q_num_heads), split_heads(k, kv_num_heads), split_heads(v, kv_num_heads)
    if past_key is not None:
        offset = past_key.shape[2]
        k, v = torch.cat([past_key, k], 2), torch.cat([past_value, v], 2)
    present = k, v
    k, v = repeat_heads(k, q), repeat_heads(v, q)
    bias = None if attn_mask is None else attn_mask.to(q.dtype)
    causal = bool(is_causal) and past_key is None and bias is None
    if is_causal and not causal:
        hidden = torch.arange(k.shape[2])[None, :] > torch.arange(q.shape[2])[:, None] + offset
        later = torch.where(hidden, torch.full((), float("-inf"), dtype=q.dtype), torch.zeros((), dtype=q.dtype))
        bias = later if bias is None else bias + later
    y = F.scaled_dot_product_attention(q, k, v, attn_mask=bias, is_causal=causal, scale=scale)
    return merged(y, flat), *present


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


@onnx_op("ai.onnx.preview::FlexAttention")
def flex_attention(t, q, k, v, *, prob_mod, scale, score_mod, softmax_precision):
    wide = torch.float64 if q.dtype == torch.float64 else torch.float32
    wide = wide if softmax_precision is None else torch_dtype(ir.DataType(softmax_precision))
    scores = scaled_products(q, repeat_heads(k, q), q.shape[-1] ** -0.5 if scale is None else scale).to(wide)
    scores = scores if score_mod is None else t.tensor(score_mod(scores)[0])
    weights = torch.softmax(scores, -1)
    weights = weights if prob_mod is None else t.tensor(prob_mod(weights)[0])
    return torch.matmul(weights.to(q.dtype), repeat_heads(v, q))
