"""The keys under which the shared graph carries more than ONNX has fields for, and what they mean."""

from __future__ import annotations


def state_output(name: str) -> str:
    """The name of the graph output that holds the new value of the state input `name`."""
    return f"{name}_next"
