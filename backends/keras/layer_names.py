"""The names that layers, inputs and outputs may have in every backend of Keras and every use of a model."""

from __future__ import annotations

from convert.request.naming import WORDS, Naming

LAYER = Naming(r"[^A-Za-z0-9_]", r"[A-Za-z0-9]", "/.", WORDS, fold=True)
"""Characters that names may not have. A slash separates names. The torch backend rejects dots, and TensorFlow's graphs,
in which a layer is a scope, reject other characters. `model.export` turns inputs into keyword arguments, and treats `X`
and `x` as the same.
"""
