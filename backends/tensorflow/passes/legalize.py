"""The list of passes that prepare the shared graph for TensorFlow's kernels."""

from __future__ import annotations

from collections.abc import Collection
from functools import wraps

import onnx_ir as ir

from convert.legalize.broadcasts import split_broadcasts
from convert.legalize.normalize_windows import normalize_windows
from convert.legalize.write_out import write_out
from convert.passes import Pass, run_passes
from convert.passes.layout.assign import assign_layout
from convert.passes.layout.compose_transposes import compose_transposes
from convert.passes.layout.move_through_reshape import join_transposes
from convert.passes.tidy.batchnorm import fold_batch_norms
from convert.passes.tidy.clean import clean
from convert.passes.tidy.flat_roots import flatten_roots
from convert.passes.tidy.resized_axes import name_resized_axes
from convert.patterns.response_norm import find_response_norms
from convert.request.options import Options

from ..rules import onnx_op, operator_of
from .fold_pads import fold_pads
from .gradients import enclose_gradients


def assign_channels_last(model: ir.Model) -> bool:
    """Assign channels-last layouts to the operators that need them, with the fewest bytes transposed.

    Inputs and outputs keep their layout. Returns whether anything changed.
    """
    return assign_layout(model, sensitive="channels_last")


def expand_unsupported(model: ir.Model) -> bool:
    """Lower every node that the table does not take. Return whether anything changed."""
    return write_out(model, onnx_op.takes)


BEFORE_LAYOUT: tuple[Pass, ...] = (
    enclose_gradients,  # first: a Gradient names values, and later passes rename them
    name_resized_axes,  # before a Resize is written out, axis by axis
    normalize_windows,  # rules know no ceil_mode
    expand_unsupported,  # before the layout, which written-out operators need as well
    clean,  # folds what a lowering computes of constants
    flatten_roots,  # the target can be trained: no NaN as a gradient
    split_broadcasts,  # kernels take five groups of dims
    find_response_norms,  # their Pads and pools would be laid out one by one
    fold_batch_norms,  # before the Pads: the Conv gets its bias here
    fold_pads,  # while Pad and Conv are neighbours: the layout may put a Transpose between
)
PASSES = (*BEFORE_LAYOUT, assign_channels_last, join_transposes, compose_transposes, clean)


LACKING = ("Resize",)
"""Operators of the table that SavedModels and frozen graphs lack.

TensorFlow's kernels compute the coordinates of a Resize in float32. Written out, they are those of float64, in every
dtype and number of dims.
"""


def legalize(model: ir.Model, options: Options | None = None, lacking: Collection[str] = LACKING) -> bool:
    """Run the passes and return whether the model was modified. options: as for `run_passes`.

    lacking: operators that the format lacks although the table has rules for them; they are lowered.
    """

    @wraps(expand_unsupported)  # keeps its name in dumps
    def expand_lacking(model: ir.Model) -> bool:
        return write_out(model, lambda node: onnx_op.takes(node) and operator_of(node) not in lacking)

    passes = [expand_lacking if one is expand_unsupported and lacking else one for one in PASSES]
    return run_passes(model, passes, options)
