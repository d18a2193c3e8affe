"""Ranges of a calibrated TensorFlow Lite file, measured again on its samples."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from copy import copy
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.lite.python import schema_py_generated as schema

from convert.request.calibration import Histogram, parse_method

from .file_objects import LiteFile
from .kernel_rules import MOVING

Samples = Callable[[], Iterable[Mapping[str, np.ndarray]]]

_UNLIKE = 4
"""A range that is so many times wider is another range: it costs a value two of its eight bits."""


def choose_ranges(
    file: LiteFile, samples: Samples, method: str, floats: Collection[int] = (), *, wide: bool = False
) -> None:
    """Replace the ranges of values of the outermost graph, in place; ranges in the bodies of loops stay.

    floats: the operators, by number, that will compute in floats. wide: whether the others compute in 16 bits.

    The calibrator of TensorFlow 2.21 reads the inputs of an operator after its run. If the result shares their memory,
    as a sum or a product may, an input gets the range of the result too. Here each value has memory of its own.
    """
    graph, chosen = file.model.subgraphs[0], parse_method(method)
    computed = {int(t) for operator in graph.operators for t in operator.outputs} | set(map(int, graph.inputs))
    ranged = [number for number in sorted(computed) if has_range(graph.tensors[number])]
    found = {number: Histogram(*ends) for number, ends in _ends(file, samples, ranged).items()}
    if not chosen.is_plain:
        for number, array in _values(file, samples, list(found)):
            found[number].add(array)
    centred = _centred(file, floats)
    for number, histogram in found.items():
        low, high = histogram.range(chosen, wide=wide)
        if number in centred:
            high = max(high, -low)
            low = -high * 128 / 127
        graph.tensors[number].quantization.min = [low]
        graph.tensors[number].quantization.max = [high]


def _centred(file: LiteFile, floats: Collection[int]) -> set[int]:
    """Return the second factors of batched products in 8 bits, and the values that they are moved from.

    XNNPACK of TensorFlow 2.21 takes their zero point for 0.
    """
    graph = file.model.subgraphs[0]
    makers = {int(t): operator for operator in graph.operators for t in operator.outputs}
    products = [o for n, o in enumerate(graph.operators) if n not in floats and file.name(o) == "BATCH_MATMUL"]
    waiting = [int(o.inputs[1]) for o in products]
    found: set[int] = set()
    while waiting:
        tensor = waiting.pop()
        maker = makers.get(tensor)
        if tensor not in found and maker is not None and file.name(maker) in MOVING:
            places, _ = MOVING[file.name(maker)]
            waiting += [int(t) for t in (maker.inputs if places is None else [maker.inputs[p] for p in places])]
        found.add(tensor)
    return found


def _ends(file: LiteFile, samples: Samples, numbers: list[int]) -> dict[int, tuple[float, float]]:
    """Return the least and the largest finite number of each value that has any."""
    found: dict[int, tuple[float, float]] = {}
    for number, array in _values(file, samples, numbers):
        finite = array[np.isfinite(array)]
        if finite.size:
            low, high = found.get(number, (np.inf, -np.inf))
            found[number] = min(low, float(finite.min())), max(high, float(finite.max()))
    return found


def _values(file: LiteFile, samples: Samples, numbers: list[int]) -> Iterator[tuple[int, np.ndarray]]:
    """Run the file on each sample and yield the values with these numbers."""
    interpreter = tf.lite.Interpreter(
        model_content=file.packed(),
        experimental_preserve_all_tensors=True,
        experimental_op_resolver_type=tf.lite.experimental.OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES,
    )
    inputs, _ = file.io_names(0)
    for sample in samples():
        for name, number in inputs.items():
            interpreter.resize_tensor_input(number, sample[name].shape)
        interpreter.allocate_tensors()
        for name, number in inputs.items():
            interpreter.set_tensor(number, sample[name])
        interpreter.invoke()
        for number in numbers:
            yield number, interpreter.get_tensor(number)


def separate_joined(file: LiteFile) -> None:
    """Put an operator of its own before a part of a concatenation that is far narrower and also used elsewhere.

    A part gets the steps of the concatenation, and so do the values that it is moved from: a split, a transpose. In a
    YOLOv5 head this leaves two steps to the sigmoid that sizes of boxes are computed from. A LEAKY_RELU with slope 1
    has steps of its own on both sides; TensorFlow 2.21 would remove a product with 1.
    """
    for number, graph in enumerate(file.model.subgraphs):
        makers = {int(t): operator for operator in graph.operators for t in operator.outputs}
        uses = Counter(
            [int(t) for operator in graph.operators for t in operator.inputs] + list(map(int, graph.outputs))
        )
        written = []
        for operator in graph.operators:
            if file.name(operator) == "CONCATENATION" and has_range(graph.tensors[int(operator.outputs[0])]):
                parts = [int(t) for t in operator.inputs]
                for place, part in enumerate(parts):
                    if _is_narrow_part(graph, part, operator) and _is_used_elsewhere(file, part, makers, uses):
                        written.append(with_own_steps(file, number, part))
                        parts[place] = int(written[-1].outputs[0])
                operator.inputs = parts
            written.append(operator)
        graph.operators = written


def _is_narrow_part(graph: Any, part: int, joined: Any) -> bool:
    tensors = [graph.tensors[part], graph.tensors[int(joined.outputs[0])]]
    if not all(map(has_range, tensors)):
        return False
    own, whole = (max(t.quantization.max[0], 0) - min(t.quantization.min[0], 0) for t in tensors)
    return bool(own * _UNLIKE < whole)


def _is_used_elsewhere(file: LiteFile, tensor: int, makers: Mapping[int, Any], uses: Mapping[int, int]) -> bool:
    """Return whether several operators use a value, or one that it is moved from."""
    if uses[tensor] > 1:
        return True
    maker = makers.get(tensor)
    if maker is None or file.name(maker) not in MOVING:
        return False
    places, _ = MOVING[file.name(maker)]
    before = maker.inputs if places is None else [maker.inputs[place] for place in places]
    return len(maker.outputs) > 1 or any(_is_used_elsewhere(file, int(t), makers, uses) for t in before)


def with_own_steps(file: LiteFile, subgraph: int, tensor: int) -> Any:
    """Return an operator that copies a tensor to another tensor with the same range."""
    tensors = file.model.subgraphs[subgraph].tensors
    made = file.add_like(subgraph, f"{tensors[tensor].name.decode()}_part", tensor)
    tensors[made].quantization = copy(tensors[tensor].quantization)
    operator = file.new_operator("LEAKY_RELU", [tensor], [made], 1)
    operator.builtinOptionsType, operator.builtinOptions = (
        schema.BuiltinOptions.LeakyReluOptions,
        schema.LeakyReluOptionsT(),
    )
    operator.builtinOptions.alpha = 1.0
    return operator


def has_range(tensor: Any) -> bool:
    """Return whether a tensor is float32 and has a calibrated range."""
    steps = tensor.quantization
    ranged = steps is not None and steps.min is not None and len(steps.min) == 1
    return bool(ranged and tensor.type == schema.TensorType.FLOAT32)
