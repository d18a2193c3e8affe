"""Matrix products and attention."""

from __future__ import annotations

import numpy as np
from keras import KerasTensor, layers, ops

from convert.errors import Unsupported

from ..constants import Constant
from ..rules import DENSE, onnx
from ..tensors import plus


@onnx(DENSE)
def dense(k, x, w, b):
    return k.layer(layers.Dense, x, {"kernel": w, "bias": b}, units=w.shape[1], use_bias=b is not None)


@onnx("Gemm")
def gemm(k, a, b, c, *, alpha, beta, transA, transB):
    bias = c if isinstance(c, Constant) and (c.size == 1 or c.size == c.shape[-1]) else None
    if isinstance(a, KerasTensor) and isinstance(b, Constant) and (c is None or bias is not None) and not transA:
        w = b.permuted(1, 0) if transB else b
        w = w if alpha == 1 else w.map(w.shape, lambda array: (array * alpha).astype(array.dtype))
        if bias is not None:
            units = w.shape[1]
            bias = bias.map(
                (units,), lambda array: np.broadcast_to((array * beta).astype(array.dtype).ravel(), (units,))
            )
        return dense(k, a, w, bias)
    a, b, c = k.tensors(a, b, c)
    y = ops.matmul(ops.transpose(a, (1, 0)) if transA else a, ops.transpose(b, (1, 0)) if transB else b)
    y = y if alpha == 1 else alpha * y
    return y if c is None else plus(y, c if beta == 1 else beta * c)


@onnx("MatMul")
def matmul(k, a, b):
    matrix = isinstance(b, Constant) and len(b.shape) == 2 and b.dtype.startswith(("float", "bfloat"))
    if matrix and isinstance(a, KerasTensor) and len(a.shape) > 1:
        return dense(k, a, b, None)
    return ops.matmul(*k.tensors(a, b))


@onnx("MatMulInteger")
def matmul_integer(k, a, b, a_zero, b_zero):
    a, b = (ops.cast(x, "int32") for x in k.tensors(a, b))
    if a_zero is not None:
        zero = ops.cast(k.tensor(a_zero), "int32")
        a = a - (ops.expand_dims(zero, -1) if len(a_zero.shape) == 1 and a_zero.shape[0] > 1 else zero)
    if b_zero is not None:
        b = b - ops.cast(k.tensor(b_zero), "int32")
    return ops.matmul(a, b)


@onnx("Einsum")
def einsum(k, *values, equation):
    return ops.einsum(equation.replace(" ", ""), *k.tensors(*values))


@onnx("Attention")
def attention(
    k, query, key, value, mask, past_key, past_value, nonpad=None,
    *, is_causal, kv_num_heads, q_num_heads, qk_matmul_output_mode, scale, softcap, softmax_precision,
):  # fmt: skip
    if nonpad is not None or k.outputs > 3:
        raise Unsupported("attention that is told where its cache ends, or that gives its scores")
    query, key, value, mask = k.tensors(query, key, value, mask)
    flat = len(query.shape) == 3
    if flat:
        query, key, value = _heads(query, q_num_heads), _heads(key, kv_num_heads), _heads(value, kv_num_heads)
    if past_key is not None and past_value is not None:
        key, value = (ops.concatenate(k.tensors(*pair), axis=2) for pair in ((past_key, key), (past_value, value)))
    seen = past_key.shape[2] if past_key is not None else 0
    if is_causal:
        mask = _causal(query.shape[2], key.shape[2], seen, mask)
    y = _attended(query, key, value, mask, scale, softcap)
    if flat:
        y = ops.transpose(y, (0, 2, 1, 3))
        y = k.layer(layers.Reshape, y, target_shape=(-1, y.shape[2] * y.shape[3]))
    return (y, key, value) if k.outputs > 1 else y


def _attended(query, key, value, mask, scale, softcap):
    """[batch, heads, steps, size], with as many heads of keys and values or a fraction of them."""
    size = query.shape[-1]
    if size is None or query.shape[1] is None or key.shape[1] is None:
        raise Unsupported("heads whose number or size only the run tells")
    dtype = query.dtype
    if dtype in ("float16", "bfloat16"):  # too little for the sums
        y = _attended(*(ops.cast(x, "float32") for x in (query, key, value)), _wide(mask), scale, softcap)
        return ops.cast(y, dtype)
    if query.shape[1] != key.shape[1]:
        times = query.shape[1] // key.shape[1]
        key, value = ops.repeat(key, times, axis=1), ops.repeat(value, times, axis=1)
    # Half of the scale on either side, as the standard has it.
    factor = (scale if scale is not None else size**-0.5) ** 0.5
    scores = ops.matmul(query * factor, ops.transpose(key, (0, 1, 3, 2)) * factor)
    if softcap:
        scores = ops.tanh(scores / softcap) * softcap
    if mask is None:
        return ops.matmul(ops.softmax(scores, axis=-1), value)
    masked = _masked(scores, mask)
    # A query that may attend to nothing gives zeros, and no NaN on the way, which would stay in gradients.
    nothing = ops.equal(ops.max(masked, axis=-1, keepdims=True), -np.inf)
    weights = ops.softmax(ops.where(nothing, 0.0, masked), axis=-1)
    return ops.matmul(ops.where(nothing, 0.0, weights), value)


def _wide(mask):
    return mask if mask is None or str(mask.dtype) == "bool" else ops.cast(mask, "float32")


def _heads(x, count):
    """[batch, steps, heads · size] to [batch, heads, steps, size]."""
    if not count or x.shape[-1] is None:
        raise Unsupported("heads whose number or size only the run tells")
    split = layers.Reshape((-1, count, x.shape[-1] // count), dtype=x.dtype)(x)
    return ops.transpose(split, (0, 2, 1, 3))


def _causal(queries, keys, seen, mask):
    """The mask under which a step sees those before it, joined with the one that was given."""
    if queries is None or keys is None or seen is None:
        raise Unsupported("causal attention over steps whose number only the run tells")
    own = np.tri(queries, keys, seen, dtype=bool)
    if mask is None:
        return own
    return ops.logical_and(mask, own) if str(mask.dtype) == "bool" else ops.where(own, mask, -np.inf)


def _masked(scores, mask):
    return ops.where(mask, scores, -np.inf) if str(mask.dtype) == "bool" else plus(scores, mask)
