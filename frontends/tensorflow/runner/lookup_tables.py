"""Lookup tables that functions in memory capture: their content, and graphs with nodes for them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

_FINDING = ("LookupTableFind", "LookupTableFindV2")


def captured_tables(concrete: Any) -> dict[int, tuple[np.ndarray, np.ndarray]]:
    """Return keys and values of each table that a ConcreteFunction captured, by the `id` of its handle."""
    import tensorflow as tf
    from tensorflow.python.eager.context import eager_mode

    variables = {id(v.handle) for v in concrete.graph.variables}
    handles = [v for v in concrete.captured_inputs if v.dtype == tf.resource and id(v) not in variables]
    if not handles:
        return {}
    graph = concrete.graph.as_graph_def()
    nodes = [*graph.node, *(n for f in graph.library.function for n in f.node_def)]
    dtypes = {(n.attr["Tin"].type, n.attr["Tout"].type) for n in nodes if n.op in _FINDING}
    found = {}
    for handle in handles:
        for keys, values in sorted(dtypes):
            with eager_mode():
                if _has_dtypes(handle, keys, values):
                    content = tf.raw_ops.LookupTableExportV2(table_handle=handle, Tkeys=keys, Tvalues=values)
                    found[id(handle)] = content.keys.numpy(), content.values.numpy()
    return found


def _has_dtypes(handle: Any, keys: int, values: int) -> bool:
    """Return whether a table has these dtypes, by an empty lookup, which fails otherwise. Exporting the table would end
    the process.
    """
    import tensorflow as tf

    try:
        none, default = tf.zeros([0], tf.as_dtype(keys)), tf.zeros([], tf.as_dtype(values))
        tf.raw_ops.LookupTableFindV2(table_handle=handle, keys=none, default_value=default)
    except tf.errors.OpError:
        return False
    return True


def insert_tables(graph: Any, tables: Mapping[str, tuple[np.ndarray, np.ndarray]]) -> list[str]:
    """Turn the nodes of `graph` with these names into tables; return the operations that fill them, which run first."""
    import tensorflow as tf

    fills = []
    for node in list(graph.node):
        if node.name not in tables:
            continue
        protos = [tf.make_tensor_proto(content) for content in tables[node.name]]
        node.op = "HashTableV2"
        node.attr.clear()
        for name, proto in zip(("key_dtype", "value_dtype"), protos, strict=True):
            node.attr[name].type = proto.dtype
        node.attr["shared_name"].s = node.name.encode()
        fill = graph.node.add(name=f"{node.name}/fill", op="InitializeTableV2", input=[node.name])
        for name, proto in zip(("keys", "values"), protos, strict=True):
            const = graph.node.add(name=f"{node.name}/{name}", op="Const")
            const.attr["dtype"].type = proto.dtype
            const.attr["value"].tensor.CopyFrom(proto)
            fill.input.append(const.name)
        fill.attr["Tkey"].type, fill.attr["Tval"].type = (p.dtype for p in protos)
        fills.append(fill.name)
    return fills
