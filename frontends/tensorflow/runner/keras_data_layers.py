"""Keras's layers for pictures (Resizing and its like), which compute integers otherwise in a graph than outside of one.

In a graph, as `predict` and an exported model run, they take integers as floating numbers, as the description of the
model has them (Keras 3.15). Called outside of one they resize bytes to bytes, and what comes after them is rounded.
"""

from __future__ import annotations

from typing import Any


def picture_layers_of_integers(model: Any) -> list[str]:
    """The types of layers for pictures in a model with an input of integers, sorted."""
    from keras.src.layers.preprocessing.image_preprocessing import base_image_preprocessing_layer as base

    if not any("int" in str(x.dtype) for x in model.inputs):
        return []
    layers = [layer for layer in model._flatten_layers() if isinstance(layer, base.BaseImagePreprocessingLayer)]
    return sorted({type(layer).__name__ for layer in layers})
