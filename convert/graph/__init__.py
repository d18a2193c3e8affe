"""The shared graph: its builder, tensors, inference, metadata keys, and helpers on values."""

from __future__ import annotations

from convert.graph.builder import OPSET, Dim, Graph, Operand, location_of, register_initializer

__all__ = ["OPSET", "Dim", "Graph", "Operand", "location_of", "register_initializer"]
