"""Scaled dot-product attention that TensorFlow writes as two products around a softmax, recognized at the second."""

from __future__ import annotations

import math

import numpy as np
import onnx_ir as ir

from convert.graph import Graph

from ..common.dims import are_equal_dims
from .matching import inputs_of, operand_pairs, perm_of, scalar_content, single_value

# Beyond this a number that hides a score swallows whatever the score was, in float64 too: adding it is replacing by it.
_HIDDEN = -1e30


def attention(g: Graph, weights: ir.Value, value: ir.Value) -> ir.Value | None:
    """softmax(scale·Q·Kᵀ + mask)·V as one Attention, or None where `weights`·`value` is something else.

    All are [batch, heads, length, size], of the same batch and heads. The attribute that ONNX has for the scale is
    float32: another number than that, or than 1 / √size, is not recognized.
    """
    scores = single_value(inputs_of(weights, "Softmax"))
    maker = weights.producer()
    if scores is None or maker is None or maker.attributes.get_int("axis", -1) not in (-1, 3):
        return None
    for inner, mask in _split_mask(g, scores):
        for product, scale in _split_scale(inner):
            operands = inputs_of(product, "MatMul")
            turned = perm_of(operands[1]) if operands else None
            if turned is None or len(turned[1]) != 4:
                continue
            query, key = operands[0], _untransposed_keys(g, *turned)
            if not _has_matching_shapes(g, query, key, value) or (
                mask is not None and not _mask_fits(g, mask, query, key)
            ):
                continue
            ready, attribute = _scale_attribute(scale, g.shape(query)[3])
            if ready:
                return g.Attention(query, key, value, mask, scale=attribute)
    return None


def drop_true_mask(g: Graph, condition: ir.Value, x: ir.Value) -> ir.Value:
    """A condition on `x` without the `True` of its shape that Keras starts a mask from."""
    both = inputs_of(condition, "And")
    for mask, ones in operand_pairs(condition, "And"):
        if _is_true(ones, x):
            return drop_true_mask(g, mask, x)
    kept = [drop_true_mask(g, part, x) for part in both]
    return g.And(*kept) if any(k is not part for k, part in zip(kept, both, strict=True)) else condition


def _is_true(value: ir.Value, x: ir.Value) -> bool:
    """Whether `value` is `True` everywhere, in the shape of `x`."""
    filled = inputs_of(value, "Expand")
    true = filled[0].const_value if filled else None
    if true is None or true.size != 1 or true.dtype != ir.DataType.BOOL or not bool(true.numpy().item()):
        return False
    dims = list(value.shape) if value.shape is not None else [None]
    return None not in dims and x.shape is not None and dims == list(x.shape)


def _split_mask(g: Graph, scores: ir.Value) -> list[tuple[ir.Value, ir.Value | None]]:
    """Scores without their mask, and the mask as something to be added, in every reading."""
    found: list[tuple[ir.Value, ir.Value | None]] = [(scores, None)]
    found += operand_pairs(scores, "Add")
    chosen = inputs_of(scores, "Where")
    hidden = scalar_content(chosen[2]) if chosen else None
    if hidden is not None and hidden <= _HIDDEN:
        condition, inner = chosen[0], chosen[1]
        seen = g.const(np.zeros(()), inner.dtype)
        found.append((inner, g.Where(condition, seen, chosen[2])))
    return found


def _split_scale(scores: ir.Value) -> list[tuple[ir.Value, float]]:
    """A product and the number that it is multiplied by, in every reading."""
    found = [(x, n) for x, y in operand_pairs(scores, "Mul") if (n := scalar_content(y)) is not None]
    quotient = inputs_of(scores, "Div")
    if quotient:
        root = scalar_content(single_value(inputs_of(quotient[1], "Sqrt")))
        below = scalar_content(quotient[1]) if root is None else math.sqrt(max(root, 0.0))
        found += [(quotient[0], 1 / below)] if below else []
    return [*found, (scores, 1.0)]


def _untransposed_keys(g: Graph, source: ir.Value, perm: list[int]) -> ir.Value:
    """K for its transpose, which is `source` by `perm`."""
    perm = [perm[0], perm[1], perm[3], perm[2]]
    return source if perm == [0, 1, 2, 3] else g.Transpose(source, perm=perm)


def _has_matching_shapes(g: Graph, query: ir.Value, key: ir.Value, value: ir.Value) -> bool:
    """Whether batch and heads are known to be equal, and the sizes known."""
    if any(x.shape is None or len(x.shape) != 4 for x in (query, key, value)):
        return False
    q, k, v = (g.shape(x) for x in (query, key, value))
    sizes = all(isinstance(n, int) for n in (q[1], q[3], v[3]))
    same = are_equal_dims(g, q[:2], k[:2]) and are_equal_dims(g, k[:3], v[:3])
    return sizes and same and q[3] == k[3]


def _mask_fits(g: Graph, mask: ir.Value, query: ir.Value, key: ir.Value) -> bool:
    """Whether what is added has the lengths of queries and keys, which ONNX does not broadcast, and no batch beside."""
    if mask.shape is None or len(mask.shape) not in (2, 4) or mask.dtype != query.dtype:
        return False
    q, k, m = g.shape(query), g.shape(key), g.shape(mask)
    outer = all(n in (1, whole) for n, whole in zip(m[:-2], q[:2], strict=False))
    return outer and None not in m and m[-2:] == (q[2], k[2])


def _scale_attribute(scale: float, size: object) -> tuple[bool, float | None]:
    """Whether Attention can multiply by exactly this number, and the attribute that says so."""
    assert isinstance(size, int)
    if abs(scale * math.sqrt(size) - 1) < 1e-15:
        return True, None
    return float(np.float32(scale)) == scale, scale
