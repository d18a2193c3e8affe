"""Complex inputs, which are pairs of real numbers in the shared graph."""

from __future__ import annotations

from typing import Any

import torch
from torch.export import ExportedProgram

from convert.request.options import Options

from ..common.complexes import is_complex
from .examples import given_names


def complex_inputs(loaded: Any, options: Options) -> set[str]:
    """Return the names of the complex inputs, which arrive as pairs: as captured, or as the user described them."""
    if isinstance(loaded, ExportedProgram):
        return {n.name for n in loaded.graph.nodes if n.op == "placeholder" and is_complex(n.meta.get("val"))}
    described = [s.dtype or "" for s in options.inputs]
    if not any(d.startswith("complex") for d in described):
        return set()
    names = given_names(loaded, options) if isinstance(loaded, torch.nn.Module) else []
    found = (s.name or (names[i] if i < len(names) else "") for i, s in enumerate(options.inputs))
    return {name for name, dtype in zip(found, described, strict=True) if dtype.startswith("complex")}
