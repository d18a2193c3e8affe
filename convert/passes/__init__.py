"""Graph passes: plain functions `model -> modified`; the lists that order them are literals."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import onnx_ir as ir

Pass = Callable[[ir.Model], bool]


def run(passes: Sequence[Pass], model: ir.Model) -> bool:
    """Run `passes` in order, once each; whether any of them modified the model."""
    modified = [run_pass(model) for run_pass in passes]
    return any(modified)
