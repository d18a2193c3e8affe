"""Determines how an ONNX file stores its numbers, from its nodes and the dtypes of its weights."""

from __future__ import annotations

import mmap
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path

import onnx
import onnx_ir as ir
from onnx import TensorProto

from convert.files.protobuf_wire import LENGTH, VARINT, fields, read_varint
from convert.graph.scaled_weights import scaled_weights
from convert.request.stored import (
    BRAIN,
    BRAIN_VALUES,
    HALF,
    HALF_VALUES,
    STEPS,
    WEIGHT_STEPS,
    WHOLE_TENSORS,
    Blocks,
    StoredWeight,
)

_GRAPH, _NODE, _INITIALIZER, _OUTPUT = 7, 1, 5, 12
_DIMS, _DTYPE, _NAME, _NAME_OF_VALUE = 1, 2, 8, 1
_BY_TENSOR = frozenset({"DynamicQuantizeLinear", "MatMulInteger", "ConvInteger"})
# A node that matters here is small; larger ones may hold weights or whole graphs.
_LARGEST_NODE = 1 << 16
_SHARE = 8
"""A file counts as stored narrower if at least one in so many numbers in eligible weights is narrow: writers leave some
operators unchanged.

With fewer, the tolerance would be that of another kind of file.
"""

_IN_8_BITS = 4
"""The accuracy level of MatMulNBits at which onnxruntime rounds the activations to 8 bits."""

_BYTES = (TensorProto.INT8, TensorProto.UINT8)
_STEPPED = (*_BYTES, TensorProto.INT16, TensorProto.UINT16, TensorProto.INT4, TensorProto.UINT4)
_WIDE = (TensorProto.FLOAT, TensorProto.DOUBLE)
# Input indices of weights, by operator: those that are stored in fewer bits if any are.
_PRODUCTS = {"MatMul": (0, 1), "Gemm": (0, 1)}
_CONVOLUTIONS = {**_PRODUCTS, "Conv": (1,)}
_ALL = {**_CONVOLUTIONS, "ConvTranspose": (1,), "LSTM": (1, 2), "GRU": (1, 2), "RNN": (1, 2), "Gather": (0,)}
_WITH_STEPS = {"DequantizeLinear": (0,), "QLinearConv": (3,), "QLinearMatMul": (0, 3), "QGemm": (3,)}


_FLOATS = (ir.DataType.FLOAT, ir.DataType.FLOAT16, ir.DataType.BFLOAT16)


@dataclass(frozen=True)
class _Weight:
    dtype: int
    size: int


def storage_of(path: Path) -> str:
    """Return one of `convert.request.stored.STORED`, or "" for a file with ordinary dtypes.

    Nodes that no output depends on are ignored. A few numbers in fewer bits among many others are ignored, too.
    """
    with (
        open(path, "rb") as stream,
        mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as data,
        memoryview(data) as view,
    ):
        nodes, weights = _scan(view)
    in_blocks = [n for n in nodes if n.op_type == "MatMulNBits" and n.domain == "com.microsoft"]
    if in_blocks:
        numbers = [{a.name: a.i for a in node.attribute} for node in in_blocks]
        narrow = sum(found.get("K", 0) * found.get("N", 0) for found in numbers)
        if _are_many(narrow, _count(nodes, weights, _PRODUCTS, _WIDE)):
            return _coarsest(numbers)
    operators = {node.op_type for node in nodes}
    wide = _count(nodes, weights, _CONVOLUTIONS, _WIDE)
    if operators & _BY_TENSOR:
        narrow = _count(nodes, weights, dict.fromkeys(("MatMulInteger", "ConvInteger"), (0, 1)), _BYTES)
        if narrow and _are_many(narrow, wide):
            return WHOLE_TENSORS
    if "QuantizeLinear" in operators:
        narrow = _count(nodes, weights, _WITH_STEPS, _STEPPED)
        narrow += _count(nodes, weights, {"QuantizeLinear": (0,)}, _WIDE)
        if _are_many(narrow, wide):
            return STEPS
    elif _are_many(_count(nodes, weights, {"DequantizeLinear": (0,)}, _STEPPED) or -1, wide):
        return WEIGHT_STEPS
    return _half_precision(nodes, weights)


def _coarsest(products: Iterable[Mapping[str, int]]) -> str:
    """Return the storage format with the fewest bits among products with weights in blocks, given their attributes."""
    found = [Blocks(p.get("bits", 4), p["block_size"], p.get("accuracy_level") == _IN_8_BITS) for p in products]
    return str(min(found, key=lambda blocks: (blocks.bits, -blocks.size, not blocks.activations)))


def _half_precision(nodes: Iterable[onnx.NodeProto], weights: Mapping[str, _Weight]) -> str:
    wide = _count(nodes, weights, _ALL, _WIDE)
    for dtype, stored in ((TensorProto.BFLOAT16, BRAIN), (TensorProto.FLOAT16, HALF)):
        narrow = {name: w.size for name, w in weights.items() if w.dtype == dtype}
        used = narrow.keys() & {name for node in nodes for name in _read_names(node)}
        if not used or not _are_many(sum(narrow[name] for name in used), wide):
            continue
        computing = any(node.op_type != "Cast" and used.intersection(node.input) for node in nodes)
        return {HALF: HALF_VALUES, BRAIN: BRAIN_VALUES}[stored] if computing else stored
    return ""


def _are_many(narrow: int, wide: int) -> bool:
    return _SHARE * narrow >= narrow + wide


def _count(
    nodes: Iterable[onnx.NodeProto],
    weights: Mapping[str, _Weight],
    places: Mapping[str, tuple[int, ...]],
    dtypes: tuple[int, ...],
) -> int:
    """Return how many numbers weights with such dtypes hold at these input indices, counting each weight once."""
    names = {node.input[i] for node in nodes for i in places.get(node.op_type, ()) if i < len(node.input)}
    return sum(weights[name].size for name in names & weights.keys() if weights[name].dtype in dtypes)


def _scan(data: memoryview) -> tuple[list[onnx.NodeProto], dict[str, _Weight]]:
    """Return the nodes of the outermost graph that an output depends on, and its weights by name.

    Returns all nodes if one is too large to be examined, because it may read anything.
    """
    nodes: list[onnx.NodeProto] = []
    weights: dict[str, _Weight] = {}
    wanted: set[str] = set()
    whole = True
    for part in _parts(data, 0, len(data), _GRAPH):
        for item in fields(data, *part):
            if item.wire != LENGTH:
                continue
            if item.number == _NODE and item.end - item.start <= _LARGEST_NODE:
                nodes.append(onnx.NodeProto.FromString(bytes(data[item.start : item.end])))
            elif item.number == _NODE:
                whole = False
            elif item.number == _INITIALIZER:
                name, weight = _weight(data, item.start, item.end)
                weights[name] = weight
            elif item.number == _OUTPUT:
                wanted.add(_text(data, item.start, item.end, _NAME_OF_VALUE))
    return (_needed(nodes, wanted) if whole else nodes), weights


def _needed(nodes: list[onnx.NodeProto], outputs: set[str]) -> list[onnx.NodeProto]:
    """Return the nodes that the outputs depend on, in their (topological) order."""
    needed = set(outputs)
    found: list[onnx.NodeProto] = []
    for node in reversed(nodes):
        if needed.intersection(node.output):
            needed |= _read_names(node)
            found.append(node)
    return found[::-1]


def _read_names(node: onnx.NodeProto) -> set[str]:
    """Return the names that a node reads, including those in its subgraphs."""
    names = {name for name in node.input if name}
    for attribute in node.attribute:
        for graph in (*attribute.graphs, *([attribute.g] if attribute.HasField("g") else [])):
            names |= {v.name for v in graph.output}.union(*map(_read_names, graph.node))
    return names


def _parts(data: memoryview, start: int, end: int, number: int) -> Iterator[tuple[int, int]]:
    for item in fields(data, start, end):
        if item.number == number and item.wire == LENGTH:
            yield item.start, item.end


def _text(data: memoryview, start: int, end: int, number: int) -> str:
    return next((bytes(data[a:b]).decode(errors="replace") for a, b in _parts(data, start, end, number)), "")


def _weight(data: memoryview, start: int, end: int) -> tuple[str, _Weight]:
    dims: list[int] = []
    dtype = 0
    for item in fields(data, start, end):
        if item.number == _DTYPE and item.wire == VARINT:
            dtype = item.value
        elif item.number == _DIMS and item.wire == VARINT:
            dims.append(item.value)
        elif item.number == _DIMS and item.wire == LENGTH:
            at = item.start
            while at < item.end:
                dim, at = read_varint(data, at, item.end)
                dims.append(dim)
    return _text(data, start, end, _NAME), _Weight(dtype, prod(dims))


def stored_weights(path: Path) -> list[StoredWeight]:
    """Return the floating-point constants of a file, and the integers that its operators dequantize."""
    model = ir.load(path)
    found = scaled_weights(model)
    for graph in model.graphs():
        for value in graph.initializers.values():
            if value not in found and value.const_value is not None and value.dtype in _FLOATS:
                found[value] = StoredWeight(str(value.name), value.const_value.numpy())
    return list(found.values())
