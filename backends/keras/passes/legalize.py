"""The list of passes that prepare the shared graph for Keras's layers."""

from __future__ import annotations

import onnx_ir as ir

from convert.legalize.broadcasts import choose_broadcasts, split_broadcasts
from convert.legalize.normalize_windows import normalize_windows
from convert.legalize.unroll_loops import is_known_loop, unroll_loops
from convert.legalize.write_out import write_out
from convert.passes import Pass, run_passes
from convert.passes.layout.assign import assign_layout
from convert.passes.layout.compose_transposes import compose_transposes
from convert.passes.layout.move_through_reshape import join_transposes
from convert.passes.tidy.clean import clean
from convert.passes.tidy.flat_roots import flatten_roots
from convert.passes.tidy.resized_axes import name_resized_axes
from convert.passes.tidy.size_checks import drop_size_checks
from convert.patterns.response_norm import find_response_norms
from convert.request.options import Options
from convert.rules.onnx_schemas import operator_of

from .. import ops  # noqa: F401  (fills the table)
from ..rules import onnx_op
from .fuse_attention import fuse_attention
from .fuse_dense import fuse_dense
from .static_shapes import settle_shapes


def expand_unsupported(model: ir.Model) -> bool:
    """Lower every node that the table does not take. Return whether anything changed."""
    return write_out(model, _takes)


def _takes(node: ir.Node) -> bool:
    return onnx_op.takes(node) or is_known_loop(node) or operator_of(node) in _WHOLE


def assign_channels_last(model: ir.Model) -> bool:
    """Assign channels-last layouts to the operators that need them, with the fewest bytes transposed.

    Inputs and outputs keep their layout. Returns whether anything changed.
    """
    return assign_layout(model, sensitive="channels_last")


def repeat_operands(model: ir.Model) -> bool:
    """Expand operands if TensorFlow's kernels do not support their broadcast, or may not for some run-time sizes.

    Returns whether anything changed.
    """
    modified = split_broadcasts(model, equal=True)
    return choose_broadcasts(model) or modified


# Their function bodies need operators that Keras lacks, so they are refused by name.
_WHOLE = ("SequenceMap", "StringNormalizer")

# Batch norms stay separate layers, which continue to learn their statistics.
BEFORE_LAYOUT: tuple[Pass, ...] = (
    drop_size_checks,  # Keras has no computed Split to write them as
    name_resized_axes,  # before a Resize is written out, axis by axis
    normalize_windows,  # rules know no ceil_mode
    expand_unsupported,  # before the loops: some function bodies have them
    clean,  # folds the number of repeats of a loop
    unroll_loops,  # functional models have no subgraphs
    clean,  # folds the counters of unrolled loops
    flatten_roots,  # the target can be trained: no NaN as a gradient
    repeat_operands,  # TensorFlow's kernels take five groups of dims
    settle_shapes,  # after the passes that compute shapes: Keras takes numbers only
    clean,  # removes the nodes that computed shapes
    find_response_norms,  # their Pads and pools would be laid out one by one
    fuse_attention,  # before the layout, which moves Transposes of heads
    clean,  # removes the projections that became part of a layer
)
PASSES = (*BEFORE_LAYOUT, assign_channels_last, join_transposes, compose_transposes, clean, fuse_dense)


def legalize(model: ir.Model, options: Options | None = None) -> bool:
    """Run the passes and return whether the model was modified. options: as for `run_passes`."""
    return run_passes(model, PASSES, options)
