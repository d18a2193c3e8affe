"""The passes that turn the shared graph into one that TensorFlow's kernels take as it is, in their order."""

from __future__ import annotations

import onnx_ir as ir

from convert.options import Options
from convert.passes import Pass, run
from convert.passes.batchnorm import fold_batch_norms
from convert.passes.clean import clean
from convert.passes.expand import expand_functions
from convert.passes.layout import assign_layout
from convert.passes.regroup import join_transposes

from .padding import fold_pads
from .rules import onnx


def channels_last(model: ir.Model) -> bool:
    """Sensitive operators channels-last, transposes where the fewest bytes move; inputs and outputs as they are."""
    return assign_layout(model, sensitive="channels_last")


def channels_last_throughout(model: ir.Model) -> bool:
    """The same, with channels-last inputs and outputs."""
    return assign_layout(model, sensitive="channels_last", boundary="moved")


def expanded(model: ir.Model) -> bool:
    """Operators without a rule are replaced by the functions that define them."""
    return expand_functions(model, onnx)


BEFORE_LAYOUT: tuple[Pass, ...] = (expanded, clean, fold_batch_norms, fold_pads)
KEEP_BOUNDARY = (*BEFORE_LAYOUT, channels_last, join_transposes, clean)
MOVE_BOUNDARY = (*BEFORE_LAYOUT, channels_last_throughout, join_transposes, clean)


def legalise(model: ir.Model, options: Options) -> bool:
    """Run the passes that `options.layout` asks for; whether the model was modified."""
    return run(MOVE_BOUNDARY if options.layout == "nhwc" else KEEP_BOUNDARY, model)
