"""Functions and layers of Keras 1 and 2 whose arithmetic Keras 3 changed, as Keras 3 objects.

`keras_two.py` writes their names into a configuration. Only the loader of such a file knows these names.
"""

from __future__ import annotations

import math
from functools import reduce
from typing import Any

from .keras_two_functions import TENSORFLOW_FUNCTION, TENSORFLOW_OPERATOR, tensorflow_function, tensorflow_operator

HARD_SIGMOID = "hard_sigmoid_of_keras_two"
"""The name of the function itself, because layers such as Bidirectional serialize their parts and read them again."""
FUSED_BATCH_NORMALIZATION = "convert>FusedBatchNormalization"
HOLDING_BIDIRECTIONAL = "convert>HoldingBidirectional"
CORNER_UPSAMPLING = "convert>CornerUpSampling2D"
ANY_THRESHOLD = "convert>AnyThresholdReLU"
LOCALLY_CONNECTED = {name: f"convert>{name}" for name in ("LocallyConnected1D", "LocallyConnected2D")}
MERGES = {
    name: f"convert>Strict{name}"
    for name in ("Add", "Average", "Concatenate", "Maximum", "Minimum", "Multiply", "Subtract")
}
MERGES_WITHOUT_MASKS = {name: f"convert>Unmasked{name}" for name in MERGES}

MIN_FUSED_EPSILON = 1.001e-5
"""The least epsilon of cuDNN: `tf.nn.fused_batch_norm` raised smaller ones to it, on every device."""


def custom_objects() -> dict[str, Any]:
    """Return the objects by their names in a translated configuration."""
    return {
        HARD_SIGMOID: hard_sigmoid_of_keras_two,
        FUSED_BATCH_NORMALIZATION: _fused_batch_normalization(),
        HOLDING_BIDIRECTIONAL: _holding_bidirectional(),
        CORNER_UPSAMPLING: _corner_upsampling(),
        ANY_THRESHOLD: _any_threshold_relu(),
        TENSORFLOW_FUNCTION: tensorflow_function(),
        TENSORFLOW_OPERATOR: tensorflow_operator(),
        **{place: _locally_connected(name) for name, place in LOCALLY_CONNECTED.items()},
        **{MERGES[name]: _strict_merge(name) for name in MERGES},
        **{MERGES_WITHOUT_MASKS[name]: _unmasked_merge(name) for name in MERGES},
    }


def hard_sigmoid_of_keras_two(x: Any) -> Any:
    """Return clip(0.2 x + 0.5, 0, 1); Keras 3 has clip(x / 6 + 0.5, 0, 1)."""
    from keras import ops

    return ops.clip(x * 0.2 + 0.5, 0.0, 1.0)


def _fused_batch_normalization() -> Any:
    """Return a BatchNormalization that raises its epsilon where TensorFlow up to 2.11 used the fused operator."""
    import keras

    class FusedBatchNormalization(keras.layers.BatchNormalization):
        def __init__(self, fused_ranks: list[int], fused_axes: list[int], **config: Any) -> None:
            super().__init__(**config)
            self.epsilon: float
            self.fused_ranks, self.fused_axes = fused_ranks, fused_axes

        def build(self, input_shape: Any) -> None:
            rank = len(input_shape)
            if rank in self.fused_ranks and self.axis % rank in {axis % rank for axis in self.fused_axes}:
                self.epsilon = max(self.epsilon, MIN_FUSED_EPSILON)
            super().build(input_shape)

    return FusedBatchNormalization


def _holding_bidirectional() -> Any:
    """Return a Bidirectional whose sequences keep the output before a masked step; Keras 3 returns zeros."""
    import keras

    class HoldingBidirectional(keras.layers.Bidirectional):
        def __init__(self, *layers: Any, **config: Any) -> None:
            super().__init__(*layers, **config)
            for part in (self.forward_layer, self.backward_layer):
                if hasattr(part, "zero_output_for_mask"):
                    part.zero_output_for_mask = False

    return HoldingBidirectional


def _corner_upsampling() -> Any:
    """Return an UpSampling2D that interpolates between upper left corners, as TensorFlow 1's resize_bilinear did."""
    import keras
    import tensorflow as tf

    class CornerUpSampling2D(keras.layers.UpSampling2D):
        def call(self, inputs: Any) -> Any:
            first = self.data_format == "channels_first"
            x = tf.transpose(inputs, (0, 2, 3, 1)) if first else inputs
            sizes = tf.shape(x)[1:3] * tf.constant(self.size)
            y = tf.compat.v1.image.resize_bilinear(x, sizes, align_corners=False, half_pixel_centers=False)
            return tf.transpose(y, (0, 3, 1, 2)) if first else y

    return CornerUpSampling2D


def _locally_connected(name: str) -> Any:
    """Return a convolution of one or two dims that has kernels of its own at each place, without padding."""
    import keras
    import tensorflow as tf

    class LocallyConnected(keras.layers.Layer):
        def __init__(self, filters: int, kernel_size: list[int], **config: Any) -> None:
            self.filters, self.window = filters, list(kernel_size)
            self.strides = list(config.pop("strides", [1] * len(self.window)))
            self.first = config.pop("data_format", None) == "channels_first"
            self.activation = keras.activations.get(config.pop("activation", None))
            self.use_bias = config.pop("use_bias", True)
            super().__init__(**config)

        def build(self, input_shape: Any) -> None:
            sizes = input_shape[2:] if self.first else input_shape[1:-1]
            channels = input_shape[1 if self.first else -1]
            counts = [(n - k) // s + 1 for n, k, s in zip(sizes, self.window, self.strides, strict=True)]
            places, taken = math.prod(counts), math.prod(self.window) * channels
            self.kernel = self.add_weight(shape=(places, taken, self.filters), name="kernel")
            self.bias = self.add_weight(shape=(*counts, self.filters), name="bias") if self.use_bias else None
            self.counts, self.channels = counts, channels

        def call(self, inputs: Any) -> Any:
            last = range(2, len(inputs.shape))
            x = tf.transpose(inputs, (0, *last, 1)) if self.first else inputs
            kernel = tf.convert_to_tensor(self.kernel)
            if self.first:  # the kernel's rows begin with the channels
                rows = tf.reshape(kernel, (kernel.shape[0], self.channels, -1, self.filters))
                kernel = tf.reshape(tf.transpose(rows, (0, 2, 1, 3)), kernel.shape)
            flat = len(self.window) == 1
            window, strides = ((1, *self.window), (1, *self.strides)) if flat else (self.window, self.strides)
            patches = tf.image.extract_patches(
                x[:, None] if flat else x, (1, *window, 1), (1, *strides, 1), (1, 1, 1, 1), "VALID"
            )
            rows = tf.reshape(patches, (-1, kernel.shape[0], kernel.shape[1]))
            y = tf.reshape(tf.einsum("bpk,pkf->bpf", rows, kernel), (-1, *self.counts, self.filters))
            if self.first:
                y = tf.transpose(y, (0, len(y.shape) - 1, *range(1, len(y.shape) - 1)))
            if self.bias is not None:  # Keras 2 reshaped it for channels first, instead of transposing it
                y += tf.reshape(self.bias, (self.filters, *self.counts)) if self.first else self.bias
            return self.activation(y)

    LocallyConnected.__name__ = name
    return LocallyConnected


def _any_threshold_relu() -> Any:
    """Return a ReLU whose threshold may be negative."""
    import keras

    class AnyThresholdReLU(keras.layers.ReLU):
        def __init__(self, threshold: float, **config: Any) -> None:
            super().__init__(**config)
            self.threshold = threshold

    return AnyThresholdReLU


def _strict_merge(name: str) -> Any:
    """Return a merging layer that keeps a step if the masks of all inputs keep it; Keras 3 keeps it if any mask does.

    An input without a mask keeps every step in Keras 2. In Keras 3 it makes the layer drop the other masks as well.
    """
    import keras

    class StrictMerge(getattr(keras.layers, name)):  # type: ignore[misc]
        def __init__(self, **config: Any) -> None:
            super().__init__(**config)
            # A single layer with its own name: operations would be named like layers of the file.
            self.joined_mask = _joined_mask()(getattr(self, "axis", None), name=f"{self.name}_mask")

        def compute_mask(self, inputs: Any, mask: Any = None) -> Any:
            if mask is None or all(m is None for m in mask):
                return None
            return self.joined_mask(inputs, [m for m in mask if m is not None], present=[m is not None for m in mask])

    StrictMerge.__name__ = MERGES[name].partition(">")[2]
    return StrictMerge


def _unmasked_merge(name: str) -> Any:
    """Return a merging layer that drops the masks of its inputs, as Keras 3.0 to 3.3 did for layers of several."""
    import keras

    class UnmaskedMerge(getattr(keras.layers, name)):  # type: ignore[misc]
        def compute_mask(self, inputs: Any, mask: Any = None) -> None:
            return None

    UnmaskedMerge.__name__ = MERGES_WITHOUT_MASKS[name].partition(">")[2]
    return UnmaskedMerge


def _joined_mask() -> Any:
    """Return a layer that joins the existing masks into one; with an axis, by concatenation."""
    import keras
    from keras import ops

    class JoinedMask(keras.layers.Layer):
        def __init__(self, axis: int | None, **config: Any) -> None:
            super().__init__(**config)
            self.axis = axis
            self.supports_masking = True  # its inputs may have masks

        def compute_mask(self, inputs: Any, previous_mask: Any) -> None:
            return None

        def call(self, inputs: Any, masks: Any, present: list[bool]) -> Any:
            if self.axis is None:
                return reduce(ops.logical_and, masks)
            left = iter(masks)
            whole = []
            for x, has_mask in zip(inputs, present, strict=True):
                everything = ops.ones_like(x, dtype="bool")
                mask = next(left) if has_mask else everything
                wide = ops.expand_dims(mask, -1) if len(mask.shape) < len(x.shape) else mask
                whole.append(ops.logical_and(wide, everything))
            return ops.all(ops.concatenate(whole, axis=self.axis), axis=-1)

    return JoinedMask
