"""Patterns of normalizations, means and softmax."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx_ir as ir

from convert.graph import Graph
from convert.graph.metadata import CANCELLING_KEY
from convert.graph.tensors import lazy_tensor
from convert.graph.values import constant, constant_integers, inverse_permutation, known_dims
from convert.patterns.expressions import (
    Attribute,
    Expression,
    Number,
    Repeated,
    Tensor,
    mean,
    op,
    quick_variance,
    sqrt,
    variance,
    written_softmax,
)
from convert.patterns.find import Build, Pattern
from convert.patterns.matcher import is_close

_x, _mean_, _variance, _shape, _target = (Tensor(name) for name in ("x", "mean", "variance", "shape", "target"))
_gamma, _beta = Tensor("gamma", optional=True), Tensor("beta", optional=True)
_axes, _epsilon = Attribute("axes"), Number("epsilon")


def _centered(x: Expression, mean: Expression, variance: Expression) -> Expression:
    return (x - mean) * _gamma / sqrt(variance + _epsilon) + _beta


def _expanded(x: Expression, mean: Expression, variance: Expression) -> Expression:
    """Return x·scale + beta − mean·scale, as TensorFlow computes a normalization."""
    scale = _gamma / sqrt(variance + _epsilon)
    return x * scale + _beta - mean * scale


def _reshaped(g: Graph, value: ir.Value | None, shape: Sequence[int], missing: float = 1.0, like: Any = None) -> Any:
    """Return a parameter in this shape; all elements are `missing` if it is absent."""
    shape = [int(n) for n in shape]
    tensor = constant(value)
    if value is None:
        return g.const(np.full(shape, missing), like.dtype)
    if known_dims(value) == tuple(shape):
        return value
    if tensor is None:
        return g.Reshape(value, np.array(shape, np.int64))
    return g.initializer(value.name or "const", lazy_tensor(tensor.dtype, shape, lambda: tensor.numpy().reshape(shape)))


def _cancelling(build: Build) -> Build:
    """Return `build`, which also marks the layer as one whose variance the program computes as E[x²] − E[x]²."""

    def marked(g: Graph, found: Any) -> ir.Value | None:
        made = build(g, found)
        for node in g.graph if made is not None else ():
            if node.op_type.endswith("Normalization"):
                node.metadata_props[CANCELLING_KEY] = "E[x²] − E[x]²"
        return made

    return marked


# -- over the last dims -----------------------------------------------------------------------------------------------


def _last_dims(found: Any) -> list[int] | None:
    """Return the sizes of the normalized dims: the last ones, known, and each element with its own gamma and beta."""
    dims = known_dims(found.x) or ()
    first = len(dims) - len(found.axes)
    sizes = [n for n in dims[first:] if isinstance(n, int)]
    if not sizes or len(sizes) != len(found.axes) or found.axes != tuple(range(first, len(dims))):
        return None
    given = (v for v in (found.gamma, found.beta) if v is not None)
    return sizes if all(_covers(v, sizes, len(dims)) for v in given) else None


def _covers(value: ir.Value, sizes: Sequence[int], rank: int) -> bool:
    """Return whether a parameter has exactly one element for each position in the last dims."""
    dims = known_dims(value)
    if dims is None or len(dims) > rank:
        return False
    return _without_leading_ones(dims) == _without_leading_ones(sizes)


def _without_leading_ones(dims: Sequence[Any]) -> list[Any]:
    first = next((i for i, d in enumerate(dims) if d != 1), len(dims))
    return list(dims[first:])


def _layer_norm(g: Graph, found: Any) -> ir.Value | None:
    sizes = _last_dims(found)
    if sizes is None:
        return None
    beta = None if found.beta is None else _reshaped(g, found.beta, sizes)
    gamma = _reshaped(g, found.gamma, sizes, 1.0, found.x)
    return g.LayerNormalization(found.x, gamma, beta, axis=-len(sizes), epsilon=found.epsilon)


def _rms_norm(g: Graph, found: Any) -> ir.Value | None:
    sizes = _last_dims(found)
    if sizes is None:
        return None
    gamma = _reshaped(g, found.gamma, sizes, 1.0, found.x)
    return g.RMSNormalization(found.x, gamma, axis=-len(sizes), epsilon=found.epsilon)


# -- by channel -------------------------------------------------------------------------------------------------------


def _batch_norm(g: Graph, found: Any) -> ir.Value | None:
    """Return BatchNormalization, with the channels where ONNX has them."""
    dims = known_dims(found.x) or ()
    rank = len(dims)
    if not all(_is_given(v) for v in (found.mean, found.variance)):
        return None
    parts = (found.gamma, found.beta, found.mean, found.variance)
    axes = (a for a in reversed(range(1, rank)) if all(v is None or _is_along(v, a - rank, dims[a]) for v in parts))
    axis = next(axes, None)
    if axis is None:
        return None
    order = [0, axis, *(a for a in range(1, rank) if a != axis)]
    moved = found.x if axis == 1 else g.Transpose(found.x, perm=order)
    missing = (1.0, 0.0, 0.0, 1.0)
    vectors = [_reshaped(g, v, [dims[axis]], m, found.x) for v, m in zip(parts, missing, strict=True)]  # type: ignore
    made = g.BatchNormalization(moved, *vectors, epsilon=found.epsilon)
    return made if axis == 1 else g.Transpose(made, perm=list(inverse_permutation(order)))


def _is_given(value: ir.Value) -> bool:
    """Return whether a statistic is a weight or an input, perhaps reshaped, and not computed from data."""
    node = value.producer()
    while node is not None and node.op_type in ("Reshape", "Unsqueeze", "Cast", "Constant") and node.inputs:
        node = node.inputs[0].producer() if node.inputs[0] is not None else None
    return node is None or node.op_type == "Constant"


def _is_along(value: ir.Value, axis: int, size: object) -> bool:
    """Return whether a parameter has one number for each place of an axis, counted from the end, and no others."""
    dims = known_dims(value)
    if dims is None or len(dims) < -axis or not isinstance(size, int):
        return False
    return dims[axis] == size and all(d == 1 for a, d in enumerate(dims) if a != len(dims) + axis)


def _group_norm(g: Graph, found: Any) -> ir.Value | None:
    """Return GroupNormalization for groups [batch, …, groups, channels / groups] of a tensor with channels last."""
    reshapes = [n for n, _ in found.x.uses() if n.op_type == "Reshape" and n.inputs[1] is found.shape]
    before, after = known_dims(found.x), known_dims(found.value)
    grouped = known_dims(reshapes[0].outputs[0]) if reshapes else None
    if before is None or grouped is None or before != after or len(before) < 3 or len(grouped) != len(before) + 1:
        return None
    sizes = [n for n in grouped[-2:] if isinstance(n, int)]
    wanted = tuple(a for a in range(1, len(grouped)) if a != len(grouped) - 2)
    if len(sizes) != 2 or None in before or grouped[1:-2] != before[1:-1] or found.axes != wanted:
        return None
    if not isinstance(before[-1], int) or found.count not in (None, sizes[1]):
        return None
    given = [v for v in (found.gamma, found.beta) if v is not None]
    covered = sizes if found.count is None else [before[-1]]
    if not all(_covers(v, covered, len(grouped)) and constant(v) is not None for v in given):
        return None
    rank, channels = len(before), before[-1]
    inner = g.Transpose(found.x, perm=[0, rank - 1, *range(1, rank - 1)])
    gamma, beta = (_reshaped(g, v, [channels], m, found.x) for v, m in ((found.gamma, 1.0), (found.beta, 0.0)))
    made = g.GroupNormalization(inner, gamma, beta, num_groups=sizes[0], epsilon=found.epsilon)
    g.facts(made, found.x.dtype, known_dims(inner))
    return g.Transpose(made, perm=[0, *range(2, rank), 1])


# -- means and softmax ------------------------------------------------------------------------------------------------


def _mean(g: Graph, found: Any) -> ir.Value | None:
    dims, axes = known_dims(found.x), constant_integers(found.axes)
    reduced = [dims[a] for a in axes] if dims is not None and axes is not None else []
    lengths = [d for d in reduced if isinstance(d, int)]
    count = math.prod(lengths)
    if axes is None or len(lengths) != len(axes) or count == 1 or not is_close(found.scale * count, 1.0):
        return None
    made = g.ReduceMean(found.x, found.axes, keepdims=0 if found.keepdims == 0 else None)
    return made if found.inserted is None else g.Unsqueeze(made, found.inserted)


def _softmax(g: Graph, found: Any) -> ir.Value | None:
    return g.Softmax(found.x, axis=found.axis[0]) if len(found.axis) == 1 else None


_grouped = op("Reshape", _x, _shape)
_list, _inserted, _keepdims, _scale = Tensor("axes"), Tensor("inserted"), Attribute("keepdims"), Number("scale")
_sum = op("ReduceSum", _x, _list, keepdims=_keepdims)

_VARIANCES: tuple[tuple[Any, Any], ...] = ((variance, lambda build: build), (quick_variance, _cancelling))
"""Ways to compute a variance, each with what it does to the function that builds a layer."""


def _repeated(x: Expression) -> Expression:
    return Repeated(x, Attribute("count"))


NORMS = (
    # Keras's group norm, and Flax's
    *(
        Pattern(
            mark(_group_norm),
            op("Reshape", _expanded(_grouped, mean(_grouped, _axes), spread(_grouped, _axes)), _target),
        )
        for spread, mark in _VARIANCES
    ),
    *(
        Pattern(mark(_group_norm), _centered(_x, _repeated(mean(_grouped, _axes)), _repeated(spread(_grouped, _axes))))
        for spread, mark in _VARIANCES
    ),
    *(
        Pattern(mark(_layer_norm), form(_x, mean(_x, _axes), spread(_x, _axes)))
        for form in (_centered, _expanded)
        for spread, mark in _VARIANCES
    ),
    Pattern(_rms_norm, _x * _gamma / sqrt(mean(_x**2, _axes) + _epsilon)),
    *(Pattern(_batch_norm, form(_x, _mean_, _variance)) for form in (_centered, _expanded)),
    Pattern(_softmax, written_softmax(_x, Attribute("axis"))),
    Pattern(_mean, _sum * _scale),
    Pattern(_mean, op("Unsqueeze", _sum, _inserted) * _scale),
)
