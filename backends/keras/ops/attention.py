"""Attention: a layer if it includes the projections, else operations. Masks, caches and scores are written out."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
from keras import KerasTensor, layers, ops

from convert.graph.values import is_used, known_dims

from ..emitter import Emitter
from ..rules import HEADS, onnx_op


@onnx_op(HEADS)
def multi_head_attention(
    k, query, key, value, q_kernel, q_bias, k_kernel, k_bias, v_kernel, v_bias, o_kernel, o_bias, *, is_causal
):
    kernels = {"_query_dense": q_kernel, "_key_dense": k_kernel, "_value_dense": v_kernel, "_output_dense": o_kernel}
    biases = {"_query_dense": q_bias, "_key_dense": k_bias, "_value_dense": v_bias, "_output_dense": o_bias}
    weights = {f"{part}.kernel": w for part, w in kernels.items()} | {f"{part}.bias": w for part, w in biases.items()}
    _, heads, size = q_kernel.shape
    config = {} if o_kernel.shape[2] == query.shape[-1] else {"output_shape": o_kernel.shape[2]}
    call = {"value": value} if key is value else {"value": value, "key": key}
    return k.layer(
        layers.MultiHeadAttention, query, weights, {**call, "use_causal_mask": True} if is_causal else call,
        num_heads=heads, key_dim=size, value_dim=v_kernel.shape[2], use_bias=q_bias is not None, **config,
    )  # fmt: skip


def is_plain(node: ir.Node) -> bool:
    """Return whether a node has no mask, cache, window, cap or scores, in a dtype in which Keras computes as ONNX does.

    The passes make layers of such nodes and their projections.
    """
    query, key, value, *others = node.inputs
    a, dims = node.attributes, [known_dims(x) if x is not None else None for x in (query, key, value)]
    if query is None or query.dtype not in (ir.DataType.FLOAT, ir.DataType.DOUBLE) or None in dims:
        return False
    if any(x is not None for x in others) or any(map(is_used, node.outputs[1:])) or a.get_float("softcap", 0.0) != 0:
        return False
    if a.get_int("softmax_precision", 0) not in (0, query.dtype):
        return False
    if max(a.get_int(f"{side}_window_size", -1) for side in ("left", "right")) >= 0:
        return False
    heads = [a.get_int(name, 0) for name in ("q_num_heads", "kv_num_heads")]
    sizes = [(d[-1], 1 if len(d) == 3 else d[1]) for d in dims if d is not None]
    return all(isinstance(n, int) for pair in sizes for n in pair) and (len(dims[0] or ()) == 4 or all(heads))


@onnx_op("Attention", when=is_plain)
def attention(
    k, query, key, value, mask, past_key, past_value, nonpad=None,
    *, is_causal, kv_num_heads, q_num_heads, qk_matmul_output_mode, scale, softcap, softmax_precision,
    left_window_size=-1, right_window_size=-1,
):  # fmt: skip
    steps = [k.sizes_of(i, x)[-2] for i, x in enumerate((query, key))]
    query, key, value = k.tensors(query, key, value)
    flat = len(query.shape) == 3
    if flat:
        heads = (q_num_heads, kv_num_heads, kv_num_heads)
        query, key, value = (_split_heads(x, n) for x, n in zip((query, key, value), heads, strict=True))
        if value.shape[-1] == query.shape[-1]:  # for other sizes Keras infers a wrong shape
            return _packed_attention(query, key, value, scale, bool(is_causal))
        query, key, value = (ops.transpose(x, (0, 2, 1, 3)) for x in (query, key, value))
    y = _attend(k, query, key, value, scale, steps if is_causal else None)
    if flat:
        y = ops.transpose(y, (0, 2, 1, 3))
        y = k.layer(layers.Reshape, y, target_shape=(-1, y.shape[2] * y.shape[3]))
    return y


def _packed_attention(
    query: KerasTensor, key: KerasTensor, value: KerasTensor, scale: float | None, causal: bool
) -> KerasTensor:
    """Return attention of [batch, steps, heads, size] by Keras's operation, with the heads joined."""
    heads, size = query.shape[2:]
    if key.shape[2] != heads:
        key, value = (ops.repeat(x, heads // key.shape[2], axis=2) for x in (key, value))
    factor = size**-0.5 if scale is None else scale
    y = ops.dot_product_attention(query, key, value, scale=factor, is_causal=causal)
    return layers.Reshape((-1, heads * size), dtype=y.dtype)(y)


def _attend(
    k: Emitter,
    query: KerasTensor,
    key: KerasTensor,
    value: KerasTensor,
    scale: float | None,
    steps: list[int | str] | None,
) -> KerasTensor:
    """Return attention of [batch, heads, steps, size]; there may be fewer heads of keys and values.

    steps: the numbers of queries and keys if no query may attend to a later key, else None.
    """
    if query.shape[1] != key.shape[1]:
        times = query.shape[1] // key.shape[1]
        key, value = ops.repeat(key, times, axis=1), ops.repeat(value, times, axis=1)
    # Each operand gets the root of the scale, as in the standard.
    factor = (scale if scale is not None else query.shape[-1] ** -0.5) ** 0.5
    scores = ops.matmul(query * factor, ops.transpose(key, (0, 1, 3, 2)) * factor)
    if steps is not None:
        rows, columns = (k.places(n, "int32") for n in steps)
        scores = ops.where(ops.less_equal(ops.expand_dims(columns, 0), ops.expand_dims(rows, 1)), scores, -np.inf)
    return ops.matmul(ops.softmax(scores, axis=-1), value)


def _split_heads(x: KerasTensor, count: int) -> KerasTensor:
    """Reshape [batch, steps, heads · size] to [batch, steps, heads, size]."""
    return layers.Reshape((-1, count, x.shape[-1] // count), dtype=x.dtype)(x)
