"""What a layer, an input or an output may be called in Keras, on every backend of Keras and in every use of a model."""

from __future__ import annotations

from convert.naming import WORDS, Naming

LAYER = Naming(r"[^A-Za-z0-9_]", r"[A-Za-z0-9]", "/.", WORDS, fold=True)
"""A slash separates names; a dot is not taken by the torch backend, other characters not by TensorFlow's graphs, in
which a layer is a scope. `model.export` makes arguments of inputs, by keyword, and takes `X` and `x` for one."""
