"""Graph passes: plain functions `model -> modified`, run in the order of literal lists."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import onnx_ir as ir

Pass = Callable[[ir.Model], bool]


def run_passes(model: ir.Model, passes: Sequence[Pass], dump: Path | None = None) -> bool:
    """Run `passes` once each, in order; return whether any of them modified the model.

    `dump` is the folder of `--dump-passes` (`Options.dump_passes`), which gets the graph after each pass.

    >>> import onnx_ir as ir
    >>> from convert.graph import Graph
    >>> from convert.passes.clean import clean
    >>> g = Graph()
    >>> x = g.input("x", ir.DataType.FLOAT, ("batch", 3))
    >>> unused, _ = g.Exp(x), g.output(g.Abs(x), "y")
    >>> model = g.model()
    >>> run_passes(model, [clean]), [node.op_type for node in model.graph]
    (True, ['Abs'])
    """
    modified = False
    for run_pass in passes:
        modified = run_pass(model) or modified
        if dump is not None:
            from convert.passes.dump import dump_model

            dump_model(model, run_pass.__name__, dump)
    return modified
