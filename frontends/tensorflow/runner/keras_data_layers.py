"""Keras's image layers (Resizing and similar), which treat integers differently in a graph than outside it.

In a graph, as in `predict` and exported models, they convert integers to floats, as the model's description says (Keras
3.15). Called eagerly, they resize bytes to bytes, and later layers get rounded values.
"""

from __future__ import annotations

from typing import Any


def image_layers_of_integers(model: Any) -> list[str]:
    """Return the types of image layers in a model with an integer input, sorted."""
    from keras.src.layers.preprocessing.image_preprocessing import base_image_preprocessing_layer as base

    if not any("int" in str(x.dtype) for x in model.inputs):
        return []
    layers = [layer for layer in model._flatten_layers() if isinstance(layer, base.BaseImagePreprocessingLayer)]
    return sorted({type(layer).__name__ for layer in layers})
