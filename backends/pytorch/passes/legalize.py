"""The passes that turn the shared graph into one that PyTorch's layers take as it is, in their order."""

from __future__ import annotations

from pathlib import Path

import onnx_ir as ir

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

from .. import ops  # noqa: F401  (fills the table)
from ..rules import onnx_op
from .fuse_linear import fuse_linear
from .fuse_silu import fuse_silu


def expand_unsupported(model: ir.Model) -> bool:
    """Write out every node that the table does not take."""
    return write_out(model, onnx_op.takes)


def assign_channels_first(model: ir.Model) -> bool:
    """PyTorch's layers are channels-first, as ONNX's operators: transposes around them (from TensorFlow) cancel out."""
    return assign_layout(model, sensitive="as is")


# Batch norms stay layers of their own: they are trained.
PASSES: tuple[Pass, ...] = (
    drop_size_checks,
    expand_unsupported,
    clean,
    name_resized_axes,
    flatten_roots,
    find_response_norms,
    assign_channels_first,
    join_transposes,
    compose_transposes,
    clean,
    fuse_linear,
    fuse_silu,
)


def legalize(model: ir.Model, dump: Path | None = None) -> bool:
    """Run the passes; whether the model was modified. dump: as for `run_passes`."""
    return run_passes(model, PASSES, dump)
