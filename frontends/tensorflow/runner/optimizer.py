"""What of TensorFlow's optimizer is left out where it takes the square of what a graph is long."""

from __future__ import annotations

import re
from typing import Any

from convert.source import Source

from .kernels import count_operators

_PAIRS = re.compile(rb"\x12(?:\x03Neg|\x04Conj|\x06Invert|\x0aReciprocal|\x0aLogicalNot)")
_MANY = 2000
"""Of them in a chain of twice this, 2 s go by; models have some hundred."""


def keep_optimizer_short(source: Source) -> None:
    """Leave the rewriting of arithmetic out where it would look for pairs of inverses in a chain of thousands.

    20,000 Neg take it three minutes. What two of them give is the same with it and without.
    """
    import tensorflow as tf

    if count_operators(source, _PAIRS, _MANY) == _MANY:
        tf.config.optimizer.set_experimental_options({"arithmetic_optimization": False})


def session_config() -> Any:
    """The configuration of a session, which does not go by what is set for functions."""
    import tensorflow as tf

    config = tf.compat.v1.ConfigProto()
    options = config.graph_options.rewrite_options
    if tf.config.optimizer.get_experimental_options().get("arithmetic_optimization") is False:
        options.arithmetic_optimization = options.OFF
    return config
