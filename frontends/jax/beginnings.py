"""The first bytes of MLIR files; cheap to import."""

from __future__ import annotations

BYTECODE = b"ML\xefR"
"""First bytes of MLIR's bytecode."""

PORTABLE = BYTECODE + b"\rStableHLO_v"
"""First bytes of StableHLO's portable artefacts, which name their producer first."""
