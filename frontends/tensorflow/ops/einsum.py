"""Einsum, as matrix products if possible: runtimes are faster with them, and more runtimes support them."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np
import onnx_ir as ir

from convert.graph import Graph
from convert.graph.tensors import dims_of

from ..common.dims import equate_dims
from ..common.half_precision import BFLOAT16, in_float32
from ..common.lazy_reshape import reshape, transpose
from ..rules import tf_op


@tf_op("Einsum")
def einsum(g: Graph, inputs: Sequence[ir.Value], *, equation: str) -> ir.Value:
    equation, inputs = _align_ellipsis(g, equation.replace(" ", ""), inputs)
    terms = equation.replace("->", ",").split(",")
    if len(inputs) == 2 and len(terms) == 3 and all(_is_plain(t) for t in terms):
        x, y = inputs
        found = _matmul_by_weight(g, x, y, *terms) or _batch_matmul(g, x, y, *terms)
        if found is not None:
            return found
    return in_float32(BFLOAT16)(_emit_einsum)(g, list(inputs), equation=equation)


def _align_ellipsis(g: Graph, equation: str, inputs: Sequence[ir.Value]) -> tuple[str, Sequence[ir.Value]]:
    """Give all terms the same ellipsis dims, as ONNX requires; in TensorFlow each tensor may have its own number."""
    terms = equation.partition("->")[0].split(",")
    if "..." not in equation or any(x.shape is None for x in inputs):
        return equation, inputs
    counts = [g.rank(x) - len(t.replace("...", "")) if "..." in t else None for x, t in zip(inputs, terms, strict=True)]
    most = max((c for c in counts if c is not None), default=0)
    if all(c in (None, most) for c in counts):
        return equation, inputs
    wide = [
        x if c in (None, most) else g.Unsqueeze(x, np.arange(t.index("..."), t.index("...") + most - c))
        for x, t, c in zip(inputs, terms, counts, strict=True)
    ]
    return equation, wide


def _emit_einsum(g: Graph, inputs: Sequence[ir.Value], *, equation: str) -> ir.Value:
    return g.Einsum(*inputs, equation=equation)


def _is_plain(term: str) -> bool:
    """Return whether a term consists of distinct letters."""
    return term.isalpha() and len(set(term)) == len(term)


def _matmul_by_weight(g: Graph, x: ir.Value, w: ir.Value, a: str, b: str, out: str) -> ir.Value | None:
    """Multiply x, [rows…, inner…], by a constant, [inner…, columns…] in any order: EinsumDense, attention's
    projections.
    """
    if w.const_value is None or x.shape is None or len(x.shape) != len(a) or len(w.const_value.shape) != len(b):
        return None
    inner = [c for c in a if c in b and c not in out]
    rows = [c for c in a if c not in b]
    columns = [c for c in out if c not in a]
    sizes = dict(zip(b, dims_of(w.const_value), strict=True))
    whole = list(a) == rows + inner and list(out) == rows + columns and sorted(b) == sorted(inner + columns)
    if not whole or not rows or not inner or not columns:
        return None
    depth, width = prod(sizes[c] for c in inner), prod(sizes[c] for c in columns)
    matrix = reshape(g, transpose(g, w, [b.index(c) for c in inner + columns]), [depth, width])
    dims = g.shape(x)[: len(rows)]
    if len(inner) > 1:
        x = g.facts(g.Reshape(x, np.array([0] * len(rows) + [depth], np.int64)), shape=[*dims, depth])
    y = g.MatMul(x, matrix)
    if len(columns) == 1:
        return y
    full = [sizes[c] for c in columns]
    return g.facts(g.Reshape(y, np.array([0] * len(rows) + full, np.int64)), shape=[*dims, *full])


def _batch_matmul(g: Graph, x: ir.Value, y: ir.Value, a: str, b: str, out: str) -> ir.Value | None:
    """Return a batched product if rows, columns and sums have one letter each, besides batch letters; else None."""
    if any(v.shape is None or len(v.shape) != len(t) for v, t in ((x, a), (y, b))):
        return None
    batch = [c for c in out if c in a and c in b]
    inner = [c for c in a if c in b and c not in out]
    rows, columns = ([c for c in t if c not in u and c in out] for t, u in ((a, b), (b, a)))
    counted = len(batch) + 2 == len(a) == len(b) == len(out)
    if not counted or any(len(letters) != 1 for letters in (inner, rows, columns)):
        return None
    met = [(g.shape(x)[a.index(c)], g.shape(y)[b.index(c)]) for c in batch]
    # TensorFlow requires equal sizes for one letter, so two dynamic ones are equal; a 1 would be broadcast.
    if any(isinstance(m, int) != isinstance(n, int) or (isinstance(m, int) and m != n) for m, n in met):
        return None
    for m, n in met:
        equate_dims(g, m, n)
    if out.index(rows[0]) > out.index(columns[0]):
        x, y, a, b, rows, columns = y, x, b, a, columns, rows
    left = transpose(g, x, [a.index(c) for c in batch + rows + inner])
    right = transpose(g, y, [b.index(c) for c in batch + inner + columns])
    product = g.MatMul(left, right)
    made = batch + rows + columns
    return transpose(g, product, [made.index(c) for c in out])
