"""Functions and Keras models in memory: TensorFlow traces them into a graph, with weights bound from the variables."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import onnx_ir as ir

from convert.errors import Unsupported, UsageError
from convert.graph.inputs import match_specs
from convert.graph.tensors import lazy_tensor, tensor_of
from convert.outcome.report import Report
from convert.request.options import InputSpec, Options
from convert.runtimes.start_tensorflow import import_tensorflow

from ..graph.attributes import dtype_of
from ..graph.function_body import body_from_graph
from ..graph.lookup_tables import LookupTable
from ..graph.protos import parse_message
from ..graph.variables import Variable
from ..program import Program, ProgramInput
from ..runner.keras_data_layers import image_layers_of_integers
from ..runner.keras_subclassed import batch_left_open, with_inputs
from ..runner.keras_time_distributed import fold_time_distributed
from ..runner.lookup_tables import captured_tables
from ..runner.names import captured_variables, function_names, keras_names


def program_from_keras(model: Any, options: Options, report: Report) -> Program:
    """Return the program of a built Keras model in inference mode. Raises `UsageError` if its inputs are unknown."""
    tf = import_tensorflow()
    import keras

    if keras.backend.backend() != "tensorflow":
        raise Unsupported(f"Keras runs on {keras.backend.backend()}", hint="set KERAS_BACKEND=tensorflow")
    model = with_inputs(model, options)
    inputs, outputs = keras_names(model)
    given = match_specs(inputs, options.inputs)
    specs = [
        tf.TensorSpec(_merge_shape(batch_left_open(model, x.shape), given.get(name)), x.dtype, name=f"input_{i}")
        for i, (name, x) in enumerate(zip(inputs, model.inputs, strict=True))
    ]
    structure = getattr(model, "_inputs_struct", None)

    def call(*values: Any) -> Any:
        packed = keras.tree.pack_sequence_as(structure, list(values)) if structure is not None else values[0]
        return keras.tree.flatten(model(packed, training=False))

    try:
        with fold_time_distributed(model):
            concrete = tf.function(call, autograph=False, jit_compile=False).get_concrete_function(*specs)
    except Exception as error:
        raise Unsupported(
            f"Keras cannot trace {model.name!r} with the sizes that it leaves open: {_error_summary(error)}",
            hint="give these sizes, for instance --input x:float32[batch,64,64,3]",
        ) from error
    program = _program_of_concrete(concrete, model.name, inputs, outputs)
    program.one_batch = True  # `fit` and `predict` reject inputs with different numbers of rows
    if found := _called_in_training(model):
        program.mode = (
            f"{', '.join(found)} called with training=True inside of the model: model(x) does there what training does "
            "(draws numbers, takes the statistics of a batch), predict does not, and it is predict that is converted"
        )
        report.note(program.mode, code="training-mode")
    if found := image_layers_of_integers(model):
        report.note(
            f"{', '.join(found)} of integers: model(x) rounds there to integers, predict does not, and it is predict "
            "that is converted",
            code="kernel-ways",
        )
    return program


_SAME_IN_TRAINING = ("AutoContrast", "CenterCrop", "Equalization", "MaxNumBoundingBoxes", "Resizing")
"""Keras's image layers that use no random numbers; `training` defaults to True in all image layers."""


def _called_in_training(model: Any) -> list[str]:
    """Return the layers that a functional model, or one inside it, calls with training=True. `predict` overrides that
    argument.
    """
    import keras

    same = tuple(getattr(keras.layers, name) for name in _SAME_IN_TRAINING if hasattr(keras.layers, name))
    found = []
    for operation in getattr(model, "operations", ()):
        calls = [] if type(operation) in same else [node.arguments for node in operation._inbound_nodes]
        if getattr(operation, "_call_has_training_arg", False) and any(c.kwargs.get("training") is True for c in calls):
            found.append(operation.name)
        found += _called_in_training(operation)
    return found


def _error_summary(error: Exception) -> str:
    """Return the first lines of an error, without the colours and tensors that Keras adds."""
    text = re.sub(r"\x1b\[\d*m", "", str(error)).partition("Arguments received by")[0]
    return f"{type(error).__name__}: {' '.join(text.split())[:300]}"


def program_from_function(function: Any, options: Options, report: Report) -> Program:
    """Return the program of a tf.function or ConcreteFunction. Raises `UsageError` if it needs a signature."""
    concrete = function
    if not hasattr(function, "captured_inputs"):
        concrete = _concrete_function(function, options.inputs)
    inputs, outputs = function_names(concrete)
    return _program_of_concrete(concrete, concrete.name.decode(), inputs, outputs)


def _concrete_function(function: Any, specs: Sequence[InputSpec]) -> Any:
    import tensorflow as tf

    if function.input_signature is not None:
        return function.get_concrete_function()
    if not specs or any(s.shape is None for s in specs):
        raise UsageError(
            "a tf.function without input_signature can be called in many ways",
            hint='say which: inputs=["x:float32[batch,28,28,1]"], or give a ConcreteFunction',
        )
    tensors = [tf.TensorSpec([d.size for d in s.shape or ()], s.dtype or "float32", name=s.name) for s in specs]
    return function.get_concrete_function(*tensors)


def _program_of_concrete(concrete: Any, name: str, inputs: Sequence[str], outputs: Sequence[str]) -> Program:
    graph = concrete.graph
    buffer = memoryview(graph.as_graph_def().SerializeToString())
    message = parse_message(buffer, "GraphDef", name)
    variables = {id(v.handle): (own, v) for own, v in captured_variables(concrete).items()}
    tables = captured_tables(concrete)
    captured = [_captured_value(value, variables, tables) for value in concrete.captured_inputs]
    arguments = [t.op.name for t in concrete.inputs]
    results = [t.name for t in concrete.outputs]
    body = body_from_graph(message, name, arguments, results, [o.name for o in graph.control_outputs])
    described = [
        ProgramInput(key, t.dtype.as_datatype_enum, None if t.shape.rank is None else tuple(t.shape.as_list()))
        for key, t in zip(inputs, concrete.inputs, strict=False)
    ]
    functions = {f.signature.name: f for f in message.library.function}
    return Program(name, body, described, list(outputs), functions, captured=captured, buffer=buffer)


def _captured_value(
    value: Any, variables: Mapping[int, tuple[str, Any]], tables: Mapping[int, tuple[np.ndarray, np.ndarray]]
) -> Variable | LookupTable | ir.TensorProtocol:
    """Return a captured value as a variable, whose content is read when it is written out, as a table, or as a
    constant.

    `variables` are the possible variables with their names, and `tables` their content, by the `id` of their handle.
    """
    if id(value) in tables:
        return LookupTable("captured", *(_tensor_of_array(content) for content in tables[id(value)]))
    if id(value) in variables:
        name, variable = variables[id(value)]
        dtype = dtype_of(variable.dtype.base_dtype.as_datatype_enum)
        if dtype is None:
            raise Unsupported(f"the variable {variable.name!r} has a dtype without numbers")
        dims = None if variable.shape.rank is None else tuple(variable.shape.as_list())
        static = dims is not None and None not in dims
        sizes = variable.shape.as_list() if static else _variable_content(variable).shape
        return Variable(name, lazy_tensor(dtype, sizes, partial(_variable_content, variable)), shape=dims)
    if value.dtype.name in ("resource", "variant"):
        raise Unsupported("the function uses a resource that is neither a variable nor a table that can be read")
    return _tensor_of_array(value.numpy())


def _tensor_of_array(content: Any) -> ir.TensorProtocol:
    array = np.asarray(content)
    if array.dtype.kind == "O":
        return ir.StringTensor(array.reshape(-1).tolist(), shape=ir.Shape(array.shape))
    return tensor_of(array)


def _variable_content(variable: Any) -> np.ndarray:
    """Read the variable eagerly: a backend may ask for it while it builds its own graph."""
    from tensorflow.python.eager.context import eager_mode

    with eager_mode():
        return variable.numpy()


def _merge_shape(shape: Sequence[int | None], spec: InputSpec | None) -> list[int | None]:
    if spec is None or spec.shape is None or len(spec.shape) != len(shape):
        return list(shape)
    return [own if own is not None else wanted.size for own, wanted in zip(shape, spec.shape, strict=True)]
