"""FakeQuant in float64, for which TensorFlow has no kernel; constants are quantized as when they are stored."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

OPERATORS = frozenset({"FakeQuantWithMinMaxArgs", "FakeQuantWithMinMaxVars", "FakeQuantWithMinMaxVarsPerChannel"})


def constant_inputs(node: Any, nodes: Sequence[Any]) -> list[bool]:
    """Return which inputs of `node` are constants of its graph, possibly through Identity."""
    by_name = {n.name: n for n in nodes}

    def constant(name: str) -> bool:
        maker = by_name.get(name.split(":")[0])
        while maker is not None and maker.op == "Identity":
            maker = by_name.get(maker.input[0].split(":")[0])
        return maker is not None and maker.op == "Const"

    return [constant(name) for name in node.input if not name.startswith("^")]


def fake_quant(operator: str, constants: Sequence[bool]) -> Callable[..., list[Any]]:
    """Return the operator on doubles; `constants` says which of its inputs are constant.

    A weight gets the level that TensorFlow's kernel computes in float32, because a level is a decision and not a
    rounding error. Likewise, a range of constants has its scale in float32. Everything else is computed in float64.
    """

    def make(attributes: Any, x: Any, *limits: Any) -> list[Any]:
        import tensorflow as tf

        settings: dict[str, Any] = {
            "num_bits": attributes["num_bits"].i if "num_bits" in attributes else 8,
            "narrow_range": attributes["narrow_range"].b if "narrow_range" in attributes else False,
        }
        low, high = limits or (tf.constant(_attribute(attributes, n, d), tf.float64) for n, d in _ENDS)
        if constants[0] and all(constants[1:]):
            narrow = [tf.cast(v, tf.float32) for v in (x, low, high)]
            given = dict(zip(("inputs", "min", "max"), narrow, strict=True))
            if not limits:
                kernel, given = tf.raw_ops.FakeQuantWithMinMaxVarsPerChannel, given | {
                    "inputs": tf.reshape(narrow[0], [-1, 1]), "min": narrow[1][None], "max": narrow[2][None]
                }  # fmt: skip
            else:
                kernel = getattr(tf.raw_ops, operator)
            return [tf.reshape(tf.cast(kernel(**given, **settings), tf.float64), tf.shape(x))]
        kind = tf.float32 if all(constants[1:]) else tf.float64
        return [
            _quantize_dequantize(
                x, tf.cast(low, kind), tf.cast(high, kind), divided=operator.endswith("Vars"), **settings
            )
        ]

    return make


_ENDS = (("min", -6.0), ("max", 6.0))


def _attribute(attributes: Any, name: str, default: float) -> float:
    return float(attributes[name].f) if name in attributes else default


def _quantize_dequantize(x: Any, low: Any, high: Any, *, divided: bool, num_bits: int, narrow_range: bool) -> Any:
    """The arithmetic of fake_quant_ops_functor.h: its parameters in the dtype of the range, the rest in that of x."""
    import tensorflow as tf

    dtype = low.dtype
    least, most = tf.constant(float(narrow_range), dtype), tf.constant(float(2**num_bits - 1), dtype)
    none = tf.logical_and(tf.equal(low, 0), tf.equal(high, 0))
    span = tf.where(none, tf.ones_like(low), high - low)
    scale, inverse = span / (most - least), (most - least) / span
    place = tf.clip_by_value(least - low / scale, least, most)
    whole = tf.floor(place)
    zero = whole + tf.cast(place - whole >= 0.5, dtype)
    bottom, top = (least - zero) * scale, (most - zero) * scale
    start = tf.floor(-bottom * inverse + 0.5)
    scale, inverse, bottom, top, start = (tf.cast(v, x.dtype) for v in (scale, inverse, bottom, top, start))
    shifted = tf.maximum(tf.minimum(x, top), bottom) - bottom
    steps = tf.floor((shifted / scale if divided else shifted * inverse) - start + 0.5)
    return tf.where(none, tf.zeros_like(x), steps * scale)
