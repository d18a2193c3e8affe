"""Runs SavedModels, Keras models and frozen graphs with TensorFlow, in float32 as deployed or widened to float64."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from convert.errors import Unsupported, UsageError
from convert.outcome.extras import install_command
from convert.request.options import Options
from convert.request.source import Source
from convert.runtimes.start_tensorflow import import_tensorflow

from ..graph.lookup_tables import FILLING
from .allowed import checked_file
from .complex_pairs import fed_array, with_pairs
from .keras_data_layers import image_layers_of_integers
from .keras_subclassed import batch_left_open, with_inputs
from .keras_time_distributed import fold_time_distributed
from .kernels import check_kernels, environment, is_imported, settings
from .lookup_tables import captured_tables, insert_tables
from .names import choose_signature, distinct_names, function_names, keras_names
from .optimizer import keep_optimizer_short
from .session import Feeds, FrozenGraph, run_graph
from .stateful import (
    StatefulGraph,
    changes_variables,
    run_stateful,
    stateful_from_function,
    stateful_from_saved_model,
)

if TYPE_CHECKING:
    from convert.runtimes.generation import EncoderGeneration, Generation, Step
    from convert.runtimes.trace import Trace

__all__ = [
    "KINDS",
    "PROGRAMS",
    "available",
    "environment",
    "generate",
    "is_imported",
    "run",
    "run_as_used",
    "settings",
    "trace",
]

KINDS = (
    "savedmodel",
    "keras",
    "keras-h5",
    "frozen-graph",
    "tf-meta",
    "keras-object",
    "tf-function-object",
    "graphdef-object",
)

PROGRAMS = ("keras-h5",)
"""HDF5 files are checked in their own process before they are loaded."""


@dataclass(frozen=True)
class RunnableModel:
    """An opened model: `call` runs it as deployed, `freeze` returns its graph for a run in float64.

    `stateful` is its graph with variables, for feeds that set them. `changes` says whether it changes some: these
    cannot be constants, and a call would modify the user's model.
    """

    call: Callable[[Mapping[str, np.ndarray]], dict[str, np.ndarray]]
    freeze: Callable[[], FrozenGraph]
    inputs: Collection[str]
    stateful: Callable[[], StatefulGraph] | None = None
    changes: bool = False


def available() -> str:
    """Return an empty string if TensorFlow is installed, else what is missing."""
    return (
        ""
        if importlib.util.find_spec("tensorflow")
        else f"TensorFlow is not installed ({install_command('tensorflow')})"
    )


def run_as_used(source: Source, feeds: Feeds, options: Options) -> dict[str, list[dict[str, np.ndarray]]]:
    """Return outputs for each way of using the artefact: the first way on all feeds, other ways on the first feed."""
    from .as_used import KINDS as WITH_WAYS
    from .as_used import run_each_way

    with checked_file(source, options) as checked:
        import_tensorflow()
        check_kernels()
        keep_optimizer_short(checked)
        if checked.kind not in WITH_WAYS:
            return {"": _run_checked(checked, feeds, "float32", options)}
        try:
            return run_each_way(checked, feeds, options)
        except UsageError:
            if checked.kind != "savedmodel":
                raise
        # The file's users cannot set its variables, so no way of using it accepts such feeds.
        return {"": run_stateful(stateful_from_saved_model(checked.file, options), feeds, precision="float32")}


def run(source: Source, feeds: Feeds, *, precision: str, options: Options) -> list[dict[str, np.ndarray]]:
    """Return outputs by name for each dict of inputs.

    Raises `Unsupported` if an operator cannot be widened, and `UnsafeInput` for one that may do more than compute.
    """
    with checked_file(source, options) as checked:
        import_tensorflow()
        keep_optimizer_short(checked)
        return _run_checked(checked, feeds, precision, options)


def _run_checked(source: Source, feeds: Feeds, precision: str, options: Options) -> list[dict[str, np.ndarray]]:
    opened = _OPENERS[source.kind](source, options)
    if opened.stateful is not None and (opened.changes or any(set(feed) - set(opened.inputs) for feed in feeds)):
        return run_stateful(opened.stateful(), feeds, precision=precision)
    if precision == "float32":
        try:
            return [opened.call(feed) for feed in feeds]
        except Exception as error:
            if "OpKernel was registered" in str(error):
                raise Unsupported(f"TensorFlow lacks a kernel: {' '.join(str(error).split())[:300]}") from error
            raise
    from .float64 import widen_graph

    frozen = opened.freeze()
    return run_graph(replace(frozen, graph=widen_graph(frozen.graph)), feeds, precision=precision)


def generate(
    source: Source, how: Generation | EncoderGeneration, prompt: Mapping[str, np.ndarray], options: Options
) -> dict[str, np.ndarray]:
    """Generate greedily, as `generate_by_steps` does; for a SavedModel by its signature."""
    from convert.runtimes.generation import generate_by_steps

    import_tensorflow()
    check_kernels()

    with ExitStack() as files:

        def opened(path: Path) -> tuple[Step, dict[str, np.dtype]]:
            part = files.enter_context(checked_file(Source(source.kind, path), options))
            return _OPENERS[part.kind](part, options).call, {}

        return generate_by_steps(opened, source.file, how, prompt)


def trace(source: Source, feed: Mapping[str, np.ndarray], options: Options) -> Trace:
    """Return one run of the graph in float64, with a summary of every tensor."""
    with checked_file(source, options) as checked:
        import_tensorflow()
        from .float64 import widen_graph
        from .trace import trace_graph

        frozen = _OPENERS[checked.kind](checked, options).freeze()
        return trace_graph(replace(frozen, graph=widen_graph(frozen.graph)), feed)


# -- functions and Keras models -----------------------------------------------------------------------------------


def _concrete_runnable(concrete: Any, inputs: Sequence[str], outputs: Sequence[str], call: Any = None) -> RunnableModel:
    """Return a RunnableModel around a ConcreteFunction; `call` takes positional tensors and returns a flat list."""

    def run_one(feed: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        import tensorflow as tf

        tensors = [
            tf.constant(fed_array(feed[n], t.dtype), t.dtype) for n, t in zip(inputs, concrete.inputs, strict=False)
        ]
        results = tf.nest.flatten(call(*tensors)) if call else _call_flat(concrete, tensors)
        return with_pairs({name: np.asarray(value) for name, value in zip(outputs, results, strict=True)})

    def freeze() -> FrozenGraph:
        from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2

        constant = convert_variables_to_constants_v2(concrete, lower_control_flow=False)
        outs = dict(zip(outputs, (t.name for t in constant.outputs), strict=True))
        return _frozen_with_tables(concrete, constant, inputs, outs)

    stateful = partial(stateful_from_function, concrete, inputs, outputs)
    return RunnableModel(run_one, freeze, inputs, stateful, changes_variables(concrete))


def _frozen_with_tables(concrete: Any, constant: Any, inputs: Sequence[str], outputs: Mapping[str, str]) -> FrozenGraph:
    """Return the frozen graph; captured values other than variables (tables) become inputs after its own."""
    graph, tables = constant.graph.as_graph_def(), captured_tables(concrete)
    captured = [tables.get(id(v)) for v in concrete.captured_inputs if v.dtype.name == "resource" and id(v) in tables]
    rest = [t.op.name for t in constant.inputs[len(inputs) :]]
    first = insert_tables(graph, {n: t for n, t in zip(rest, captured, strict=True) if t is not None})
    return FrozenGraph(graph, {n: t.name for n, t in zip(inputs, constant.inputs, strict=False)}, outputs, first)


def _call_flat(concrete: Any, tensors: Sequence[Any]) -> list[Any]:
    import tensorflow as tf

    keywords = {t.name.partition(":")[0]: v for t, v in zip(concrete.inputs, tensors, strict=False)}
    positional, named = concrete.structured_input_signature
    names = {s.name for s in tf.nest.flatten(named)}
    if not tf.nest.flatten(positional) and names >= set(named):
        flat = {key: keywords.get(key, value) for key, value in zip(sorted(named), tensors, strict=True)}
        return tf.nest.flatten(concrete(**flat), expand_composites=True)
    args, kwargs = tf.nest.pack_sequence_as((positional, named), list(tensors))
    return tf.nest.flatten(concrete(*args, **kwargs), expand_composites=True)


def _keras_file_runnable(source: Source, options: Options) -> RunnableModel:
    from .keras_archive import load_keras

    return _keras_runnable(load_keras(source.file, trust=options.trust, code=options.code))


def _keras_object_runnable(source: Source, options: Options) -> RunnableModel:
    return _keras_runnable(with_inputs(source.model, options))


def _keras_runnable(model: Any) -> RunnableModel:
    import keras
    import tensorflow as tf

    inputs, outputs = keras_names(model)
    structure = getattr(model, "_inputs_struct", None)

    def call(*values: Any) -> Any:
        packed = keras.tree.pack_sequence_as(structure, list(values)) if structure is not None else values[0]
        return keras.tree.flatten(model(packed, training=False))

    shapes = [batch_left_open(model, x.shape) for x in model.inputs]
    specs = [
        tf.TensorSpec(s, x.dtype, name=f"input_{i}") for i, (s, x) in enumerate(zip(shapes, model.inputs, strict=True))
    ]
    with fold_time_distributed(model):
        concrete = tf.function(call, autograph=False, jit_compile=False).get_concrete_function(*specs)
    return _concrete_runnable(concrete, inputs, outputs, None if image_layers_of_integers(model) else call)


def _function_runnable(source: Source, options: Options) -> RunnableModel:
    concrete = source.model
    if not hasattr(concrete, "captured_inputs"):
        import tensorflow as tf

        specs = (
            []
            if concrete.input_signature is not None
            else [
                tf.TensorSpec([d.size for d in s.shape or ()], s.dtype or "float32", name=s.name)
                for s in options.inputs
            ]
        )
        concrete = concrete.get_concrete_function(*specs)
    return _concrete_runnable(concrete, *function_names(concrete))


# -- SavedModels --------------------------------------------------------------------------------------------------


def _saved_model_runnable(source: Source, options: Options) -> RunnableModel:
    import tensorflow as tf

    try:
        loaded = tf.saved_model.load(str(source.file))
    except Exception:  # loading objects fails for some older models, whose graph still runs
        return _revived_by_session(source.file, options)
    name = choose_signature(list(loaded.signatures), options.signature)
    concrete = loaded.signatures[name]
    if any(s.name and s.name.removesuffix(":0") not in concrete.structured_input_signature[1] for s in options.inputs):
        return _revived_by_session(source.file, options)  # no call takes inputs outside the signature
    outputs = sorted(concrete.structured_outputs)
    called = dict(zip(outputs, distinct_names(list(concrete.structured_input_signature[1]), outputs)[1], strict=True))

    def call(feed: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        specs = concrete.structured_input_signature[1]
        found = loaded.signatures[name](
            **{key: tf.constant(fed_array(value, specs[key].dtype), specs[key].dtype) for key, value in feed.items()}
        )
        return with_pairs({called[key]: np.asarray(found[key]) for key in outputs})

    # Both closures keep `loaded` alive, because a signature alone does not keep its variables.
    freeze = partial(_frozen_signature, loaded.signatures[name], list(called.values()))
    if concrete.graph.get_collection(tf.compat.v1.GraphKeys.TABLE_INITIALIZERS):  # these are not in the signature
        freeze = partial(_frozen_by_session, source.file, options)
    stateful = partial(stateful_from_saved_model, source.file, options)
    inputs = concrete.structured_input_signature[1]
    return RunnableModel(call, freeze, inputs, stateful, changes_variables(concrete))


def _frozen_signature(concrete: Any, outputs: Sequence[str]) -> FrozenGraph:
    from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2

    constant = convert_variables_to_constants_v2(concrete, lower_control_flow=False)
    specs = concrete.structured_input_signature[1]
    inputs = {}
    # Keyword arguments are passed in the order of their names if the placeholders' own names do not show them.
    order = sorted(specs) if len(specs) == len(constant.inputs) else [""] * len(constant.inputs)
    for key, tensor in zip(order, constant.inputs, strict=True):
        name = tensor.name.partition(":")[0]
        inputs[_argument_key(name, specs) or key or _raise_unmatched(name, specs)] = tensor.name
    return FrozenGraph(
        constant.graph.as_graph_def(), inputs, dict(zip(outputs, (t.name for t in constant.outputs), strict=True))
    )


def _argument_key(name: str, specs: Mapping[str, Any]) -> str:
    """Return the argument that a placeholder is named after, else ""."""
    if name in specs:
        return name
    return next((k for k, spec in specs.items() if spec.name == name or k.replace(":", "_") == name), "")


def _raise_unmatched(name: str, specs: Mapping[str, Any]) -> NoReturn:
    raise Unsupported(f"the signature's input {name!r} cannot be matched with one of {', '.join(specs)}")


def _revived_by_session(folder: Path, options: Options) -> RunnableModel:
    frozen = _frozen_by_session(folder, options)
    return _frozen_runnable(frozen, partial(stateful_from_saved_model, folder, options))


def _frozen_by_session(folder: Path, options: Options) -> FrozenGraph:
    import tensorflow as tf

    from .graph_signature import defaulted_inputs

    v1 = tf.compat.v1
    with tf.Graph().as_default() as graph, v1.Session(graph=graph) as session:
        meta = v1.saved_model.loader.load(session, ["serve"], str(folder))
        name = choose_signature([k for k in meta.signature_def if not k.startswith("__")], options.signature)
        signature = meta.signature_def[name]
        inputs = {key: info.name for key, info in sorted(signature.inputs.items())}
        inputs |= defaulted_inputs(graph.as_graph_def(), inputs, [s.name for s in options.inputs])
        outputs = dict(zip(distinct_names(inputs, sorted(signature.outputs))[1],
                           (info.name for _, info in sorted(signature.outputs.items())), strict=True))  # fmt: skip
        nodes = [tensor.partition(":")[0] for tensor in outputs.values()]
        whole = graph.as_graph_def()
        reached = {n.name for n in v1.graph_util.extract_sub_graph(whole, nodes).node}
        first = [n.name for n in whole.node if n.op in FILLING and n.input[0].partition(":")[0] in reached]
        constant = v1.graph_util.convert_variables_to_constants(session, whole, [*nodes, *first])
    return FrozenGraph(constant, inputs, outputs, first)


def _frozen_runnable(frozen: FrozenGraph, stateful: Callable[[], StatefulGraph] | None = None) -> RunnableModel:
    def call(feed: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        return run_graph(frozen, [feed], precision="float32")[0]

    return RunnableModel(call, lambda: frozen, frozen.inputs, stateful)


# -- frozen graphs ------------------------------------------------------------------------------------------------


def _frozen_file_runnable(source: Source, options: Options) -> RunnableModel:
    from .graph_signature import read_frozen

    return _graph_runnable(read_frozen(source), options)


def _meta_file_runnable(source: Source, options: Options) -> RunnableModel:
    from .meta_graph import open_meta, stateful_meta

    return _frozen_runnable(FrozenGraph(*open_meta(source.file, options)), partial(stateful_meta, source.file, options))


def _graph_object_runnable(source: Source, options: Options) -> RunnableModel:
    return _graph_runnable(source.model, options)


def _graph_runnable(graph: Any, options: Options) -> RunnableModel:
    from .graph_signature import complete_fused_attributes, signature_tensor_names

    inputs, outputs = signature_tensor_names(graph, [s.name for s in options.inputs if s.name], options.outputs)
    # A session filled the tables before the graph was stored, so the reader uses the constants that fill them.
    first = [node.name for node in graph.node if node.op in FILLING]
    return _frozen_runnable(FrozenGraph(complete_fused_attributes(graph), inputs, outputs, first))


_OPENERS: dict[str, Callable[[Source, Options], RunnableModel]] = {
    "savedmodel": _saved_model_runnable,
    "keras": _keras_file_runnable,
    "keras-h5": _keras_file_runnable,
    "keras-object": _keras_object_runnable,
    "tf-function-object": _function_runnable,
    "frozen-graph": _frozen_file_runnable,
    "tf-meta": _meta_file_runnable,
    "graphdef-object": _graph_object_runnable,
}
