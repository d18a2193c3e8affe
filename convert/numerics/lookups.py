"""ONNX-ML's operators that pick columns or look up numbers, built of ONNX's own operators."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from convert.errors import Unsupported
from convert.graph import Graph
from convert.graph.values import known_dims
from convert.numerics.learners import floats


def array_feature_extractor(g: Graph, node: ir.Node) -> Sequence[ir.Value]:
    """ArrayFeatureExtractor: the columns of x at the given indices; for a vector, one row."""
    x, places = node.inputs
    dims = None if x is None else known_dims(x)
    if x is None or dims is None:
        raise Unsupported("ArrayFeatureExtractor of an unknown number of dims")
    x = g.Unsqueeze(x, np.array([0])) if len(dims) == 1 else x
    return [g.Gather(x, g.Reshape(places, np.array([-1])), axis=-1)]


def binarizer(g: Graph, node: ir.Node) -> Sequence[ir.Value]:
    """Binarizer: 1 above the threshold, else 0."""
    x = node.inputs[0]
    assert x is not None
    return [g.Cast(g.Greater(x, g.const(node.attributes.get_float("threshold", 0.0), g.dtype(x))), to=g.dtype(x))]


def label_encoder(g: Graph, node: ir.Node) -> Sequence[ir.Value]:
    """LabelEncoder: the value of the first key equal to x, else the default; NaN equals NaN."""
    x, keys, values = node.inputs[0], _listed(node, "keys"), _listed(node, "values")
    assert x is not None
    whole = values.dtype == np.int64
    default = (
        node.attributes.get_int("default_int64", -1) if whole else node.attributes.get_float("default_float", -0.0)
    )
    if (tensor := node.attributes.get_tensor("default_tensor", None)) is not None:
        default = np.ravel(tensor.numpy())[0].item()
    found = g.Equal(g.Unsqueeze(x, np.array([-1])), keys)
    if keys.dtype != np.int64:
        found = g.Or(found, g.And(g.IsNaN(g.Unsqueeze(x, np.array([-1]))), np.isnan(keys)))
    number = g.Cast(found, to=ir.DataType.INT32)
    picked = g.Gather(values, g.ArgMax(number, axis=-1, keepdims=0), axis=0)
    any_found = g.Cast(g.ReduceMax(number, np.array([-1]), keepdims=0), to=ir.DataType.BOOL)
    return [g.Where(any_found, picked, np.array(default, values.dtype))]


def _listed(node: ir.Node, name: str) -> np.ndarray:
    """Return keys or values as numbers. Raises `Unsupported` for strings."""
    if (found := floats(node, f"{name}_floats")).size:
        return found
    if whole := node.attributes.get_ints(f"{name}_int64s", []):
        return np.array(whole, np.int64)
    tensor = node.attributes.get_tensor(f"{name}_tensor", None)
    if tensor is None or tensor.dtype not in (ir.DataType.INT64, ir.DataType.FLOAT, ir.DataType.DOUBLE):
        raise Unsupported("LabelEncoder of texts")
    return np.ravel(tensor.numpy())
