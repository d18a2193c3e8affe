"""Ranges of a calibrated TensorFlow Lite file that are narrower than the ranges of all its samples."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.lite.python import schema_py_generated as schema

from convert.request.calibration import Histogram, parse_method

from .file_objects import LiteFile


def choose_ranges(file: LiteFile, samples: Iterable[Mapping[str, np.ndarray]], method: str) -> None:
    """Replace the ranges of values of the outermost graph, in place; ranges in the bodies of loops stay.

    The file is run on the samples again. Each value that has a range is counted into a histogram between the minimum
    and maximum found by calibration.
    """
    graph = file.model.subgraphs[0]
    found = {number: _histogram(tensor) for number, tensor in enumerate(graph.tensors) if _has_range(tensor)}
    interpreter = tf.lite.Interpreter(
        model_content=file.packed(),
        experimental_preserve_all_tensors=True,
        experimental_op_resolver_type=tf.lite.experimental.OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES,
    )
    inputs, _ = file.end_names(0)
    for sample in samples:
        for name, number in inputs.items():
            interpreter.resize_tensor_input(number, sample[name].shape)
        interpreter.allocate_tensors()
        for name, number in inputs.items():
            interpreter.set_tensor(number, sample[name])
        interpreter.invoke()
        for number, histogram in found.items():
            histogram.add(interpreter.get_tensor(number))
    for number, histogram in found.items():
        low, high = histogram.range(parse_method(method))
        graph.tensors[number].quantization.min = [low]
        graph.tensors[number].quantization.max = [high]


def _has_range(tensor: Any) -> bool:
    steps = tensor.quantization
    ranged = steps is not None and steps.min is not None and len(steps.min) == 1
    return bool(ranged and tensor.type == schema.TensorType.FLOAT32)


def _histogram(tensor: Any) -> Histogram:
    return Histogram(float(tensor.quantization.min[0]), float(tensor.quantization.max[0]))
