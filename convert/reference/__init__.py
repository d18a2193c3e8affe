"""The project's own executor of the shared graph, in any dtype including float64.

Verification compares targets with its results; it is no backend.
"""

from __future__ import annotations

from convert.reference.table import kernel

__all__ = ["kernel"]
