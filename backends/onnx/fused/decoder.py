"""Replaces the attention and the norms of a decoder with a cache by onnxruntime's operators.

GroupQueryAttention computes attention and the cache in one kernel, and can write new keys and values into the buffer of
the earlier ones. SkipSimplifiedLayerNormalization adds and normalizes. RotaryEmbedding stays a node of its own, because
GroupQueryAttention of onnxruntime 1.32 ignores `position_ids` in a call without earlier tokens.

The operator reads no mask. The mask is therefore added to the scores as its `attention_bias`, so that rows may be
padded on either side, as in the source. Queries that see no key get zeros, as in ONNX's Attention. A decoder that will
be narrowed to 16 bits is fused in float32, with a mask that 16 bits can hold.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx_ir as ir

from convert.graph import OPSET, Graph, location_of
from convert.graph.tensors import dims_of, lazy_tensor
from convert.graph.values import constant, constant_integers, known_dims, names_in_use
from convert.legalize.replacement import Replacement
from convert.passes.tidy.clean import clean
from convert.patterns.expressions import Tensor, either, op
from convert.patterns.find import Pattern, find
from convert.patterns.layers import find_layers
from convert.runtimes.generation import PAST

from . import kernels  # noqa: F401  (fills the table of the reference executor)
from .sampled import IDS, MASK, POSITIONS, Samples, causal_window, table_by_position

DOMAIN = "com.microsoft"
_ATTENTION = frozenset({"scale", "softcap"})
"""Attributes of Attention that are taken."""
_SWAPPED = (0, 2, 1, 3)
"""The permutation between [rows, heads, new, size] and [rows, new, heads, size]."""


def fuse_decoder(model: ir.Model, context: int, narrow: bool = False) -> bool:
    """Write a decoder in onnxruntime's operators, in place; return whether the cache may be one buffer.

    context: the most tokens that a text may have. narrow: whether 16 bits will store its numbers. Attention that is
    written differently stays as it is. The cache may be a buffer longer than its content if only GroupQueryAttention
    reads it.
    """
    clean(model)
    find_layers(model)
    fusion = _Fusion(model, context, -math.inf if narrow else float(np.finfo(np.float32).min))
    for node in [node for node in model.graph if node.op_type == "Attention" and not node.domain]:
        fusion.fuse_attention(node)
    fusion.place_common()
    clean(model)
    _fuse_norms(model)
    clean(model)
    cache = [v for v in model.graph.inputs if str(v.name).startswith(PAST)]
    return all(node.op_type == "GroupQueryAttention" for value in cache for node in value.consumers())


# -- attention --------------------------------------------------------------------------------------------------------

_x, _cos, _sin = Tensor("x"), Tensor("cos"), Tensor("sin")


def _slice(name: str) -> Any:
    inputs = [Tensor(f"{name}_{part}") for part in ("start", "end", "axis", "step")]
    return either(op("Slice", _x, *inputs), op("Slice", _x, *inputs[:3]))


_ROTARY = Pattern(lambda g, found: None, _x * _cos + op("Concat", op("Neg", _slice("high")), _slice("low")) * _sin)


@dataclass(frozen=True)
class _Heads:
    """Keys or queries [rows, heads, new, size]: before the rotary embedding, and its cosines and sines if there is
    one.
    """

    x: ir.Value
    cos: ir.Value | None = None
    sin: ir.Value | None = None


def _before_rotary(value: ir.Value) -> _Heads:
    """Return the input of a rotary embedding of halves, with its angles; `value` itself without such an embedding."""
    size = (known_dims(value) or (None,))[-1]
    half = size // 2 if isinstance(size, int) else 0
    for found in find(_ROTARY, value) if half else ():
        wanted = {"low_start": [0], "low_end": [half], "high_start": [half], "low_axis": [3], "high_axis": [3]}
        given = {name: constant_integers(getattr(found, name)) for name in wanted}
        end = constant_integers(found.high_end) or [0]
        if given == wanted and end[0] >= 2 * half and known_dims(found.x) == known_dims(value):
            return _Heads(found.x, found.cos, found.sin)
    return _Heads(value)


class _Fusion:
    """The attention of one model while it is replaced, and the values that all its layers share."""

    def __init__(self, model: ir.Model, context: int, lowest: float) -> None:
        """lowest: the number that is added to a score to hide a key."""
        self.model, self.context, self.lowest = model, context, lowest
        self.samples = Samples(model)
        self.replacement = Replacement(model, names_in_use(model))
        self.common = Graph(opset=OPSET)
        self.common.reserve(self.replacement.names)
        self.inputs = {str(v.name): v for v in model.graph.inputs}
        self.windows: dict[ir.Value, int | None] = {}
        self.tables: dict[ir.Value, ir.Value | None] = {}
        self.lengths: tuple[ir.Value, ir.Value, ir.Value] | None = None
        self.seen: dict[int, ir.Value] = {}

    def fuse_attention(self, node: ir.Node) -> None:
        """Replace one Attention node and the Concats of its cache, if they are those of a causal decoder."""
        query, key, value, mask, *others = [*node.inputs, *[None] * 4][:8]
        if query is None or key is None or value is None or mask is None or any(v is not None for v in others):
            return
        if set(node.attributes) - _ATTENTION or any(v.uses() or v.is_graph_output() for v in node.outputs[1:]):
            return
        joined = [self._cached(v) for v in (key, value)]
        dims = [known_dims(v) or () for v in (query, key, value)]
        sizes = [n for d in dims for n in (d[1], d[3])] if all(len(d) == 4 for d in dims) else [None]
        if None in joined or not all(isinstance(n, int) for n in sizes) or dims[0][3] != dims[2][3]:
            return
        if query.dtype != ir.DataType.FLOAT or not {IDS, MASK} <= self.inputs.keys():
            return
        if mask not in self.windows:
            self.windows[mask] = causal_window(self.samples, mask, self.context)
        window = self.windows[mask]
        if window is not None:
            self._replace(node, [n for n in joined if n is not None], window)

    def _cached(self, value: ir.Value) -> ir.Node | None:
        """Return the Concat that appends new keys or values to the cache."""
        node = value.producer()
        if node is None or node.op_type != "Concat" or len(node.inputs) != 2 or node.attributes.get_int("axis") != 2:
            return None
        past = node.inputs[0]
        return node if past is not None and past.is_graph_input() and str(past.name).startswith(PAST) else None

    def _replace(self, node: ir.Node, joined: Sequence[ir.Node], window: int) -> None:
        query, new_key, new_value = (_given(v) for v in (node.inputs[0], joined[0].inputs[1], joined[1].inputs[1]))
        heads, size = (int(known_dims(query)[axis]) for axis in (1, 3))  # type: ignore[index, arg-type]
        kv_heads = int(known_dims(new_key)[1])  # type: ignore[index, arg-type]
        parts = [_before_rotary(query), _before_rotary(new_key)]
        tables = self._tables(parts)
        if tables is None:
            parts = [_Heads(query), _Heads(new_key)]
        total, lengths, bias = self._lengths()
        seen = self._seen(window)
        outputs: list[ir.Value] = []

        def lower(g: Graph) -> list[ir.Value]:
            rows = _projections(g, [parts[0].x, parts[1].x, new_value])
            if tables is not None:
                where = (self.inputs[POSITIONS], *tables)
                rows[:2] = [
                    g.facts(g.RotaryEmbedding(x, *where, domain=DOMAIN, num_heads=count), x.dtype, known_dims(x))
                    for x, count in zip(rows, (heads, kv_heads), strict=False)
                ]
            scale = node.attributes.get_float("scale", 1 / math.sqrt(size))
            made = g.GroupQueryAttention(
                *rows, joined[0].inputs[0], joined[1].inputs[0], lengths, total, None, None, None, bias, outputs=3,
                domain=DOMAIN, num_heads=heads, kv_num_heads=kv_heads, scale=scale, local_window_size=window,
                softcap=node.attributes.get_float("softcap", 0.0),
            )  # fmt: skip
            dims = known_dims(query) or ()
            g.facts(made[0], query.dtype, (dims[0], dims[2], heads * size))
            for one, old in zip(made[1:], joined, strict=True):
                one.type, one.shape = old.outputs[0].type, old.outputs[0].shape
            outputs.extend(made[1:])
            shown = g.Where(seen, made[0], g.const(0.0, query.dtype))
            if merged is not node:
                return [shown]
            return [g.Transpose(g.Reshape(shown, np.array([0, 0, heads, size])), perm=_SWAPPED)]

        merged = _with_merged_heads(node, heads * size)
        built = self.replacement.build(lower, OPSET, location_of(node))
        assert built is not None
        self.replacement.place_graph(merged, *built)
        for old, new in zip(joined, outputs, strict=True):
            name = old.outputs[0].name
            old.outputs[0].replace_all_uses_with(new, replace_graph_outputs=True)
            old.outputs[0].name, new.name = self.replacement.unique(f"{name}.joined"), name

    def _tables(self, parts: Sequence[_Heads]) -> list[ir.Value] | None:
        """Return the cosines and sines by position [context, size / 2]; None if the rotary embedding stays apart."""
        given = [(part.cos, part.sin) for part in parts]
        if given[0] != given[1] or None in given[0] or POSITIONS not in self.inputs:
            return None
        found = [self._table(value, name) for value, name in zip(given[0], ("cos_cache", "sin_cache"), strict=True)]
        return None if None in found else [v for v in found if v is not None]

    def _table(self, value: ir.Value | None, name: str) -> ir.Value | None:
        assert value is not None
        if value not in self.tables:
            whole = table_by_position(self.samples, value, self.context)
            self.tables[value] = None
            if whole is not None:
                low, high = np.split(whole, 2, axis=1)
                if np.array_equal(low, high):
                    self.tables[value] = self.common.initializer(name, ir.tensor(np.ascontiguousarray(low)))
        return self.tables[value]

    def _lengths(self) -> tuple[ir.Value, ir.Value, ir.Value]:
        """Return the number of positions, the last position of each row, and the mask as numbers that are added."""
        if self.lengths is None:
            g, mask = self.common, self.inputs[MASK]
            total = g.Cast(g.Shape(mask, start=1, end=2), to=ir.DataType.INT32)
            last = g.Expand(g.Sub(total, g.const(np.array([1], np.int32))), g.Shape(mask, start=0, end=1))
            shown = g.Unsqueeze(g.Cast(mask, to=ir.DataType.BOOL), [1, 2])
            hidden = g.Where(shown, np.float32(0), np.float32(self.lowest))
            new = g.Shape(self.inputs[IDS], start=1, end=2)
            self.lengths = total, last, g.Expand(hidden, g.Concat(new, [1], axis=0))
        return self.lengths

    def _seen(self, window: int) -> ir.Value:
        """Return whether each query sees a key, [rows, new, 1]."""
        if window not in self.seen:
            g, mask = self.common, self.inputs[MASK]
            count = g.CumSum(g.Cast(mask, to=ir.DataType.INT64), np.int64(1))
            if window >= 0:  # without the keys before the window
                before = g.Pad(count, np.array([0, window, 0, 0]), np.int64(0))
                count = g.Sub(count, g.Slice(before, [0], g.Shape(mask, start=1, end=2), [1]))
            new = g.Shape(self.inputs[IDS], start=1, end=2)
            own = g.Slice(count, g.Neg(new), np.array([np.iinfo(np.int64).max]), [1])
            self.seen[window] = g.Unsqueeze(g.Greater(own, np.int64(0)), [2])
        return self.seen[window]

    def place_common(self) -> None:
        """Move the values that all layers share to the start of the model."""
        nodes, values = list(self.common.graph), list(self.common.graph.initializers.values())
        for value in values:
            self.common.graph.initializers.pop(str(value.name))
            self.model.graph.register_initializer(value)
        self.common.graph.remove(nodes)
        first = next(iter(self.model.graph), None)
        if first is not None:
            self.model.graph.insert_before(first, nodes)
        if nodes:
            self.model.graph.opset_imports.setdefault(DOMAIN, 1)


def _given(value: ir.Value | None) -> ir.Value:
    """Return an input that the operator requires."""
    assert value is not None
    return value


def _projections(g: Graph, heads: Sequence[ir.Value]) -> list[ir.Value]:
    """Return queries, keys and values as [rows, new, heads · size], from one product if they have one source."""
    flat = [_without_heads(g, value) for value in heads]
    products = [_product(value) for value in flat]
    if any(p is None for p in products) or len({p[0] for p in products if p}) > 1:
        return flat
    source, weights, biases = zip(*(p for p in products if p), strict=True)
    if len({bias is None for bias in biases}) > 1:
        return flat
    y = g.MatMul(source[0], g.initializer(f"{weights[0].name}.qkv", _side_by_side([w.const_value for w in weights])))
    if biases[0] is not None:
        y = g.Add(y, g.initializer(f"{biases[0].name}.qkv", _side_by_side([b.const_value for b in biases])))
    widths = np.array([known_dims(value)[-1] for value in flat])  # type: ignore[index]
    return [
        g.facts(part, value.dtype, known_dims(value))
        for part, value in zip(g.Split(y, widths, axis=-1, outputs=3), flat, strict=True)
    ]


def _with_merged_heads(node: ir.Node, width: int) -> ir.Node:
    """Return the Reshape to [rows, new, heads · size] that alone reads an Attention; else the Attention itself."""
    turned = _only_reader(node, "Transpose")
    merged = None if turned is None else _only_reader(turned, "Reshape")
    if turned is None or merged is None or _permutation(turned) != _SWAPPED:
        return node
    dims = known_dims(merged.outputs[0])
    return merged if dims is not None and len(dims) == 3 and dims[2] == width else node


def _only_reader(node: ir.Node, operator: str) -> ir.Node | None:
    value = node.outputs[0]
    uses = list(value.uses())
    found = len(uses) == 1 and not value.is_graph_output() and uses[0].node.op_type == operator
    return uses[0].node if found else None


def _permutation(node: ir.Node) -> tuple[int, ...]:
    return tuple(node.attributes.get_ints("perm", ()))


def _without_heads(g: Graph, value: ir.Value) -> ir.Value:
    """Return [rows, heads, new, size] as [rows, new, heads · size], the value that the heads were split from if
    possible.
    """
    node, width = value.producer(), math.prod(n for n in (known_dims(value) or ())[1::2] if isinstance(n, int))
    if node is not None and node.op_type == "Transpose" and _permutation(node) == _SWAPPED:
        split = node.inputs[0].producer() if node.inputs[0] is not None else None
        whole = split.inputs[0] if split is not None and split.op_type == "Reshape" else None
        dims = known_dims(whole) if whole is not None else None
        if dims is not None and len(dims) == 3 and dims[2] == width:
            assert whole is not None
            return whole
    return g.Reshape(g.Transpose(value, perm=_SWAPPED), np.array([0, 0, width]))


def _product(value: ir.Value) -> tuple[ir.Value, ir.Value, ir.Value | None] | None:
    """Return the source, the weight and the bias of a dense layer; None for anything else."""
    node, bias = value.producer(), None
    if node is not None and node.op_type == "Add" and len(value.uses()) == 1:
        bias = next((v for v in node.inputs if constant(v) is not None), None)
        inner = next((v for v in node.inputs if v is not bias), None)
        node = inner.producer() if inner is not None and bias is not None else None
        if bias is None or len(known_dims(bias) or ()) != 1:
            return None
    if node is None or node.op_type != "MatMul" or node.domain:
        return None
    x, weight = node.inputs
    if x is None or weight is None or constant(weight) is None or len(known_dims(weight) or ()) != 2:
        return None
    return x, weight, bias


def _side_by_side(tensors: Sequence[Any]) -> ir.TensorProtocol:
    dims = [*dims_of(tensors[0])[:-1], sum(dims_of(t)[-1] for t in tensors)]
    return lazy_tensor(tensors[0].dtype, dims, lambda: np.concatenate([t.numpy() for t in tensors], axis=-1))


# -- norms ------------------------------------------------------------------------------------------------------------


def _fuse_norms(model: ir.Model) -> None:
    """Join each sum of two tensors with the norm of the last dim that reads it."""
    replacement = Replacement(model, names_in_use(model))
    for node in [node for node in model.graph if node.op_type == "RMSNormalization" and not node.domain]:
        added, scale = node.inputs[0], node.inputs[1]
        before = added.producer() if added is not None else None
        if before is None or before.op_type != "Add" or added is None or scale is None:
            continue
        shapes = [known_dims(v) for v in (*before.inputs, added) if v is not None]
        plain = len(set(shapes)) == 1 and shapes[0] is not None and len(shapes[0]) == 3 and None not in shapes[0]
        last = node.attributes.get_int("axis", -1) in (-1, 2) and len(known_dims(scale) or ()) == 1
        if not plain or not last or any(n.op_type == "SkipSimplifiedLayerNormalization" for n in added.consumers()):
            continue
        made = _joined_norm(replacement, node, before, scale)
        made.type, made.shape, name = added.type, added.shape, added.name
        added.replace_all_uses_with(made, replace_graph_outputs=True)
        model.graph.remove(before, safe=True)
        made.name = name
    if replacement.changed:
        model.graph.opset_imports.setdefault(DOMAIN, 1)


def _joined_norm(replacement: Replacement, node: ir.Node, before: ir.Node, scale: ir.Value) -> ir.Value:
    """Replace a norm by one that adds first; return the sum."""
    sums: list[ir.Value] = []

    def lower(g: Graph) -> list[ir.Value]:
        epsilon = node.attributes.get_float("epsilon", 1e-5)
        y, mean, spread, total = g.SkipSimplifiedLayerNormalization(
            *before.inputs, scale, outputs=4, domain=DOMAIN, epsilon=epsilon
        )
        mean.name = spread.name = ""
        sums.append(total)
        return [y]

    built = replacement.build(lower, OPSET, location_of(node))
    assert built is not None
    replacement.place_graph(node, *built)
    return sums[0]
