"""Models of one input, for tests of the values sampled for it."""

from __future__ import annotations

import json
from typing import Any

import onnx_ir as ir

from convert.graph import Graph
from convert.graph.metadata import DIMS_KEY, GUARDS_KEY


def plain(dtype: ir.DataType = ir.DataType.FLOAT, shape: Any = ("n", 4), name: str = "x") -> ir.Model:
    """y = x."""
    g = Graph()
    g.output(g.Identity(g.input(name, dtype, shape)), "y")
    return g.model()


def identities(*dims: int | str, dtype: ir.DataType = ir.DataType.FLOAT, outputs: str = "y") -> ir.Model:
    """Return a model in which each output, a letter, is x."""
    g = Graph()
    x = g.input("x", dtype, dims)
    for name in outputs:
        g.output(g.Identity(x), name)
    return g.model()


def sized(shape: Any, bounds: Any = None, guards: Any = None) -> ir.Model:
    """Return y = x with the given dims."""
    model = plain(shape=shape)
    held = {DIMS_KEY: bounds or {}, GUARDS_KEY: guards or []}
    model.metadata_props.update({k: json.dumps(v) for k, v in held.items()})
    return model
