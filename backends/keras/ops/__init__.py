"""The rules of the Keras backend; importing this package fills the table `onnx`."""

from ..rules import onnx
from . import (
    activation,
    arithmetic,
    attention,
    conv,
    gaps,
    index,
    linear,
    norm,
    pool,
    quantize,
    recurrent,
    reduce,
    resize,
    shape,
)

__all__ = [
    "activation",
    "arithmetic",
    "attention",
    "conv",
    "gaps",
    "index",
    "linear",
    "norm",
    "onnx",
    "pool",
    "quantize",
    "recurrent",
    "reduce",
    "resize",
    "shape",
]
