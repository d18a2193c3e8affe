"""The Caffe2 backend's rules, one module a topic; importing this package fills the table."""

from __future__ import annotations

from . import (
    activation,
    attention,
    control,
    conv,
    index,
    linear,
    logic,
    math,
    norm,
    pattern,
    pool,
    reduce,
    resize,
    shape,
)

__all__ = [
    "activation",
    "attention",
    "control",
    "conv",
    "index",
    "linear",
    "logic",
    "math",
    "norm",
    "pattern",
    "pool",
    "reduce",
    "resize",
    "shape",
]
