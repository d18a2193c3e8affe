"""Checkpoints of TensorFlow 1 with their graph: a MetaGraphDef (.meta), and the variables in the files next to it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from convert.errors import BadInput, UsageError
from convert.outcome.report import Report
from convert.request.options import Options

from ..graph.function_body import body_from_graph
from ..graph.protos import open_buffer, parse_message
from ..program import Program
from ..runner.allowed import check_meta_graphs
from ..runner.graph_signature import inference_nodes, meta_file
from .frozen import program_between
from .savedmodel import Checkpoint, read_signature, restored_keys

_TRAINING = re.compile(r"(Resource|Sparse)*Apply[A-Z].*")


def read_meta(path: Path, options: Options, report: Report) -> Program:
    """Return the program in a `.meta` file, or in the latest of a folder.

    It is that of a signature if the graph has some and no outputs are named, else the part between the named tensors.
    Raises `BadInput` for broken files, and `UsageError` if the outputs are unknown.
    """
    file = meta_file(path)
    buffer = open_buffer(file)
    meta = parse_message(buffer, "MetaGraphDef", str(file))
    if not meta.graph_def.node:
        raise BadInput(f"{file} holds no graph", hint="is the file complete?")
    if not options.trust:
        check_meta_graphs([meta], file, options, unknown=False)
    checkpoint = file.with_suffix("")
    if meta.signature_def and not options.outputs:
        return read_signature(meta, file, checkpoint, buffer, options, report)
    if options.signature:
        raise UsageError(f"{file} has no signature {options.signature!r}", hint="name its outputs with --outputs")
    candidates = list(meta.graph_def.node) if options.outputs else _output_candidates(meta, file)
    program = program_between(meta.graph_def, candidates, file.stem, str(file), options, report, buffer)
    whole = body_from_graph(meta.graph_def, file.stem, [], [])
    return replace(program, variable=Checkpoint(checkpoint, restored_keys(meta, whole, program.functions)).find)


def _output_candidates(meta: Any, file: Path) -> Sequence[Any]:
    """Return the nodes except those that save, restore and initialize. Raises `UsageError` for a training graph."""
    nodes = meta.graph_def.node
    if any(_TRAINING.fullmatch(n.op) for n in nodes):
        raise UsageError(
            f"{file} is a graph that trains: its shape does not tell which of its tensors are the model's outputs",
            hint="name them with --outputs",
        )
    return inference_nodes(nodes, meta.saver_def.filename_tensor_name)
