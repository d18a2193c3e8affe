"""The rules, one module a topic; importing this fills the table `rules.node`."""

from . import array, conv, gaps, gather, image, linalg, math, nn, pool, reduce, shape, splice, state

__all__ = [
    "array", "conv", "gaps", "gather", "image", "linalg", "math", "nn", "pool", "reduce", "shape", "splice", "state",
]  # fmt: skip
