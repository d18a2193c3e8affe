"""Disables a part of TensorFlow's optimizer whose time is quadratic in the length of a graph."""

from __future__ import annotations

import re
from typing import Any

from convert.request.source import Source

from .kernels import count_operators

_PAIRS = re.compile(rb"\x12(?:\x03Neg|\x04Conj|\x06Invert|\x0aReciprocal|\x0aLogicalNot)")
_MANY = 2000
"""Number of such nodes: a chain of twice as many takes 2 s; models have some hundred."""


def keep_optimizer_short(source: Source) -> None:
    """Disable the rewriting of arithmetic if it would search for pairs of inverses in a chain of thousands of nodes.

    20,000 Neg take three minutes. The result of each pair is the same without it.
    """
    import tensorflow as tf

    if count_operators(source, _PAIRS, _MANY) == _MANY:
        tf.config.optimizer.set_experimental_options({"arithmetic_optimization": False})


def session_config() -> Any:
    """Return a session configuration; sessions ignore what is set for functions."""
    import tensorflow as tf

    config = tf.compat.v1.ConfigProto()
    options = config.graph_options.rewrite_options
    if tf.config.optimizer.get_experimental_options().get("arithmetic_optimization") is False:
        options.arithmetic_optimization = options.OFF
    return config
