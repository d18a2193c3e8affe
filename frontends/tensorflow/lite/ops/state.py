"""Named variables and tables of a file, and subgraphs that run once when it is loaded."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir

from convert.errors import Unsupported
from convert.graph import Graph

from ...ops import table
from ..rules import AS_STORED, tflite_op
from ..state import LiteVariable, Resources, TableHandle

AS_STORED.update(("READ_VARIABLE", "ASSIGN_VARIABLE"))


@tflite_op("CALL_ONCE")
def call_once(g: Graph, *, init_subgraph_index: Any) -> list[ir.Value]:
    """CALL_ONCE: its subgraph was evaluated before; it sets the initial values of variables."""
    return []


@tflite_op("VAR_HANDLE")
def var_handle(g: Graph, *, container: str, shared_name: str, resources: Resources) -> LiteVariable:
    return resources.variable(container or "", shared_name or "")


@tflite_op("READ_VARIABLE")
def read_variable(g: Graph, resource: LiteVariable) -> ir.Value:
    return resource.read(g)


@tflite_op("ASSIGN_VARIABLE")
def assign_variable(g: Graph, resource: LiteVariable, value: ir.Value, *, resources: Resources) -> list[ir.Value]:
    resources.assign(g, resource, value)
    return []


@tflite_op("HASHTABLE")
def hashtable(g: Graph, *, table_id: int, key_dtype: int, value_dtype: int, resources: Resources) -> TableHandle:
    """HASHTABLE. (The dtypes are those of its content.)"""
    return TableHandle(resources, table_id)


@tflite_op("HASHTABLE_IMPORT")
def hashtable_import(g: Graph, handle: TableHandle, keys: ir.Value, values: ir.Value) -> list[ir.Value]:
    handle.fill(keys, values)
    return []


@tflite_op("HASHTABLE_FIND")
def hashtable_find(g: Graph, handle: TableHandle, keys: ir.Value, default: ir.Value) -> ir.Value:
    return table.find(g, handle.table, keys, default)


@tflite_op("HASHTABLE_SIZE")
def hashtable_size(g: Graph, handle: TableHandle) -> ir.Value:
    """HASHTABLE_SIZE: a vector of one number."""
    return g.Reshape(table.size(g, handle.table), np.array([1], np.int64))


@tflite_op("HASHTABLE_LOOKUP")
def hashtable_lookup(g: Graph, lookup: ir.Value, keys: ir.Value, values: ir.Value) -> list[ir.Value]:
    """HASHTABLE_LOOKUP: the rows of `values` for the keys, zeros for missing ones, and which exist."""
    if g.dtype(values) == ir.DataType.STRING:
        raise Unsupported("rows of text")
    same = g.Equal(g.Unsqueeze(lookup, [1]), g.Unsqueeze(keys, [0]))
    numbers = g.Cast(same, to=ir.DataType.INT32)
    hits = g.ReduceMax(numbers, [1], keepdims=0)
    rows = g.Gather(values, g.ArgMax(numbers, axis=1, keepdims=0), axis=0)
    there = g.Cast(hits, to=ir.DataType.BOOL)
    ones = g.Unsqueeze(there, list(range(1, g.rank(values)))) if g.rank(values) > 1 else there
    return [g.Where(ones, rows, g.const(0, g.dtype(values))), g.Cast(hits, to=ir.DataType.UINT8)]
