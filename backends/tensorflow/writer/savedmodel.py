"""Writes SavedModels and frozen graphs, with inputs and outputs named as in the model."""

from __future__ import annotations

from pathlib import Path

import onnx_ir as ir
import tensorflow as tf
from tensorflow.core.framework import graph_pb2
from tensorflow.python.framework.func_graph import FuncGraph

from convert.errors import DEFECT, ConvertError, ResourceLimit
from convert.outcome.report import Report
from convert.request.options import Options

from .. import ops  # noqa: F401  (fills the table)
from ..constants import Store, scope_name
from ..emit import check, dtype_and_shape, model_function, tensor_inputs
from ..options import WEIGHTS
from ..passes.legalize import legalize
from .checkpoint import write_variables
from .function_names import rename_functions, stable_names
from .graph_weights import Contents, write_graph
from .signature import Names, rename_signature

# A protocol buffer cannot hold 2 GiB or more.
_MESSAGE_LIMIT = 2**31 - 1


def write_saved_model(model: ir.Model, path: Path, options: Options, report: Report) -> None:
    """Write a SavedModel folder with the single signature `serving_default`. Weights are variables, trainable as in the
    source.

    With `WEIGHTS` "constants" the weights are constants of the single saved function.
    """
    legalize(model, options)
    check(model)
    constants = WEIGHTS.of(options) == "constants"
    if constants:
        _check_size(model)
    store = Store(variables=not constants, beside=not constants, model=model)
    function, outputs = trace_model(model, store)
    root = tf.__internal__.tracking.AutoTrackable()
    root.variables = store.variables
    root.trainable_variables = [v for v in store.variables if v.trainable]
    setattr(root, "__call__", function)  # noqa: B010  (an attribute of the object, not of its class)
    tf.saved_model.save(root, str(path), signatures=function)
    rename_signature(path, plain_names("input", input_names(model)), plain_names("output", outputs))
    write_variables(path, "variables", store.contents_of_variables)


def write_frozen(model: ir.Model, path: Path, options: Options, report: Report) -> None:
    """Write a GraphDef with a placeholder per input and an Identity per output, under their names."""
    legalize(model, options)
    check(model)
    definition, inputs, outputs, contents = frozen_graph(model)
    for wanted, name in [*inputs, *outputs]:
        if name != wanted:
            raise ConvertError(f"TensorFlow calls {wanted!r} {name!r} in a graph", hint=DEFECT)
    with open(path, "wb") as stream:
        write_graph(definition, contents, stream)


def frozen_graph(model: ir.Model) -> tuple[graph_pb2.GraphDef, Names, Names, Contents]:
    """Return the GraphDef of a legalized model, name pairs of inputs and of outputs, and the separate weights.

    A name pair has the name in the model and the name in the graph. Raises `ResourceLimit` for weights of 2 GiB or
    more.
    """
    _check_size(model)
    store = Store(variables=False, beside=True)
    # Not a tf.Graph: the content of a weight may be a TensorFlow variable, which is read in an init_scope.
    with FuncGraph("frozen").as_default() as graph:
        inputs = []
        for value in tensor_inputs(model):
            dtype, shape = dtype_and_shape(value)
            inputs.append(tf.compat.v1.placeholder(dtype, shape, scope_name(value.name or "input")))
        with tf.name_scope(_unique_scope([scope_name(value.name or "output") for value in model.graph.outputs])):
            found = model_function(model, store)(inputs)
        outputs = [(name, tf.identity(value, name=scope_name(name))) for name, value in found]
    # A reader of the graph would treat nodes that no output needs as additional outputs.
    kept = [x.op.name for x in (*inputs, *(value for _, value in outputs))]
    definition = _needed_nodes(graph.as_graph_def(), kept)
    given = list(zip(input_names(model), (x.op.name for x in inputs), strict=True))
    return definition, given, [(name, value.op.name) for name, value in outputs], store.contents


def _needed_nodes(definition: graph_pb2.GraphDef, names: list[str]) -> graph_pb2.GraphDef:
    """Return the nodes `names` and all nodes that they depend on, in the order of `definition`, with functions
    renumbered.
    """
    nodes = {node.name: node for node in definition.node}
    needed: set[str] = set()
    waiting = list(names)
    while waiting:
        name = waiting.pop()
        if name not in needed:
            needed.add(name)
            waiting += [x.removeprefix("^").partition(":")[0] for x in nodes[name].input]
    kept = [node for node in definition.node if node.name in needed]
    found = graph_pb2.GraphDef(node=kept, versions=definition.versions, library=definition.library)
    rename_functions(found, stable_names(found.library))
    return found


def trace_model(model: ir.Model, store: Store) -> tuple[tf.types.experimental.ConcreteFunction, list[str]]:
    """Trace the model once, as a function of `input_0000`, `input_0001` … that returns a dict of `output_0000` ….

    Also returns the model's names of the outputs; a sequence has one per element.
    """
    names = [safe for safe, _ in plain_names("input", input_names(model))]
    specs = [
        tf.TensorSpec(dtype_and_shape(v)[1], dtype_and_shape(v)[0], n)
        for n, v in zip(names, tensor_inputs(model), strict=True)
    ]
    run = model_function(model, store)
    found: list[str] = []

    def function(*inputs: tf.Tensor) -> dict[str, tf.Tensor]:
        outputs = run(inputs)
        found[:] = [name for name, _ in outputs]
        return {safe: y for (safe, _), (_, y) in zip(plain_names("output", found), outputs, strict=True)}

    # tf.function would trace twice, and lift the initial values of variables into the graph.
    concrete = tf.compat.v1.wrap_function(function, specs)
    concrete._arg_keywords = names
    concrete._num_positional_args = len(names)
    return concrete, found


def input_names(model: ir.Model) -> list[str]:
    """Return the model's names for the artefact's inputs."""
    return [value.name or f"input_{i}" for i, value in enumerate(tensor_inputs(model))]


def plain_names(kind: str, real: list[str]) -> list[tuple[str, str]]:
    """Return pairs of a name that TensorFlow accepts unchanged and the model's name.

    The new names sort like the model's: TensorFlow passes the arguments of a signature in the order of their names, so
    the order must stay the same after renaming.
    """
    rank = {name: i for i, name in enumerate(sorted(real))}
    return [(f"{kind}_{rank[name]:04d}", name) for name in real]


def _unique_scope(names: list[str]) -> str:
    """Return a name scope that no output's name can collide with."""
    scope = "model"
    while any(name.split("/")[0] == scope for name in names):
        scope += "_"
    return scope


def _check_size(model: ir.Model) -> None:
    size = sum(v.const_value.nbytes for v in model.graph.initializers.values() if v.const_value is not None)
    if size > _MESSAGE_LIMIT:
        raise ResourceLimit(
            f"the weights take {size / 2**30:.1f} GiB, and a TensorFlow graph holds less than 2",
            hint="write --to tf with --weights variables, which keeps weights beside the graph",
        )
