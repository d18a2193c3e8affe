"""The passes that turn the shared graph into one that Keras's layers take as it is, in their order."""

from __future__ import annotations

from pathlib import Path

import onnx_ir as ir

from convert.legalize.broadcasts import choose_broadcasts, split_broadcasts
from convert.legalize.unroll_loops import is_known_loop, unroll_loops
from convert.legalize.write_out import write_out
from convert.passes import Pass, run_passes
from convert.passes.clean import clean
from convert.passes.flat_roots import flatten_roots
from convert.passes.layout.assign import assign_layout
from convert.passes.layout.compose_transposes import compose_transposes
from convert.passes.layout.move_through_reshape import join_transposes
from convert.passes.resized_axes import name_resized_axes
from convert.passes.response_norm import find_response_norms
from convert.passes.size_checks import drop_size_checks
from convert.rules.onnx_schemas import operator_of

from .. import ops  # noqa: F401  (fills the table)
from ..rules import onnx_op
from .fuse_attention import fuse_attention
from .fuse_dense import fuse_dense
from .static_shapes import settle_shapes


def expand_unsupported(model: ir.Model) -> bool:
    """Write out every node that the table does not take."""
    return write_out(model, _takes)


def _takes(node: ir.Node) -> bool:
    return onnx_op.takes(node) or is_known_loop(node) or operator_of(node) in _WHOLE


def assign_channels_last(model: ir.Model) -> bool:
    """Sensitive operators channels-last, transposes where the fewest bytes move; inputs and outputs as they are."""
    return assign_layout(model, sensitive="channels_last")


def repeat_operands(model: ir.Model) -> bool:
    """Broadcasts that TensorFlow's kernels do not take, or may not, for all that is known of their sizes."""
    modified = split_broadcasts(model, equal=True)
    return choose_broadcasts(model) or modified


# Their functions need what Keras has not: refused by name rather than in pieces.
_WHOLE = ("SequenceMap", "StringNormalizer")

# Batch norms stay layers of their own: they go on learning their statistics.
BEFORE_LAYOUT: tuple[Pass, ...] = (
    drop_size_checks,
    expand_unsupported,
    clean,
    unroll_loops,
    clean,
    name_resized_axes,
    flatten_roots,
    repeat_operands,
    settle_shapes,
    clean,
    find_response_norms,
    fuse_attention,
    clean,
)
PASSES = (*BEFORE_LAYOUT, assign_channels_last, join_transposes, compose_transposes, clean, fuse_dense)


def legalize(model: ir.Model, dump: Path | None = None) -> bool:
    """Run the passes; whether the model was modified. dump: as for `run_passes`."""
    return run_passes(model, PASSES, dump)
