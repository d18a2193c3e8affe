"""The project's own executor of the shared graph, in float64 too: it judges, and is no backend."""

from __future__ import annotations

from convert.reference.table import kernel

__all__ = ["kernel"]
