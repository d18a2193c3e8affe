"""The literal list of passes that run before nodes are emitted, in order."""

from __future__ import annotations

from functools import wraps

import onnx_ir as ir
from onnx_ir.passes.common import InlinePass

from convert.legalize.normalize_windows import normalize_windows
from convert.legalize.write_out import write_out
from convert.passes import run_passes
from convert.passes.layout.assign import assign_layout
from convert.passes.tidy.batchnorm import fold_batch_norms
from convert.passes.tidy.clean import clean
from convert.passes.tidy.narrow_products import narrow_products, narrow_transforms
from convert.passes.tidy.resized_axes import name_resized_axes
from convert.passes.tidy.size_checks import drop_size_checks
from convert.request.options import Options
from convert.rules.onnx_schemas import operator_of

from . import ops  # noqa: F401  (fills the table)
from .options import PROFILE
from .rules import onnx_op


def legalize(model: ir.Model, options: Options | None = None) -> None:
    """Change `model` in place into one that the rules can emit. options: as for `run_passes`.

    In the profile `aten`, nets may have the operator ATen, which samples images.
    """

    @wraps(expand_unsupported)  # keeps its name in dumps
    def expand_for_aten(model: ir.Model) -> bool:
        return write_out(model, onnx_op.takes)

    aten = options is not None and PROFILE.of(options) == "aten"
    run_passes(model, [expand_for_aten if aten and one is expand_unsupported else one for one in PASSES], options)


def inline_functions(model: ir.Model) -> bool:
    """Replace calls of the model's own functions by their bodies. Return whether anything changed."""
    return bool(model.functions) and InlinePass()(model).modified


def expand_unsupported(model: ir.Model) -> bool:
    """Lower every node that the table does not take. Return whether anything changed."""
    return write_out(model, lambda node: onnx_op.takes(node) and operator_of(node) != "GridSample")


def assign_channels_first(model: ir.Model) -> bool:
    """Assign channels-first layouts, which Caffe2's operators have; transposes around them (from TensorFlow) cancel.

    Returns whether anything changed.
    """
    return assign_layout(model, sensitive="as is")


PASSES = (
    inline_functions,  # first: the others look at nodes of the main graph
    drop_size_checks,  # Caffe2 has no Split that fails for wrong sizes
    normalize_windows,  # rules know no ceil_mode
    narrow_transforms,  # Caffe2 has no float64 products, which transforms are written out as
    name_resized_axes,  # before a Resize is written out, axis by axis
    expand_unsupported,  # before the layout, which written-out operators need as well
    narrow_products,  # Caffe2 has no float64 products; lowered learners have them
    clean,  # folds what a lowering computes of constants
    assign_channels_first,
    fold_batch_norms,  # after the layout, which makes neighbours of Conv and BatchNormalization
    clean,  # folds transposed weights and merged biases
)
