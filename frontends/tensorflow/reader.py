"""Reading: each kind of source becomes a `Program`, which is then lowered."""

from __future__ import annotations

from collections.abc import Callable

import onnx_ir as ir

from convert.options import Options
from convert.report import Report
from convert.source import Source

from .program import Program, lower


def read(source: Source, options: Options, report: Report) -> ir.Model:
    """The shared graph of a TensorFlow or Keras model. Raises as `convert.plugin.Frontend.read` says."""
    if source.kind == "tflite":
        from .lite.reader import read_lite

        return read_lite(source, options, report)
    return lower(_READERS[source.kind](source, options, report), options, report)


def _saved_model(source: Source, options: Options, report: Report) -> Program:
    from .files.savedmodel import read_saved_model

    return read_saved_model(source.file, options, report)


def _frozen(source: Source, options: Options, report: Report) -> Program:
    from .files.frozen import read_frozen

    return read_frozen(source.file, options, report)


def _meta(source: Source, options: Options, report: Report) -> Program:
    from .files.meta_graph import read_meta

    return read_meta(source.file, options, report)


def _graph_def(source: Source, options: Options, report: Report) -> Program:
    from .files.frozen import from_message

    return from_message(source.model, options, report)


def _keras_file(source: Source, options: Options, report: Report) -> Program:
    from .files.in_memory import from_keras
    from .runner.keras_archive import load

    return from_keras(load(source.file, trust=options.trust), options, report)


def _keras(source: Source, options: Options, report: Report) -> Program:
    from .files.in_memory import from_keras

    return from_keras(source.model, options, report)


def _function(source: Source, options: Options, report: Report) -> Program:
    from .files.in_memory import from_function_object

    return from_function_object(source.model, options, report)


_READERS: dict[str, Callable[[Source, Options, Report], Program]] = {
    "savedmodel": _saved_model,
    "frozen-graph": _frozen,
    "tf-meta": _meta,
    "graphdef-object": _graph_def,
    "keras": _keras_file,
    "keras-h5": _keras_file,
    "keras-object": _keras,
    "tf-function-object": _function,
}
