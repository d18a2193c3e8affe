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
from convert.rules.emitter import Known

from . import ops  # noqa: F401  (fills the table)
from .constants import Constant, keras_dtype
from .emitter import Emitter
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
    k = ModelEmitter(names, model)
    inputs = {v: k.enter_input(v) for v in model.graph.inputs}
    outputs = k.run(model.graph, dict(inputs))
    if k.problems:
        raise Unsupported(problems=list(_merge_problems(k.problems)), hint=_HINT)
    found = EmittedModel(weights=k.weights)
    found.inputs = [(v.name or "input", x) for v, x in inputs.items()]
    for i, (value, made) in enumerate(zip(model.graph.outputs, outputs, strict=True)):
        found.outputs.append((value.name or f"output_{i}", names.as_output(value.name or "", made, k.live)))
    return found


class ModelEmitter(Emitter):
    """Emits a whole model, and collects what Keras cannot express in `problems`.

    After a refusal it goes on with tensors of the node's dtypes and shapes, so that later nodes are checked too.
    """

    def __init__(self, names: UniqueNames, model: ir.Model) -> None:
        super().__init__(names)
        self.problems: list[Problem] = []
        self._marked, self._fixed = is_marked(model), non_trainable(model)

    def enter_input(self, value: ir.Value) -> KerasTensor | None:
        """Create a graph input; return None if Keras cannot have it."""
        try:
            return self.enter(value)
        except Unsupported as error:
            self.problems += error.with_location(Location("input", value.name or "")).problems
            return None

    def weight(self, value: ir.Value) -> Constant | None:
        try:
            assert value.const_value is not None
            trainable = value not in self._fixed if self._marked else None
            return Constant(value.const_value, value.name or "weight", trainable=trainable)
        except Unsupported as error:
            self.problems += error.with_location(Location("weight", value.name or "")).problems
            return None

    def location(self, node: ir.Node) -> Location:
        at = location_of(node)
        return replace(at, operator=at.operator.removeprefix(f"{CHANNELS_LAST}::").removeprefix(f"{OWN}::"))

    def emit_node(self, node: ir.Node, known: Known) -> None:
        at = self.location(node)
        try:
            onnx_op.check_nodes([(node, at)], key_of)
            if all(v is None or known.get(v) is not None for v in node.inputs):
                super().emit_node(node, known)
        except Unsupported as error:
            self.problems += error.with_location(at).problems
            known.update((v, _placeholder_tensor(v)) for v in node.outputs)
        except ConvertError as error:
            # A rule may fail because a placeholder lacks something.
            if not self.problems or isinstance(error, ResourceLimit):
                raise


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
