"""Lookup tables: finds the constants that fill a table, and the table of a handle."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import onnx_ir as ir

from convert import limits
from convert.errors import Unsupported

from .attributes import dtype_of, tensor_of_proto
from .function_body import FunctionBody, Node, Ref, body_from_function
from .vocabulary_files import table_from_file

HANDLES = ("HashTable", "HashTableV2", "MutableHashTable", "MutableHashTableV2", "AnonymousHashTable")
FILLING = ("InitializeTable", "InitializeTableV2", "LookupTableImport", "LookupTableImportV2")
_FROM_FILES = ("InitializeTableFromTextFile", "InitializeTableFromTextFileV2")
_CALLS = ("PartitionedCall", "StatefulPartitionedCall")
_PASSING = ("Identity", "StopGradient", "Snapshot")


@dataclass(frozen=True)
class LookupTable:
    """The keys and values of a table, each of one dim; it does not change after it is filled."""

    name: str
    keys: ir.TensorProtocol
    values: ir.TensorProtocol


@dataclass
class LookupTables:
    """The tables of a graph by the nodes of their handles, and the reasons why others are missing."""

    found: dict[str, LookupTable]
    reasons: dict[str, str]

    def find(self, node: str) -> LookupTable:
        """Return the table of a handle. Raises `Unsupported` if it is filled by anything but constants."""
        if node in self.found:
            return self.found[node]
        hint = (
            ""
            if node in self.reasons
            else "give the SavedModel, or the graph before it was frozen, whose nodes fill it"
        )
        raise Unsupported(self.reasons.get(node, "a table that nothing in the model fills"), hint=hint)


@dataclass(frozen=True)
class _BodyScope:
    """A body with the outer values of its arguments: nodes of the outermost graph with their scope."""

    body: FunctionBody
    arguments: Mapping[str, tuple[_BodyScope, Ref]]

    def resolve(self, ref: Ref) -> Node | None:
        """Return the node that makes `ref`, through arguments of calls and operators that pass it on."""
        if ref.node in self.arguments:
            scope, outside = self.arguments[ref.node]
            return scope.resolve(outside)
        node = self.body.nodes.get(ref.node)
        if node is not None and node.op in _PASSING and node.inputs:
            return self.resolve(node.inputs[0])
        if node is not None and node.op == "ReadVariableOp" and node.inputs:
            return self._assigned(node.inputs[0].node)
        return node

    def _assigned(self, variable: str) -> Node | None:
        """Return the node whose value a variable gets, if it is assigned once; asset paths are passed on this way."""
        found = [n for n in self.body.nodes.values() if n.op == "AssignVariableOp" and n.inputs[0].node == variable]
        return self.resolve(found[0].inputs[1]) if len(found) == 1 else None


def filled_tables(
    graph: FunctionBody,
    functions: Mapping[str, Any],
    first: Sequence[str],
    buffer: memoryview,
    assets: Mapping[str, Path] = MappingProxyType({}),
) -> LookupTables:
    """Return the tables of a graph, filled by its own nodes or by functions that the nodes `first` lead to.

    assets: the files whose paths nodes of the graph hold.
    """
    scope = _BodyScope(graph, {})
    tables = LookupTables({}, {})
    for node in graph.nodes.values():
        if node.op in (*FILLING, *_FROM_FILES):
            _fill_table(tables, scope, node, buffer, assets)
    started = FunctionBody(graph.name, graph.nodes, [], [], [name for name in first if name in graph.nodes])
    calls = [n for n in started.control_dependencies if n.op in _CALLS and n.attr["f"].func.name in functions]
    for inner, node in (found for call in calls for found in _filling_nodes(scope, call, functions, 0)):
        _fill_table(tables, inner, node, buffer, assets)
    return tables


def _filling_nodes(
    scope: _BodyScope, call: Node, functions: Mapping[str, Any], depth: int
) -> Iterator[tuple[_BodyScope, Node]]:
    body = body_from_function(functions[call.attr["f"].func.name])
    inner = _BodyScope(body, {name: (scope, ref) for name, ref in zip(body.arguments, call.inputs, strict=False)})
    for node in body.nodes.values():
        if node.op in (*FILLING, *_FROM_FILES):
            yield inner, node
        elif node.op in _CALLS and node.attr["f"].func.name in functions and depth < 10:
            yield from _filling_nodes(inner, node, functions, depth + 1)


def _fill_table(
    tables: LookupTables, scope: _BodyScope, node: Node, buffer: memoryview, assets: Mapping[str, Path]
) -> None:
    handle = scope.resolve(node.inputs[0]) if node.inputs else None
    if handle is None or handle.op not in HANDLES:
        return
    keys: ir.TensorProtocol | None
    values: ir.TensorProtocol | None
    if node.op in _FROM_FILES:
        file = scope.resolve(node.inputs[1]) if len(node.inputs) > 1 else None
        if file is None or file.name not in assets:
            tables.reasons[handle.name] = "a table that is filled from a file"
            return
        try:
            keys, values = table_from_file(assets[file.name], node.attr, handle.attr)
        except Unsupported as error:
            tables.reasons[handle.name] = error.message
            return
    else:
        keys, values = (_constant_content(scope, ref, buffer) for ref in node.inputs[1:3])
    if keys is None or values is None:
        tables.reasons[handle.name] = "a table that is filled with computed values"
    elif handle.name in tables.found:
        del tables.found[handle.name]
        tables.reasons[handle.name] = "a table that is filled twice"
    elif len(keys.shape) != 1 or len(values.shape) != 1:
        tables.reasons[handle.name] = "a table with keys or values that are tensors"
    elif handle.name not in tables.reasons:
        tables.found[handle.name] = LookupTable(handle.name, keys, values)


def _constant_content(scope: _BodyScope, ref: Ref, buffer: memoryview) -> ir.TensorProtocol | None:
    """Return a constant, or the range of numbers that a vocabulary gets; None for anything else."""
    node = scope.resolve(ref)
    if node is None:
        return None
    if node.op == "Const":
        return tensor_of_proto(node.attr["value"].tensor, buffer)
    if node.op not in ("Range", "Cast"):
        return None
    parts = [_constant_content(scope, r, buffer) for r in node.inputs]
    numbers = [p.numpy() for p in parts if p is not None and p.dtype != ir.DataType.STRING]
    if len(numbers) != len(parts):
        return None
    if node.op == "Cast":
        dtype = dtype_of(node.attr["DstT"].type)
        return None if dtype is None or dtype == ir.DataType.STRING else ir.tensor(numbers[0].astype(dtype.numpy()))
    start, limit, step = (n.item() for n in numbers)
    if not step or abs((limit - start) / step) > limits.TENSORFLOW_TABLE_ELEMENTS:
        return None
    return ir.tensor(np.arange(start, limit, step, dtype=numbers[0].dtype))
