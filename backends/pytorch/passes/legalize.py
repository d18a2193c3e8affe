"""The list of passes that prepare the shared graph for PyTorch's layers."""

from __future__ import annotations

import onnx_ir as ir

from convert.legalize.normalize_windows import normalize_windows
from convert.legalize.write_out import write_out
from convert.passes import Pass, run_passes
from convert.passes.layout.assign import assign_layout
from convert.passes.layout.compose_transposes import compose_transposes
from convert.passes.layout.move_through_reshape import join_transposes
from convert.passes.tidy.clean import clean
from convert.passes.tidy.flat_roots import flatten_roots
from convert.passes.tidy.resized_axes import name_resized_axes
from convert.passes.tidy.size_checks import drop_size_checks
from convert.patterns.activations import SWISH
from convert.patterns.find import replace_layers
from convert.patterns.response_norm import find_response_norms
from convert.request.options import Options

from .. import ops  # noqa: F401  (fills the table)
from ..rules import onnx_op
from .fuse_linear import fuse_linear


def expand_unsupported(model: ir.Model) -> bool:
    """Lower every node that the table does not take. Return whether anything changed."""
    return write_out(model, onnx_op.takes)


def assign_channels_first(model: ir.Model) -> bool:
    """Assign channels-first layouts, which PyTorch's layers have; transposes around them (from TensorFlow) cancel.

    Returns whether anything changed.
    """
    return assign_layout(model, sensitive="as is")


def fuse_silu(model: ir.Model) -> bool:
    """Replace x · sigmoid(x), as most programs write it, by one operator; return whether there was one."""
    return replace_layers(model, (SWISH,))


# Batch norms stay separate layers, because they are trained.
PASSES: tuple[Pass, ...] = (
    drop_size_checks,  # PyTorch has no computed Split to write them as
    name_resized_axes,  # before a Resize is written out, axis by axis
    normalize_windows,  # rules know no ceil_mode
    expand_unsupported,  # before the layout, which written-out operators need as well
    clean,  # folds what a lowering computes of constants
    flatten_roots,  # the target can be trained: no NaN as a gradient
    find_response_norms,  # their Pads and pools would be laid out one by one
    assign_channels_first,
    join_transposes,  # makes neighbours of Transposes that the layout left around a Reshape
    compose_transposes,  # then one Transpose is left of a chain
    clean,  # transposes weights lazily, so that MatMuls have constant matrices
    fuse_linear,  # after the last clean-up: it looks for constants
    fuse_silu,  # last: no other pass knows the fused operator
)


def legalize(model: ir.Model, options: Options | None = None) -> bool:
    """Run the passes and return whether the model was modified. options: as for `run_passes`."""
    return run_passes(model, PASSES, options)
