"""The executor's kernels, one module a topic; importing this fills the table `table.kernel`."""

from . import fill, index, math, nn, reduce, regions, shape

__all__ = ["fill", "index", "math", "nn", "reduce", "regions", "shape"]
