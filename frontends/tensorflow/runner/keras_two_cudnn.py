"""Reads the layers of Keras 2 that ran on cuDNN, `CuDNNLSTM` and `CuDNNGRU`, as `LSTM` and `GRU`.

Keras 3 lacks them. They compute what LSTM and GRU with `recurrent_activation="sigmoid"` compute, the GRU with
`reset_after=True`. Their HDF5 files hold the weights in the order of cuDNN:

| weight | shape | per gate |
|---|---|---|
| kernel | [inputs, gates * units] | a matrix [units, inputs], whose bytes are stored under the shape [inputs, units] |
| recurrent kernel | [units, gates * units] | transposed |
| bias | [2 * gates * units] | the biases of all gates for the input, then those for the state |
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

CUDNN_LAYERS: dict[str, tuple[str, dict[str, Any]]] = {
    "CuDNNLSTM": ("LSTM", {"activation": "tanh", "recurrent_activation": "sigmoid"}),
    "CuDNNGRU": ("GRU", {"activation": "tanh", "recurrent_activation": "sigmoid", "reset_after": True}),
}
"""The layer that computes the same, with its arguments, by class."""
_LSTM_GATES = 4


@contextmanager
def cudnn_weights_converted() -> Iterator[None]:
    """Make Keras's reader of HDF5 convert the weights of cuDNN's layers, which the shape of their bias shows."""
    from keras.src.legacy.saving import legacy_h5_format

    module: Any = legacy_h5_format
    usual = module.load_subset_weights_from_hdf5_group
    module.load_subset_weights_from_hdf5_group = lambda group: _converted(usual(group))
    try:
        yield
    finally:
        module.load_subset_weights_from_hdf5_group = usual


def _converted(weights: list[Any]) -> list[Any]:
    """Return the weights of a layer, with those of cuDNN's layers in the order of LSTM and GRU."""
    made = list(weights)
    for place in range(len(made) - 2):
        kernel, recurrent, bias = made[place : place + 3]
        if _are_cudnn(kernel, recurrent, bias):
            made[place : place + 3] = _of_processor(kernel, recurrent, bias)
    return made


def _are_cudnn(kernel: Any, recurrent: Any, bias: Any) -> bool:
    """Return whether three weights are those of a cuDNN layer: LSTM's bias is half as long, and GRU's has two rows."""
    if (kernel.ndim, recurrent.ndim, bias.ndim) != (2, 2, 1) or not recurrent.size:
        return False
    units, width = recurrent.shape
    return kernel.shape[1] == width and bias.shape[0] == 2 * width and width in (3 * units, _LSTM_GATES * units)


def _of_processor(kernel: Any, recurrent: Any, bias: Any) -> list[Any]:
    gates = recurrent.shape[1] // recurrent.shape[0]
    kernels = [k.reshape(k.shape[::-1]).T for k in np.split(kernel, gates, axis=1)]
    recurrents = [r.T for r in np.split(recurrent, gates, axis=1)]
    biases = bias.reshape(2, -1)
    return [np.hstack(kernels), np.hstack(recurrents), biases.sum(axis=0) if gates == _LSTM_GATES else biases]
