"""RotaryEmbedding written out with known sizes, which ONNX's own function body computes at run time."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from convert.graph import Graph


def rotary_embedding(g: Graph, node: ir.Node) -> Sequence[ir.Value] | None:
    """Rotate pairs of x [batch, length, heads · size] or [batch, heads, length, size] by the angle of their position.

    Returns None, which leaves the node to the schema's function body, if the size of a head is unknown.
    """
    x, cosines, sines, places = [*node.inputs, None][:4]
    assert x is not None
    flat, last = g.rank(x) == 3, g.shape(x)[-1]
    heads = node.attributes.get_int("num_heads", 0)
    if not isinstance(last, int) or (flat and not heads):
        return None
    size = last // heads if flat else last
    turned = node.attributes.get_int("rotary_embedding_dim", 0) or size
    by_place = g.Reshape(x, np.array([0, 0, heads, size])) if flat else g.Transpose(x, perm=[0, 2, 1, 3])
    parts = [by_place] if turned == size else g.Split(by_place, np.array([turned, size - turned]), axis=3, outputs=2)
    c, s = (_of_places(g, table, places, turned // 2) for table in (cosines, sines))
    y = _turn(g, parts[0], c, s, bool(node.attributes.get_int("interleaved", 0)))
    y = g.Concat(y, *parts[1:], axis=3) if parts[1:] else y
    return [g.Reshape(y, np.array([0, 0, last])) if flat else g.Transpose(y, perm=[0, 2, 1, 3])]


def _of_places(g: Graph, table: ir.Value | None, places: ir.Value | None, half: int) -> ir.Value:
    """Return the cosine or sine of each position and pair, [batch, length, 1, half].

    Without given positions, the table already has one row per position.
    """
    assert table is not None
    rows = table if places is None else g.Gather(table, places, axis=0)
    return g.Unsqueeze(g.Slice(rows, [0], [half], [2]), [2])


def _turn(g: Graph, x: ir.Value, c: ir.Value, s: ir.Value, interleaved: bool) -> ir.Value:
    """Return x [batch, length, heads, 2 · half] rotated.

    A pair is two neighbours if interleaved, otherwise one element of each half.
    """
    half = int(g.shape(x)[3]) // 2  # type: ignore[arg-type]
    if interleaved:
        pairs = g.Reshape(x, np.array([0, 0, 0, half, 2]))
        c, s = g.Unsqueeze(c, [4]), g.Unsqueeze(s, [4])
        first, second = g.Split(pairs, np.array([1, 1]), axis=4, outputs=2)
    else:
        first, second = g.Split(x, np.array([half, half]), axis=3, outputs=2)
    real = g.Sub(g.Mul(c, first), g.Mul(s, second))
    imaginary = g.Add(g.Mul(s, first), g.Mul(c, second))
    y = g.Concat(real, imaginary, axis=-1)
    return g.Reshape(y, np.array([0, 0, 0, 2 * half])) if interleaved else y
