"""Reading: each kind of source becomes a `Program`, which is then lowered."""

from __future__ import annotations

from collections.abc import Callable

import onnx_ir as ir

from convert.outcome.report import Report
from convert.request.options import Options
from convert.request.source import Source

from .program import Program, lower


def read(source: Source, options: Options, report: Report) -> ir.Model:
    """Return the shared graph of a TensorFlow or Keras model. Raises what `convert.plugin.Frontend.read` says."""
    if source.kind == "tflite":
        from .lite.reader import read_lite

        return read_lite(source, options, report)
    return lower(_READERS[source.kind](source, options, report), options, report)


def _saved_model_program(source: Source, options: Options, report: Report) -> Program:
    from .files.savedmodel import read_saved_model

    return read_saved_model(source.file, options, report)


def _frozen_program(source: Source, options: Options, report: Report) -> Program:
    from .files.frozen import read_frozen

    return read_frozen(source.file, options, report)


def _meta_program(source: Source, options: Options, report: Report) -> Program:
    from .files.meta_graph import read_meta

    return read_meta(source.file, options, report)


def _graph_def_program(source: Source, options: Options, report: Report) -> Program:
    from .files.frozen import program_from_message

    return program_from_message(source.model, options, report)


def _keras_file_program(source: Source, options: Options, report: Report) -> Program:
    from .files.in_memory import program_from_keras
    from .runner.keras_archive import with_keras_model

    return with_keras_model(
        source.file,
        lambda model: program_from_keras(model, options, report),
        trust=options.trust,
        code=options.code,
    )


def _keras_program(source: Source, options: Options, report: Report) -> Program:
    from .files.in_memory import program_from_keras

    return program_from_keras(source.model, options, report)


def _function_program(source: Source, options: Options, report: Report) -> Program:
    from .files.in_memory import program_from_function

    return program_from_function(source.model, options, report)


_READERS: dict[str, Callable[[Source, Options, Report], Program]] = {
    "savedmodel": _saved_model_program,
    "frozen-graph": _frozen_program,
    "tf-meta": _meta_program,
    "graphdef-object": _graph_def_program,
    "keras": _keras_file_program,
    "keras-h5": _keras_file_program,
    "keras-object": _keras_program,
    "tf-function-object": _function_program,
}
