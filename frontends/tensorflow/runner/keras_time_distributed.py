"""Replaces TimeDistributed during tracing: time is folded into the batch, where Keras loops over too few steps.

If the number of steps is dynamic, Keras 3.15 loops over as many steps as the batch has rows; in eager mode, over all of
them. Folded, the inner layer runs once for any number of steps.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any


@contextmanager
def fold_time_distributed(model: Any) -> Iterator[None]:
    """Fold the TimeDistributed layers in `model` that allow it, for the duration of a trace."""
    import keras

    layers = [layer for layer in _flat_layers(model) if type(layer) is keras.layers.TimeDistributed]
    folded = [layer for layer in layers if all(map(_is_independent_per_row, _flat_layers(layer.layer)))]
    for layer in folded:
        object.__setattr__(layer, "call", partial(_folded_call, layer))
    try:
        yield
    finally:
        for layer in folded:
            object.__delattr__(layer, "call")


def _flat_layers(layer: Any) -> list[Any]:
    return list(layer._flatten_layers()) if hasattr(layer, "_flatten_layers") else [layer]


def _is_independent_per_row(layer: Any) -> bool:
    """Return whether a layer is Keras's own (none mixes the rows of a batch in inference) and has no state."""
    return type(layer).__module__.partition(".")[0] == "keras" and not getattr(layer, "stateful", False)


def _folded_call(layer: Any, inputs: Any, training: Any = None, mask: Any = None) -> Any:
    """Replace TimeDistributed.call: [batch, steps, ...] to [batch, steps, ...]."""
    import keras

    steps, inner = keras.ops.shape(inputs)[1], layer.layer
    arguments = {"training": training} if inner._call_has_training_arg else {}
    if inner._call_has_mask_arg and mask is not None:
        arguments["mask"] = keras.ops.reshape(mask, (-1, *keras.ops.shape(mask)[2:]))
    y = inner.call(keras.ops.reshape(inputs, (-1, *keras.ops.shape(inputs)[2:])), **arguments)
    return keras.ops.reshape(y, (-1, steps, *keras.ops.shape(y)[1:]))
