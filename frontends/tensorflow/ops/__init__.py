"""The rules, one module a topic; importing this fills the table `rules.node`."""

from . import (
    array,
    control,
    conv,
    crop,
    diagonal,
    fourier,
    fused,
    gaps,
    gather,
    grad,
    image,
    linalg,
    lists,
    math,
    nn,
    pool,
    quantise,
    random,
    reduce,
    resample,
    segment,
    shape,
    sparse,
    splice,
    state,
    text,
    vision,
)

__all__ = [
    "array", "control", "conv", "crop", "diagonal", "fourier", "fused", "gaps", "gather", "grad", "image", "linalg",
    "lists", "math", "nn", "pool", "quantise", "random", "reduce", "resample", "segment", "shape", "sparse", "splice",
    "state", "text", "vision",
]  # fmt: skip
