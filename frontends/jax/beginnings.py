"""The first bytes of MLIR files; cheap to import."""

from __future__ import annotations

BYTECODE = b"ML\xefR"
"""How MLIR's bytecode begins."""

PORTABLE = BYTECODE + b"\rStableHLO_v"
"""How portable artefacts of StableHLO begin: their producer is named first."""
