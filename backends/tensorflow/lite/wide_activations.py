"""Quantizes a calibrated file to activations in 16 bits and weights in 8.

TensorFlow 2.21 does this with its older quantizer, which has no list of operators that stay in floats. It gives
integers to operators whose kernels take none (SQUARED_DIFFERENCE, PADV2). It gives the scale of the input to the result
of SUM, which overflows. Here an operator is quantized only if `kernel_rules.py` has a kernel in 16 bits for it. The
others go through the quantizer as SIN, which it leaves in floats, and get their own codes back afterwards.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np
import tensorflow as tf
from tensorflow.lite.python import schema_py_generated as schema
from tensorflow.lite.python.optimize.calibrator import Calibrator

from .calibrated_ranges import has_range
from .file_objects import LiteFile
from .kernel_costs import WEIGHTED
from .kernel_rules import COMPUTING, CONTROL, MOVING


def quantize_wide(file: LiteFile, floats: Sequence[Collection[int]]) -> bytes:
    """Return a calibrated file with activations in 16 bits and weights in 8; `file` is changed.

    floats: for each subgraph, the operators by number that stay in floats besides those without a kernel in 16 bits.
    """
    codes = [_hide(file, number, chosen) for number, chosen in enumerate(floats)]
    _separate_constants(file)
    _widen_zeros(file)
    quantizer = Calibrator(file.packed())
    found = LiteFile(
        quantizer.calibrate_and_quantize(
            lambda: iter(()), tf.float32, tf.float32, True, activations_type=tf.int16, bias_type=tf.int64
        )
    )
    for graph, own in zip(found.model.subgraphs, codes, strict=True):
        hidden = [operator for operator in graph.operators if found.name(operator) == "SIN"]
        # The quantizer makes integers of an input of the model, although an earlier operator reads it in floats.
        real = {int(o.outputs[0]): int(o.inputs[0]) for o in graph.operators if _rounds_an_input(found, graph, o)}
        for operator, code in zip(hidden, own, strict=True):
            found.set_code(operator, code)
            operator.inputs = [real.get(int(t), int(t)) for t in operator.inputs]
    return found.packed()


def _widen_zeros(file: LiteFile) -> None:
    """Give a range to values that were 0 in all samples. The quantizer gives them a scale of 0, at which ADD aborts the
    process.
    """
    for graph in file.model.subgraphs:
        for tensor in filter(has_range, graph.tensors):
            if tensor.quantization.min[0] == tensor.quantization.max[0] == 0:
                tensor.quantization.max = [1.0]


def _rounds_an_input(file: LiteFile, graph: schema.SubGraphT, operator: schema.OperatorT) -> bool:
    return file.name(operator) == "QUANTIZE" and int(operator.inputs[0]) in set(map(int, graph.inputs))


def _hide(file: LiteFile, number: int, chosen: Collection[int]) -> list[tuple[int, int]]:
    """Replace the codes of the operators of a subgraph that stay in floats, and return their own, in order."""
    codes = []
    for place in _in_floats(file, number, chosen):
        operator = file.model.subgraphs[number].operators[place]
        codes.append(file.code(operator))
        file.set_code(operator, (schema.BuiltinOperator.SIN, 1))
    return codes


def _separate_constants(file: LiteFile) -> None:
    """Give each operator constants of its own, in memory of their own. Weights stay shared, because their steps do not
    depend on the operator.

    The quantizer writes integers to the memory of a constant, with the steps of one of its operators. A bias that a
    head adds at several sizes of a picture would be wrong at all sizes but one, and an operator in floats would read
    integers.
    """
    owners: dict[int, tuple[object, ...]] = {}
    copies: dict[tuple[object, ...], int] = {}
    for number, graph in enumerate(file.model.subgraphs):
        for row, operator in enumerate(graph.operators):
            name = file.name(operator)
            weight = COMPUTING[name].weight if name in COMPUTING else None
            for place, tensor in enumerate(map(int, operator.inputs)):
                content = file.constant(number, tensor)
                if content is None or content.dtype != np.float32:
                    continue
                owner = (number, tensor, *((name,) if place == weight else (row, place)))
                if owners.setdefault(graph.tensors[tensor].buffer, owner) != owner:
                    if owner not in copies:
                        copies[owner] = file.add_copy(number, tensor)
                    operator.inputs[place] = copies[owner]


def _in_floats(file: LiteFile, number: int, chosen: Collection[int]) -> list[int]:
    """Return the operators of a subgraph, by number, that stay in floats.

    They are those that are chosen, and those without a kernel or a calibrated range. An operator without weights also
    stays if it reads the results of such operators alone, such as the sum in log(1 + exp(x)).
    """
    graph = file.model.subgraphs[number]
    floats, found = set[int](), []
    for place, operator in enumerate(graph.operators):
        name, given = file.name(operator), [t for t in map(int, operator.inputs) if _is_float(graph, t)]
        results = [t for t in map(int, operator.outputs) if _is_float(graph, t)]
        computed = {t for t in given if file.constant(number, t) is None}
        behind = bool(computed) and computed <= floats and name not in WEIGHTED
        ranged = all(has_range(graph.tensors[t]) for t in (*computed, *results))
        kernel = _has_kernel(name) and ranged and bool(given or results)  # the quantizer refuses moves of integers
        if name not in CONTROL and (place in chosen or behind or not kernel):
            found.append(place)
            floats.update(results)
    return found


def _has_kernel(name: str) -> bool:
    """Return whether an operator has a kernel for int16."""
    computing, moving = COMPUTING.get(name), MOVING.get(name)
    return "int16" in ((computing and computing.dtypes) or (moving and moving[1]) or ())


def _is_float(graph: schema.SubGraphT, tensor: int) -> bool:
    return bool(tensor >= 0 and graph.tensors[tensor].type == schema.TensorType.FLOAT32)
