"""The patterns of all layers that readers find."""

from __future__ import annotations

import onnx_ir as ir

from convert.patterns.activations import ACTIVATIONS
from convert.patterns.attention import ATTENTION
from convert.patterns.find import replace_layers
from convert.patterns.norms import NORMS


def find_layers(model: ir.Model) -> bool:
    """Replace layers that are written as arithmetic by ONNX's operators; return whether there were any."""
    return replace_layers(model, (*ATTENTION, *NORMS, *ACTIVATIONS))
