"""Einsum: TensorFlow's own, or pairwise matrix products for TensorFlow Lite."""

from __future__ import annotations

import opt_einsum
import tensorflow as tf

from convert.semantics.einsum import result_of_equation, squeeze_labels

from ..emit import Dim, LazyDims, Value
from ..rules import LITE, onnx_op
from .linalg import WIDER
from .shape import dims_product, pack_dims
from .sums import total


@onnx_op("Einsum")
def einsum(t, *inputs, equation):
    dtype = inputs[0].dtype
    wide = WIDER.get(dtype, dtype)
    if all(x.shape.rank is not None for x in inputs):
        equation, ones = squeeze_labels(equation, [x.shape.as_list() for x in inputs])
        inputs = tuple(tf.squeeze(x, axes) if axes else x for x, axes in zip(inputs, ones, strict=True))
    wider = [tf.cast(x, wide) for x in inputs]
    y = _product_without_sums(equation, wider)
    return tf.cast(tf.einsum(equation.replace(" ", ""), *wider) if y is None else y, dtype)


def _product_without_sums(equation: str, inputs: list[tf.Tensor]) -> tf.Tensor | None:
    """Return the element-wise product for an equation that sums nothing, else None; tf.einsum would use 1×1 matrix
    products.

    A dim that turns out to be 1 at run time is repeated, as in NumPy; tf.einsum fails there.
    """
    terms, result = result_of_equation(equation)
    alone = all(len(set(term)) == len(term) for term in (*terms, result)) and set("".join(terms)) == set(result)
    if "." in equation or len(inputs) < 2 or not alone:
        return None
    y = None
    for x, term in zip(inputs, terms, strict=True):
        x = _ordered(x, term, "".join(label for label in result if label in term))
        x = x[tuple(slice(None) if label in term else tf.newaxis for label in result)]
        y = x if y is None else y * x
    return y


@onnx_op(f"{LITE}::Einsum")
def einsum_of_lite(t, *inputs, equation):
    """Einsum for cases that TensorFlow's converter gets wrong: three operands (the file does not load), or no
    summation.

    For a matrix product of two operands, its own form is correct (TensorFlow 2.21).
    """
    if any(x.shape.rank is None for x in inputs) or len(inputs) < 2:
        return einsum(t, *inputs, equation=equation)
    short, ones = squeeze_labels(equation, [x.shape.as_list() for x in inputs])
    terms, result = result_of_equation(short)
    repeated = any(len(set(term)) < len(term) for term in (*terms, result))
    sums = len(inputs) == 2 and set(terms[0]) & set(terms[1]) - set(result)
    if "." in short or repeated or sums:
        return einsum(t, *inputs, equation=equation)
    parts = [tf.squeeze(x, axes) if axes else tf.convert_to_tensor(x) for x, axes in zip(inputs, ones, strict=True)]
    if (y := _product_without_sums(short, parts)) is not None:
        return y
    left = list(zip(parts, terms, strict=True))
    shapes = [[d or 2 for d in x.shape.as_list()] for x, _ in left]
    for places in opt_einsum.contract_path(short, *shapes, shapes=True, optimize="greedy")[0]:
        taken = [left.pop(place) for place in sorted(places, reverse=True)]
        x, term = taken[0]
        for i, (y, other) in enumerate(taken[1:], 2):
            wanted = set(result).union(*(word for _, word in (*left, *taken[i:])))
            x, term = _product(x, term, y, other, wanted)
        left.append((x, term))
    x, term = left[0]
    return _ordered(_summed(x, term, set(result)), [label for label in term if label in result], result)


def _product(a: Value, left: str, b: Value, right: str, wanted: set[str]) -> tuple[Value, str]:
    """Return the product of two operands and its labels, summed over common labels that are not wanted in the
    result.
    """
    a, left = _summed(a, left, wanted | set(right)), "".join(c for c in left if c in wanted or c in right)
    b, right = _summed(b, right, wanted | set(left)), "".join(c for c in right if c in wanted or c in left)
    both = "".join(c for c in left if c in right and c in wanted)
    summed = "".join(c for c in left if c in right and c not in wanted)
    rows, columns = ("".join(c for c in term if c not in both + summed) for term in (left, right))
    a, b = _ordered(a, left, both + rows + summed), _ordered(b, right, both + summed + columns)
    dims: dict[str, Dim] = {}
    for x, term in ((b, both + summed + columns), (a, both + rows + summed)):
        dims |= {
            label: d for label, d in zip(term, LazyDims(x), strict=True) if label not in dims or isinstance(d, int)
        }
    y = tf.matmul(_grouped(a, dims, both, rows, summed), _grouped(b, dims, both, summed, columns))
    labels = both + rows + columns
    y = tf.reshape(y, pack_dims([dims[label] for label in labels]))
    y.set_shape([d if isinstance(d, int) else None for d in (dims[label] for label in labels)])
    return y, labels


def _grouped(x: Value, dims: dict[str, Dim], *groups: str) -> tf.Tensor:
    """Return x with one dim per group of labels."""
    return tf.reshape(x, pack_dims([dims_product(dims[label] for label in group) for group in groups]))


def _summed(x: Value, term: str, kept: set[str]) -> Value:
    """Return x summed over the labels that are not kept."""
    axes = [i for i, label in enumerate(term) if label not in kept]
    return total(x, axes, False) if axes else x


def _ordered(x: Value, labels: str | list[str], wanted: str) -> Value:
    """Return x, whose dims have these labels, with its dims in the wanted order."""
    order = [labels.index(label) for label in wanted]
    return x if order == sorted(order) else tf.transpose(x, order)
