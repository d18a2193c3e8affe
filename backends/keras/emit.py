"""Runs the rules over the graph in order; each adds layers and operations to a functional model."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import keras
import onnx_ir as ir
from keras import KerasTensor, layers

from convert.errors import ConvertError, Location, Problem, ResourceLimit, Unsupported
from convert.graph import location_of
from convert.graph.metadata import CHANNELS_LAST
from convert.graph.trainable import is_marked, non_trainable

from . import ops  # noqa: F401  (fills the table)
from .constants import Constant, keras_dtype
from .emitter import Emitter, Value
from .names import UniqueNames
from .rules import OWN, key_of, onnx_op
from .tensors import dims_of_value

_HINT = "--to tf writes what Keras has no layer for"


@dataclass
class EmittedModel:
    """A functional model in symbolic form: nothing has been computed, and no weight has been read."""

    inputs: list[tuple[str, KerasTensor]] = field(default_factory=list)
    outputs: list[tuple[str, KerasTensor]] = field(default_factory=list)
    weights: list[tuple[layers.Layer, str, Constant]] = field(default_factory=list)
    """The content of each variable: layer, name of the layer's attribute, constant."""


def emit(model: ir.Model) -> EmittedModel:
    """Return the model as a functional model. Raises one `Unsupported` that lists every node that Keras cannot
    express.
    """
    if not model.graph.inputs:
        raise Unsupported("a Keras model has inputs, and this one has none", hint=_HINT)
    names = UniqueNames([v.name or "" for v in (*model.graph.inputs, *model.graph.outputs)])
    k, values = Emitter(names), dict[ir.Value, Value]()
    problems: list[Problem] = []
    marked, fixed = is_marked(model), non_trainable(model)
    for value in model.graph.inputs:
        try:
            values[value] = k.enter(value)
        except Unsupported as error:
            problems += error.with_location(Location("input", value.name or "")).problems
    for value in model.graph.initializers.values():
        try:
            values.setdefault(value, _constant(value, value not in fixed if marked else None))
        except Unsupported as error:
            problems += error.with_location(Location("weight", value.name or "")).problems
    for node in model.graph:
        problems += _emit_node(k, node, values, bool(problems))
    if problems:
        raise Unsupported(problems=list(_merge_problems(problems)), hint=_HINT)
    found = EmittedModel(weights=k.weights)
    found.inputs = [(v.name or "input", values[v]) for v in model.graph.inputs]
    for i, value in enumerate(model.graph.outputs):
        found.outputs.append((value.name or f"output_{i}", names.as_output(value.name or "", values[value], k.live)))
    return found


def _emit_node(k: Emitter, node: ir.Node, values: dict[ir.Value, Value], refused: bool) -> Sequence[Problem]:
    """Emit one node. If that fails, return the reason and leave stand-ins, so that later nodes can be checked too.

    A rule may fail because a stand-in lacks something. So once a node is `refused`, other failures are not reported.
    """
    at = location_of(node)
    at = replace(at, operator=at.operator.removeprefix(f"{CHANNELS_LAST}::").removeprefix(f"{OWN}::"))
    try:
        onnx_op.check_nodes([(node, at)], key_of)
        if any(v is not None and v not in values for v in node.inputs):
            return []
        made = k.apply(node, values, at)
        problems: Sequence[Problem] = ()
    except Unsupported as error:
        made, problems = [_placeholder_tensor(v) for v in node.outputs], error.with_location(at).problems
    except ConvertError as error:
        if not refused or isinstance(error, ResourceLimit):
            raise
        return []
    values.update((v, m) for v, m in zip(node.outputs, made, strict=False) if m is not None)
    return problems


def _constant(value: ir.Value, trainable: bool | None) -> Constant:
    assert value.const_value is not None
    return Constant(value.const_value, value.name or "weight", trainable=trainable)


def _placeholder_tensor(value: ir.Value) -> KerasTensor | None:
    """Return a tensor of the dtype and shape in the graph; None if they are unknown."""
    try:
        shape = [d if isinstance(d, int) else None for d in dims_of_value(value)]
        return keras.Input(batch_shape=shape, dtype=keras_dtype(value.dtype))
    except Unsupported:
        return None


def _merge_problems(problems: Sequence[Problem]) -> Iterator[Problem]:
    """Yield one problem per operator and reason, with the number of nodes."""
    groups: dict[tuple[str, str], list[Problem]] = {}
    for problem in problems:
        groups.setdefault((problem.at.operator, problem.why), []).append(problem)
    for (_, why), group in groups.items():
        yield Problem(why, group[0].at, len(group))
