"""Graph passes: plain functions `model -> modified`, run in the order of literal lists."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import onnx_ir as ir

if TYPE_CHECKING:
    from convert.passes.check import PassCheck
    from convert.request.options import Options

Pass = Callable[[ir.Model], bool]

CHECK_VARIABLE = "CONVERT_CHECK_PASSES"
"""The environment variable that checks every pass, in child processes too. The tests of the project set it."""


def run_passes(model: ir.Model, passes: Sequence[Pass], options: Options | None = None) -> bool:
    """Run `passes` once each, in order; return whether any of them modified the model.

    `options.dump_passes` is the folder that gets the graph after each pass. With `options.check_passes`, raises
    `ConvertError` with the name of the pass that breaks the graph (`convert.passes.check`).

    >>> import onnx_ir as ir
    >>> from convert.graph import Graph
    >>> from convert.passes.tidy.clean import clean
    >>> g = Graph()
    >>> x = g.input("x", ir.DataType.FLOAT, ("batch", 3))
    >>> unused, _ = g.Exp(x), g.output(g.Abs(x), "y")
    >>> model = g.model()
    >>> run_passes(model, [clean]), [node.op_type for node in model.graph]
    (True, ['Abs'])
    """
    modified = False
    dump = None if options is None else options.dump_passes
    check = _pass_check(model, options)
    for run_pass in passes:
        modified = run_pass(model) or modified
        if dump is not None:
            from convert.passes.dump import dump_model

            dump_model(model, run_pass.__name__, dump)
        if check is not None:
            check.after(run_pass.__name__)
    return modified


def _pass_check(model: ir.Model, options: Options | None) -> PassCheck | None:
    """Return the check of a model between its passes, if the options or the environment ask for it."""
    if not (os.environ.get(CHECK_VARIABLE) or (options is not None and options.check_passes)):
        return None
    from convert.passes.check import PassCheck

    return PassCheck(model)
