"""The rules for TensorFlow Lite's operators, one module a topic; importing this fills the table `lite_rules.lite`."""

from . import array, control, conv, gaps, image, math, nn, recurrent, reduce

__all__ = ["array", "control", "conv", "gaps", "image", "math", "nn", "recurrent", "reduce"]
