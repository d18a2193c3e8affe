"""Runs TensorFlow models that change variables, starting from the values in a feed, so that a call is a function."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from convert.errors import UsageError
from convert.graph.metadata import state_output
from convert.graph.written_numbers import unrounded_number
from convert.request.options import Options

from ..graph.refused import CHANGES
from .complex_pairs import fed_array, with_pairs
from .graph_signature import defaulted_inputs
from .names import captured_variables, choose_signature, distinct_names, state_inputs, variable_names
from .optimizer import session_config


@dataclass(frozen=True)
class StatefulGraph:
    """A GraphDef with its variables: `inputs` and `outputs` are tensors by name, `effects` are nodes that also run.

    `variables` maps names to nodes and their content. A node that is a captured resource represents a variable that is
    created later.
    """

    graph: Any
    inputs: Mapping[str, str]
    outputs: Mapping[str, str]
    variables: Mapping[str, tuple[str, np.ndarray]]
    effects: Sequence[str] = ()


def run_stateful(
    model: StatefulGraph, feeds: Sequence[Mapping[str, np.ndarray]], *, precision: str
) -> list[dict[str, np.ndarray]]:
    """Return the outputs of each call, followed by the content after it of the variables that the feed names.

    Every call starts from the saved values, or those in the feed. Raises `UsageError` for an unknown input.
    """
    import tensorflow as tf

    graph_def, config = model.graph, session_config()
    if precision == "float64":
        from .float64 import widen_graph

        graph_def = widen_graph(graph_def)
        config.graph_options.rewrite_options.disable_meta_optimizer = True
    states = _state_variables(model)
    with tf.Graph().as_default() as graph, tf.compat.v1.Session(graph=graph, config=config) as session:
        cells = _import_graph(graph_def, model, graph, precision == "float64")
        found = []
        for feed in feeds:
            if unknown := [name for name in feed if name not in model.inputs and name not in states]:
                raise UsageError(f"the model has no input {unknown[0]!r}", hint=f"inputs: {', '.join(model.inputs)}")
            for cell in cells.values():
                cell.assign(session, cell.initial)
            for name in [n for n in feed if n not in model.inputs]:
                cells[states[name]].assign(session, feed[name])
            values = {graph.get_tensor_by_name(t): feed[n] for n, t in model.inputs.items() if n in feed}
            values = {t: fed_array(v, t.dtype) for t, v in values.items()}
            effects = [graph.get_operation_by_name(e) for e in model.effects]
            results = session.run([list(model.outputs.values()), effects], values)[0]
            outputs = with_pairs(dict(zip(model.outputs, map(np.asarray, results), strict=True)))
            for name in [n for n in feed if n not in model.inputs]:
                outputs[state_output(name)] = np.asarray(session.run(cells[states[name]].content))
            found.append(outputs)
    return found


def _state_variables(model: StatefulGraph) -> dict[str, str]:
    """Return the variables by the names of their graph inputs."""
    named = state_inputs(model.variables, [*model.inputs, *model.outputs])
    return {name: variable for variable, name in named.items()}


@dataclass(frozen=True)
class _SessionVariable:
    """A variable in a session."""

    content: Any
    given: Any
    assignment: Any
    initial: np.ndarray

    def assign(self, session: Any, value: np.ndarray) -> None:
        session.run(self.assignment, {self.given: np.asarray(value, self.given.dtype.as_numpy_dtype)})


def _import_graph(graph_def: Any, model: StatefulGraph, graph: Any, wide: bool) -> dict[str, _SessionVariable]:
    """Import the graph, and add nodes that assign to its variables and read them."""
    import tensorflow as tf

    raw, v1 = tf.raw_ops, tf.compat.v1
    operators = {n.name: n.op for n in graph_def.node}
    made, dtypes = {}, {}
    for i, (name, (node, value)) in enumerate(model.variables.items()):
        dtypes[name] = tf.float64 if wide and value.dtype.kind in "fV" else tf.as_dtype(value.dtype)
        if operators.get(node) not in ("VarHandleOp", "VariableV2", "Variable"):
            made[f"{node}:0"] = raw.VarHandleOp(dtype=dtypes[name], shape=tf.TensorShape(None), shared_name=f"state{i}")
    v1.import_graph_def(graph_def, made, name="")
    cells = {}
    for name, (node, value) in model.variables.items():
        handle = made[f"{node}:0"] if f"{node}:0" in made else graph.get_tensor_by_name(f"{node}:0")
        given = v1.placeholder(dtypes[name], None)
        resource = handle.dtype == tf.resource
        assignment = (
            raw.AssignVariableOp(resource=handle, value=given)
            if resource
            else raw.Assign(ref=handle, value=given, validate_shape=False)
        )
        content = raw.ReadVariableOp(resource=handle, dtype=dtypes[name]) if resource else tf.identity(handle)
        exact = value.dtype == np.float32 and value.size == 1 and wide
        initial = np.full(value.shape, unrounded_number(value.item())) if exact else value
        cells[name] = _SessionVariable(content, given, assignment, initial)
    return cells


# -- where models come from -------------------------------------------------------------------------------------------


def stateful_from_session(session: Any, inputs: Mapping[str, str], outputs: Mapping[str, str]) -> StatefulGraph:
    """Return the graph of a session in which the variables have been restored."""
    graph = session.graph.as_graph_def()
    handles = {n.name: n for n in graph.node if n.op in ("VarHandleOp", "VariableV2", "Variable")}
    variables: dict[str, tuple[str, np.ndarray]] = {}
    for node in handles.values():
        (name,) = variable_names([node])
        content = _variable_content(session, node)
        if name not in variables and content is not None:
            variables[name] = (node.name, content)
    return StatefulGraph(graph, inputs, outputs, variables)


def _variable_content(session: Any, node: Any) -> np.ndarray | None:
    """Return the content of a variable, or None if it was never assigned."""
    import tensorflow as tf

    tensor = session.graph.get_tensor_by_name(f"{node.name}:0")
    with session.graph.as_default():
        if tensor.dtype == tf.resource:
            tensor = tf.raw_ops.ReadVariableOp(resource=tensor, dtype=node.attr["dtype"].type)
        try:
            return np.asarray(session.run(tensor))
        except tf.errors.FailedPreconditionError:
            return None


def stateful_from_saved_model(folder: Path, options: Options) -> StatefulGraph:
    """Return the graph of one signature of a SavedModel, loaded by a session."""
    import tensorflow as tf

    v1 = tf.compat.v1
    with tf.Graph().as_default() as graph, v1.Session(graph=graph) as session:
        meta = v1.saved_model.loader.load(session, ["serve"], str(folder))
        signatures = [k for k in meta.signature_def if not k.startswith("__")]
        signature = meta.signature_def[choose_signature(signatures, options.signature)]
        inputs, outputs = ({k: i.name for k, i in sorted(s.items())} for s in (signature.inputs, signature.outputs))
        inputs |= defaulted_inputs(graph.as_graph_def(), inputs, [s.name for s in options.inputs])
        return stateful_from_session(
            session, inputs, dict(zip(distinct_names(inputs, outputs)[1], outputs.values(), strict=True))
        )


def changes_variables(concrete: Any) -> bool:
    """Return whether a ConcreteFunction, or a function in it, changes a variable."""
    graph = concrete.graph.as_graph_def()
    return any(n.op in CHANGES for nodes in (graph.node, *(f.node_def for f in graph.library.function)) for n in nodes)


def stateful_from_function(concrete: Any, inputs: Sequence[str], outputs: Sequence[str]) -> StatefulGraph:
    """Return the graph of a ConcreteFunction; captured values other than variables become constants."""
    import tensorflow as tf

    graph = concrete.graph.as_graph_def()
    nodes = {n.name: n for n in graph.node}
    by_handle = {id(v.handle): (name, v) for name, v in captured_variables(concrete).items()}
    first = len(concrete.inputs) - len(concrete.captured_inputs)
    variables = {}
    for value, tensor in zip(concrete.captured_inputs, concrete.inputs[first:], strict=True):
        if id(value) in by_handle:
            name, variable = by_handle[id(value)]
            variables[name] = (tensor.op.name, variable.numpy())
        else:
            node = nodes[tensor.op.name]
            node.op = "Const"
            node.attr.clear()
            node.attr["dtype"].type = value.dtype.as_datatype_enum
            node.attr["value"].tensor.CopyFrom(tf.make_tensor_proto(value.numpy()))
    ins = dict(zip(inputs, (t.name for t in concrete.inputs), strict=False))
    outs = dict(zip(outputs, (t.name for t in concrete.outputs), strict=True))
    return StatefulGraph(graph, ins, outs, variables, [o.name for o in concrete.graph.control_outputs])
