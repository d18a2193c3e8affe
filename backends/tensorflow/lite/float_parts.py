"""Keeps operators of a calibrated file in floats when it is quantized."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy

from tensorflow.lite.python import schema_py_generated as schema

from .calibrated_ranges import with_own_steps
from .file_objects import LiteFile
from .kernel_rules import CONTROL, MOVING

_FLOAT32 = 0
"""The number of float32 among the dtypes of TensorFlow Lite."""


def operators_of(file: LiteFile, scopes: Sequence[str]) -> list[set[int]]:
    """Return, for each subgraph, the operators by number that compute the nodes in these scopes, and those that move
    their results.
    """
    found = []
    for graph in file.model.subgraphs:
        numbers, floats = set(), set[int]()
        for number, operator in enumerate(graph.operators):
            outputs = list(map(int, operator.outputs))
            named = [part for t in outputs for part in graph.tensors[t].name.decode().split(";")]
            moved = file.name(operator) in MOVING and floats & set(map(int, operator.inputs))
            if moved or any(_is_of(name, scopes) for name in named):
                numbers.add(number)
                floats.update(outputs)
        found.append(numbers)
    return found


def _is_of(name: str, scopes: Sequence[str]) -> bool:
    """Return whether an operation is in one of some scopes, given relative to the scope of the whole model, or has the
    name of one. The last part of a name is TensorFlow's operator, which a node of the model may be called as well.
    """
    name = name.partition(":")[0]
    return any(f"/{scope}/" in f"/{name}" or scope == name for scope in scopes)


Hidden = dict[str, tuple[tuple[int, int], schema.OperatorT]]
"""Operators that the converter gets as custom ones, by the names that they have meanwhile: their codes and copies."""


def keep_in_floats(file: LiteFile, operators: Sequence[set[int]]) -> tuple[set[str], Hidden]:
    """Return the names of the tensors that these operators of each subgraph compute, and the operators that are hidden
    from the converter; the file is prepared in place.

    The ranges of these tensors are removed. Otherwise the converter gives joined tensors a common scale, even if it
    leaves the operator that joins them in floats. The other operators that read such a tensor read a copy that has the
    range. They would compute in floats otherwise, with weights in floats.
    """
    kept = set()
    hidden: Hidden = {}
    for number, (graph, chosen) in enumerate(zip(file.model.subgraphs, operators, strict=True)):
        floats: set[int] = set()
        copies: dict[int, int] = {}
        written = []
        for place, operator in enumerate(graph.operators):
            given = list(map(int, operator.inputs))
            if place in chosen:
                floats.update(t for t in map(int, operator.outputs) if graph.tensors[t].type == _FLOAT32)
                _hide(file, number, operator, hidden)
            else:
                for tensor in floats & set(given) - set(copies):
                    written.append(with_own_steps(file, number, tensor))
                    copies[tensor] = int(written[-1].outputs[0])
                operator.inputs = [copies.get(t, t) for t in given]
            written.append(operator)
        graph.operators = written
        for tensor in floats:
            graph.tensors[tensor].quantization = None
        kept |= {graph.tensors[tensor].name.decode() for tensor in (*floats, *copies.values())}
    return kept, hidden


def _hide(file: LiteFile, number: int, operator: schema.OperatorT, hidden: Hidden) -> None:
    """Make a custom operator of one that the converter would quantize although its results are kept in floats.

    TensorFlow 2.21 finds operators that stay in floats by the name of their result. It finds none with several results,
    or with a result without a range. So the scores that TOPK_V2 sorts and GREATER compares had 255 steps.
    """
    graph = file.model.subgraphs[number]
    results = [graph.tensors[int(t)].type for t in operator.outputs]
    given = [graph.tensors[int(t)].type for t in operator.inputs if t >= 0]
    if results != [_FLOAT32] and _FLOAT32 in given and file.name(operator) not in CONTROL:
        name = f"kept{len(hidden)}"
        hidden[name] = file.code(operator), copy(operator)
        file.set_custom(operator, name)


def restore_floats(data: bytes, hidden: Hidden) -> bytes:
    """Return a file with the hidden operators, and without the copies of real numbers that `keep_in_floats` made."""
    file = LiteFile(data)
    for number, graph in enumerate(file.model.subgraphs):
        sources: dict[int, int] = {}
        for operator in graph.operators:
            if found := hidden.get(file.custom_name(operator)):
                code, own = found
                file.set_code(operator, code)
                operator.builtinOptionsType, operator.builtinOptions = own.builtinOptionsType, own.builtinOptions
                operator.customOptions = None
            operator.inputs = [sources.get(int(t), int(t)) for t in operator.inputs]
            if file.name(operator) == "LEAKY_RELU" and operator.builtinOptions.alpha == 1:
                source, copy = int(operator.inputs[0]), int(operator.outputs[0])
                if graph.tensors[source].type == graph.tensors[copy].type == _FLOAT32:
                    sources[copy] = source
        file.drop_unused(number)
    return file.packed()
