"""Lookup tables with constant content, as ONNX's LabelEncoder."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from convert.errors import BadInput, Unsupported
from convert.graph import Graph
from convert.graph.tensors import tensor_of

from ..common.lazy_reshape import cast
from ..graph.lookup_tables import LookupTable
from ..rules import tf_op

_DOMAIN, _VERSION = "ai.onnx.ml", 4
_WHOLE = (
    ir.DataType.INT64, ir.DataType.INT32, ir.DataType.INT16, ir.DataType.INT8, ir.DataType.UINT8, ir.DataType.BOOL,
)  # fmt: skip
COMPUTED_DEFAULT = tf_op.limit("LookupTableFindV2", "a table whose default value is computed")


@tf_op("LookupTableFind", "LookupTableFindV2")
def find(g: Graph, table_handle: LookupTable, keys: ir.Value, default_value: ir.Value) -> ir.Value:
    """LookupTableFind: the value of each key, or the default; keys of less than 64 bits are widened exactly."""
    default = default_value.const_value
    if default is None or default.size != 1:
        raise Unsupported(COMPUTED_DEFAULT)
    kind, value_kind = _encoder_dtype(table_handle.keys.dtype), _encoder_dtype(table_handle.values.dtype)
    if {kind, value_kind} == {ir.DataType.FLOAT, ir.DataType.DOUBLE}:  # runtimes have no kernel for this pair of dtypes
        kind = value_kind = ir.DataType.DOUBLE
    if g.dtype(keys) != table_handle.keys.dtype or default.dtype != table_handle.values.dtype:
        raise BadInput("a table is asked for keys or values of another dtype than it has")
    attributes = {
        "keys_tensor": _encoder_attribute(table_handle.keys, kind, "keys"),
        "values_tensor": _encoder_attribute(table_handle.values, value_kind, "values"),
        "default_tensor": _encoder_attribute(default, value_kind, "default"),
    }
    outermost = g
    while outermost.parent is not None:
        outermost = outermost.parent
    outermost.graph.opset_imports.setdefault(_DOMAIN, _VERSION)
    found = g.LabelEncoder(cast(g, keys, kind), domain=_DOMAIN, **attributes)
    g.facts(found, value_kind, None if keys.shape is None else g.shape(keys))
    return cast(g, found, g.dtype(default_value))


@tf_op("LookupTableSize", "LookupTableSizeV2")
def size(g: Graph, table_handle: LookupTable) -> ir.Value:
    return g.const(np.array(len(set(_flat_items(table_handle.keys))), np.int64))


def _encoder_dtype(dtype: ir.DataType) -> ir.DataType:
    """Return the dtype that LabelEncoder uses for numbers or strings of `dtype`."""
    if dtype in _WHOLE:
        return ir.DataType.INT64
    if dtype in (ir.DataType.FLOAT16, ir.DataType.BFLOAT16):
        return ir.DataType.FLOAT
    if dtype in (ir.DataType.STRING, ir.DataType.FLOAT, ir.DataType.DOUBLE):
        return dtype
    raise Unsupported(f"a table of {dtype.name}")


def _encoder_attribute(content: ir.TensorProtocol, dtype: ir.DataType, name: str) -> ir.Attr:
    flat = content.numpy().reshape(-1)
    if dtype == ir.DataType.STRING:
        return ir.AttrTensor(f"{name}_tensor", ir.StringTensor(_flat_items(content), shape=ir.Shape([flat.size])))
    return ir.AttrTensor(f"{name}_tensor", tensor_of(flat.astype(dtype.numpy()), dtype))


def _flat_items(content: ir.TensorProtocol) -> list:
    """Return keys or values as a list; strings as bytes."""
    return list(content.string_data()) if isinstance(content, ir.StringTensor) else content.numpy().reshape(-1).tolist()
