"""The rules, one module a topic; importing this fills the table `rules.caffe2`."""

from . import control, conv, index, layout, linear, math, norm, reduce, shape

__all__ = ["control", "conv", "index", "layout", "linear", "math", "norm", "reduce", "shape"]
