"""Graph passes: plain functions `model -> modified`; the lists that order them are literals."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import onnx_ir as ir

Pass = Callable[[ir.Model], bool]


def run_passes(model: ir.Model, passes: Sequence[Pass], dump: Path | None = None) -> bool:
    """Run `passes` in order, once each; whether any of them modified the model.

    dump: the folder of `--dump-passes` (`Options.dump_passes`), which gets the graph after each pass.
    """
    modified = False
    for run_pass in passes:
        modified = run_pass(model) or modified
        if dump is not None:
            from convert.passes.dump import dump_model

            dump_model(model, run_pass.__name__, dump)
    return modified
