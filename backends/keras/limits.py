"""Inputs that Keras's operators do not take. Rules raise these reasons; `convert ops` and tests list them."""

from __future__ import annotations

import re
from collections.abc import Iterable

from . import ops  # noqa: F401  (fills the table)
from .rules import onnx_op

ANYWHERE = (
    "Keras has no operations on …",
    "Keras's functional models have no subgraphs",
    "a Keras model has inputs, and this one has none",
    "…computed at run time",
    "…of dynamic size…",
    "…of dynamic number…",
    "…a dynamic number of…",
    "a dim of which nothing is known",
    "no tensor at hand has the dim …",
    "the dtype of a tensor is unknown",
    "the rank of a tensor is not known",
    "unknown dims on both sides of the axis",
    "… spatial dims",
    "unsigned integers of 64 bits, with which Keras computes in 32",
)
"""Reasons for which any operator may be refused (… is any text). Keras needs axes, shapes and counts as numbers,
weights as variables, and a known rank.
"""

LIMITS: dict[str, tuple[str, ...]] = {
    "BatchNormalization": ("BatchNormalization in training mode",),
    "BitCast": ("the bits of booleans",),
    "CenterCropPad": ("sizes that are computed",),
    "Col2Im": ("sizes that are computed, or integers", "a fold of unknown batch and channels"),
    "DFT": ("an axis that is computed", "a transform of …"),
    "Dropout": ("Dropout in training mode",),
    "Gelu": ("Gelu has no approximation …",),
    "LpNormalization": ("LpNormalization with p=…",),
    "MaxPool": ("the indices of a MaxPool",),
    "Pad": ("Pad mode …",),
    "ReduceMax": ("the maximum or minimum of no elements",),
    "ReduceMin": ("the maximum or minimum of no elements",),
}
"""Inputs that a rule does not take, by operator."""


def declared_reasons(problems: Iterable[tuple[str, str]]) -> str:
    """Return the joined reasons of refusals if each is a declared gap or limit; else an empty string. Each refusal is
    an operator and a reason.
    """
    reasons = []
    for operator, why in problems:
        name = operator.removeprefix("convert.channels_last::").removeprefix("convert.keras::")
        known = (*ANYWHERE, *LIMITS.get(name, ()), *filter(None, [onnx_op.gaps.get(name)]))
        if not any(re.fullmatch(re.escape(text).replace("…", ".*"), why) for text in known):
            return ""
        reasons.append(why)
    return "; ".join(dict.fromkeys(reasons))
