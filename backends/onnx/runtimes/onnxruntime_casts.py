"""Casts around operators that onnxruntime has no kernel for in a dtype, if a wider dtype gives the same result.

Also casts around operators whose kernel does not wrap around as integers of the dtype do.

ONNX allows these dtypes; without the casts, a file is valid but does not load. The table is for onnxruntime 1.22 to
1.32 on the CPU. Floating-point dtypes are left out, because rounding in another precision gives another result. The
exception is what a float32 model computes in bfloat16, such as the biases of ALiBi: each operator gets float32 and
its result is rounded, as in PyTorch's kernels.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import onnx_ir as ir

from convert.graph.shape_inference import SMALL
from convert.graph.values import input_at, known_dims

from .kernel_dtypes import has_kernel

_BOOL, _UINT8, _INT8, _INT16 = ir.DataType.BOOL, ir.DataType.UINT8, ir.DataType.INT8, ir.DataType.INT16
_FLOAT, _DOUBLE, _BFLOAT16 = ir.DataType.FLOAT, ir.DataType.DOUBLE, ir.DataType.BFLOAT16
_UINT16, _INT32, _UINT32, _INT64 = ir.DataType.UINT16, ir.DataType.INT32, ir.DataType.UINT32, ir.DataType.INT64

_SHORT = {_INT16: _INT32, _UINT16: _INT32}
_BYTES_AND_SHORT = {_INT8: _INT32, _UINT8: _INT32, **_SHORT}

_MOVED = {**dict.fromkeys((_BOOL, _INT8, _INT16, _UINT16), _FLOAT), **dict.fromkeys((_INT32, _UINT32), _DOUBLE)}

# The dtype that each operator is computed in, by its own dtype. A sum is truncated to 32 bits, which is what a 32-bit
# sum gives. (Not a product: onnxruntime's int64 product does not wrap around.)
KERNELS: dict[str, Mapping[ir.DataType, ir.DataType]] = {
    # A choice keeps the bits, and so does the cast of uint64.
    "Where": {_BOOL: _UINT8, _INT8: _INT32, **_SHORT, _UINT32: _INT64, ir.DataType.UINT64: _INT64},
    "Max": _BYTES_AND_SHORT,
    "Min": _BYTES_AND_SHORT,
    "Clip": _SHORT,
    "Pad": _SHORT,
    "ArgMax": {**_SHORT, _UINT32: _INT64},
    "ArgMin": {**_SHORT, _UINT32: _INT64},
    "Trilu": dict.fromkeys((_INT8, _UINT8, _INT16, _UINT16, _INT32, _UINT32), _INT64),
    "ReduceSum": {_UINT32: _INT64},
    "ReduceMax": {_UINT32: _INT64},
    "ReduceMin": {_UINT32: _INT64},
    "BitShift": {_UINT16: _UINT32},
    # Pixels are only moved. If there is no wider integer dtype, a floating-point dtype that holds them exactly is used.
    "Resize": {**_SHORT, _BOOL: _UINT8},
    "SpaceToDepth": {**_MOVED, _UINT8: _FLOAT},
    "DepthToSpace": _MOVED,
    "Unique": {**dict.fromkeys((_UINT8, _INT16, _UINT16, _INT32, _UINT32), _INT64), _BOOL: _INT8},
    "TopK": {**_BYTES_AND_SHORT, _UINT32: _INT64},
    "CumSum": {_UINT32: _INT64},
    "Relu": {_INT16: _INT32},
    # Only whether a number is zero matters.
    "NonZero": dict.fromkeys((_INT8, _INT16, _UINT16, _UINT32, ir.DataType.UINT64, ir.DataType.DOUBLE), _BOOL),
}

# Sums of 32 bits saturate in onnxruntime; elsewhere they wrap around, which hashes rely on.
WRAPPING = {("ReduceSum", _INT32): _INT64}
_BITS = {_BOOL: 0, _INT8: 8, _UINT8: 8, _INT16: 16, _UINT16: 16}

# The onnxruntime release that added a kernel; older ones that may load the file need the casts.
SINCE = {
    ("Max", _INT8): (1, 24),
    ("Max", _UINT8): (1, 24),
    ("Min", _INT8): (1, 24),
    ("Min", _UINT8): (1, 24),
    ("Where", _INT8): (1, 31),
    ("Where", _UINT32): (1, 31),
    ("Trilu", _INT32): (1, 29),
    ("BitShift", _UINT16): (1, 32),
    ("TopK", _INT8): (1, 26),
    ("TopK", _UINT8): (1, 26),
    ("TopK", _INT16): (1, 26),
    ("SpaceToDepth", _INT8): (1, 28),
    ("SpaceToDepth", _UINT8): (1, 28),
    ("DepthToSpace", _INT8): (1, 28),
}


def cast_for_kernels(model: ir.Model) -> bool:
    """Insert casts around the operators of `KERNELS` in their dtypes. Return whether anything changed."""
    changed = False
    for graph in model.graphs():
        for node in graph:
            dtype = _kernel_dtype(node)
            wide = None
            if node.domain == "" and dtype is not None:
                wide = KERNELS.get(node.op_type, {}).get(dtype) or _wrapping_dtype(node, dtype)
            if dtype is not None and wide is not None:
                _widen_node(graph, node, dtype, wide)
                changed = True
    return changed


def cast_bfloat16_islands(model: ir.Model) -> bool:
    """Insert casts to float32 around operators in bfloat16 that onnxruntime has no kernel for. Return whether anything
    changed.

    A model whose inputs or weights are bfloat16 is left as it is: its user asked for bfloat16.
    """
    weights = [v for graph in model.graphs() for v in graph.initializers.values() if _size(v) > SMALL]
    if any(v.dtype == _BFLOAT16 for v in (*model.graph.inputs, *weights)):
        return False
    changed = False
    for graph in model.graphs():
        for node in graph:
            floats = [v for v in (*node.inputs, *node.outputs) if v is not None and v.dtype == _BFLOAT16]
            if not floats or node.domain != "" or node.op_type == "Cast" or has_kernel(node.op_type, _BFLOAT16):
                continue
            _widen_node(graph, node, _BFLOAT16, _FLOAT)
            changed = True
    return changed


def _size(value: ir.Value) -> int:
    return 0 if value.const_value is None else value.const_value.nbytes


def _wrapping_dtype(node: ir.Node, dtype: ir.DataType) -> ir.DataType | None:
    """Return the dtype from which a result is truncated to `dtype`; None if the sum cannot overflow."""
    value = input_at(node, 0)
    maker = None if value is None else value.producer()
    source = input_at(maker, 0) if maker is not None and maker.op_type == "Cast" else None
    bits = None if source is None or source.dtype is None else _BITS.get(source.dtype)
    dims = () if value is None else known_dims(value) or (None,)
    known = [d for d in dims if isinstance(d, int)]
    fits = bits is not None and len(known) == len(dims) and math.prod(known) << bits < 1 << 31
    small = bits == 0 or fits
    return None if small else WRAPPING.get((node.op_type, dtype))


def _kernel_dtype(node: ir.Node) -> ir.DataType | None:
    """Return the dtype that selects a kernel: that of the data, which is the second input of Where."""
    place = 1 if node.op_type == "Where" else 0
    value = input_at(node, place)
    return None if value is None else value.dtype


def _widen_node(graph: ir.Graph, node: ir.Node, dtype: ir.DataType, wide: ir.DataType) -> None:
    first = 1 if node.op_type == "Where" else 0
    for index, value in enumerate(node.inputs):
        if index >= first and value is not None and value.dtype == dtype:
            cast = _cast(node, value, wide, f"{node.outputs[0].name}.{index}")
            graph.insert_before(node, cast)
            node.replace_input_with(index, cast.outputs[0])
    for y in node.outputs:
        if y.dtype != dtype or not y.name:
            continue
        # A new type object: a clone of the model shares its type objects.
        name, y.name, y.type = y.name, f"{y.name}.{wide.name.lower()}", ir.TensorType(wide)
        back = _cast(node, y, dtype, name)
        ir.convenience.replace_all_uses_with(y, back.outputs[0], replace_graph_outputs=True)
        back.replace_input_with(0, y)
        graph.insert_after(node, back)


def _cast(node: ir.Node, x: ir.Value, dtype: ir.DataType, name: str) -> ir.Node:
    made = ir.Node("", "Cast", [x], [ir.AttrInt64("to", dtype)], num_outputs=1, name=f"{name}.cast")
    made.metadata_props.update(node.metadata_props)
    made.outputs[0].name, made.outputs[0].dtype, made.outputs[0].shape = name, dtype, x.shape
    return made
