"""Runs artefacts in each way that users do, to detect those that do not load or have other names."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from convert.errors import BadInput, ConvertError, Unsupported, UsageError
from convert.request.options import Options
from convert.request.source import Source

from .complex_pairs import fed_array, with_pairs
from .graph_signature import complete_fused_attributes, read_frozen, signature_tensor_names
from .keras_archive import load_keras
from .kernels import is_usual_setting
from .names import choose_signature, distinct_names, keras_names
from .optimizer import session_config
from .session import Feeds, FrozenGraph, run_graph

Outputs = list[dict[str, np.ndarray]]
T = TypeVar("T")

KINDS = ("savedmodel", "keras", "keras-h5", "frozen-graph")


def run_each_way(source: Source, feeds: Feeds, options: Options) -> dict[str, Outputs]:
    """Return outputs by way, the first on all feeds, the others on the first. Raises if one of them fails.

    A way that runs the same graph as the way before is left out if this process has the second kind of kernels.
    """
    return _WAYS[source.kind](source, feeds, options)


def _attempt(way: str, run: Callable[[], T]) -> T:
    """Return the result of `run`; an error gets the name of the way of running."""
    try:
        return run()
    except ConvertError as error:
        error.message = f"{way}: {error.message}"
        raise
    except Exception as error:
        text = " ".join(str(error).split())[:400]
        if "OpKernel was registered" in text:
            raise Unsupported(f"{way}: TensorFlow lacks a kernel: {text}") from error
        if isinstance(error, OSError):  # TensorFlow's parser is stricter than protobuf's for Python
            raise BadInput(f"{way}: {text}", hint="is the file complete?") from error
        raise ConvertError(f"{way}: {type(error).__name__}: {text}") from error


# -- SavedModels --------------------------------------------------------------------------------------------------


def _saved_model_ways(source: Source, feeds: Feeds, options: Options) -> dict[str, Outputs]:
    called = _attempt("loaded by tf.saved_model.load", lambda: _call_signature(source.file, feeds, options))
    ways = {"its signature, called by name": called}
    if is_usual_setting(source):
        ways["its signature in a session"] = _attempt(
            "run in a session", lambda: _run_in_session(source.file, feeds[:1], options)
        )
    return ways


def _call_signature(folder: Path, feeds: Feeds, options: Options) -> Outputs:
    import tensorflow as tf

    loaded = tf.saved_model.load(str(folder))
    call = loaded.signatures[choose_signature(list(loaded.signatures), options.signature)]
    specs = call.structured_input_signature[1]
    outputs = sorted(call.structured_outputs)
    named = _distinct_names(specs, outputs)
    found = []
    for feed in feeds:
        _check_inputs(feed, specs)
        given = {name: fed_array(value, specs[name].dtype) for name, value in feed.items()}
        results = call(**{name: tf.constant(value, specs[name].dtype) for name, value in given.items()})
        found.append(with_pairs({named[name]: np.asarray(results[name]) for name in outputs}))
    return found


def _run_in_session(folder: Path, feeds: Feeds, options: Options) -> Outputs:
    """Run as servers and TensorFlow 1 do, which use `signature_def`."""
    import tensorflow as tf

    v1 = tf.compat.v1
    with tf.Graph().as_default() as graph, v1.Session(graph=graph, config=session_config()) as session:
        meta = v1.saved_model.loader.load(session, ["serve"], str(folder))
        known = [name for name in meta.signature_def if not name.startswith("__")]
        signature = meta.signature_def[choose_signature(known, options.signature)]
        outputs = sorted(signature.outputs)
        named = _distinct_names(signature.inputs, outputs)
        tensors = [graph.get_tensor_by_name(signature.outputs[name].name) for name in outputs]
        found = []
        for feed in feeds:
            _check_inputs(feed, signature.inputs)
            values = {}
            for name, value in feed.items():
                tensor = graph.get_tensor_by_name(signature.inputs[name].name)
                values[tensor] = fed_array(value, tensor.dtype)
            results = map(np.asarray, session.run(tensors, values))
            found.append(with_pairs(dict(zip(named.values(), results, strict=True))))
    return found


def _distinct_names(inputs: Any, outputs: Sequence[str]) -> dict[str, str]:
    """Return the reader's names of the outputs, which must differ from all inputs."""
    return dict(zip(outputs, distinct_names(list(inputs), outputs)[1], strict=True))


def _check_inputs(feed: Mapping[str, np.ndarray], inputs: Any) -> None:
    unknown = [name for name in feed if name not in inputs]
    if unknown:
        raise UsageError(f"the model has no input {unknown[0]!r}", hint=f"inputs: {', '.join(inputs)}")


# -- Keras --------------------------------------------------------------------------------------------------------


def _keras_ways(source: Source, feeds: Feeds, options: Options) -> dict[str, Outputs]:
    import tensorflow as tf

    model = _attempt("loaded by Keras", lambda: load_keras(source.file, trust=options.trust, code=options.code))
    inputs, outputs = keras_names(model)

    def call(run: Callable[[Any], Any], feed: Mapping[str, np.ndarray], make: Callable[..., Any]) -> dict[str, Any]:
        _check_inputs(feed, inputs)
        dtypes = [x.dtype for x in model.inputs]
        return _keras_outputs(model, run, [make(feed[n], d) for n, d in zip(inputs, dtypes, strict=True)], outputs)

    def tensor(value: np.ndarray, dtype: str) -> Any:
        return tf.constant(value, dtype)

    graph = tf.function(lambda x: model(x, training=False), autograph=False, jit_compile=False)
    ways = {
        "called": _attempt("called", lambda: [call(lambda x: model(x, training=False), f, tensor) for f in feeds]),
        "called in a tf.function": _attempt("called in a tf.function", lambda: [call(graph, feeds[0], tensor)]),
    }
    # Only the batching is new in this way.
    if is_usual_setting(source) and _fits_predict(model, [feeds[0][n] for n in inputs]):
        ways["run by predict"] = _attempt(
            "run by predict", lambda: [call(lambda x: model.predict(x, verbose=0), feeds[0], lambda v, _: v)]
        )
    return ways


def _keras_outputs(model: Any, run: Callable[[Any], Any], values: list[Any], outputs: Sequence[str]) -> dict[str, Any]:
    import keras

    structure = getattr(model, "_inputs_struct", None)
    packed = keras.tree.pack_sequence_as(structure, values) if structure is not None else values[0]
    results = keras.tree.flatten(run(packed))
    return {name: np.asarray(value) for name, value in zip(outputs, results, strict=True)}


def _fits_predict(model: Any, values: Sequence[np.ndarray]) -> bool:
    """Return whether `predict`, which splits its input into batches and concatenates the results, fits this model.

    Every input and output must have rows, the same number for all, and dtypes that predict does not change.
    """
    ends = [*model.inputs, *model.outputs]
    batched = all(len(x.shape) > 0 and x.shape[0] is None for x in ends)
    sizes = {v.shape[0] for v in values if v.ndim}
    plain = all(v.dtype.name != "float64" and v.dtype.kind in "fiub" for v in values)
    return batched and plain and len(sizes) == 1 and 0 < min(sizes) <= _PREDICTED


_PREDICTED = 32
"""Batch size of `predict`; with more rows, layers that compute statistics over the batch would give other results."""


# -- frozen graphs ------------------------------------------------------------------------------------------------


def _frozen_ways(source: Source, feeds: Feeds, options: Options) -> dict[str, Outputs]:
    import tensorflow as tf

    graph = read_frozen(source)
    inputs, outputs = signature_tensor_names(graph, [s.name for s in options.inputs if s.name], options.outputs)
    frozen = FrozenGraph(complete_fused_attributes(graph), inputs, outputs)

    def as_function() -> Outputs:
        whole = tf.compat.v1.wrap_function(lambda: tf.import_graph_def(frozen.graph, name=""), [])
        ends = ([whole.graph.get_tensor_by_name(n) for n in side.values()] for side in (inputs, outputs))
        call = whole.prune(*ends)
        tensors = [
            tf.constant(fed_array(feeds[0][n], t.dtype), t.dtype) for n, t in zip(inputs, call.inputs, strict=True)
        ]
        return [with_pairs(dict(zip(outputs, map(np.asarray, call(*tensors)), strict=True)))]

    ways = {"in a session": _attempt("in a session", lambda: run_graph(frozen, feeds, precision="float32"))}
    if is_usual_setting(source):
        ways["as a function"] = _attempt("as a function", as_function)
    return ways


_WAYS: dict[str, Callable[[Source, Feeds, Options], dict[str, Outputs]]] = {
    "savedmodel": _saved_model_ways,
    "keras": _keras_ways,
    "keras-h5": _keras_ways,
    "frozen-graph": _frozen_ways,
}
