"""Runs ONNX models: in onnxruntime as deployed, or unchanged in float64 by ONNX's reference implementation."""

from __future__ import annotations

import ctypes
import importlib.util
import math
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from convert.activity import advance
from convert.errors import ConvertError, NotLoaded, Unsupported, UsageError
from convert.files.scratch import scratch_folder
from convert.request.nearest import names_hint
from convert.request.options import Options
from convert.request.source import Source
from convert.request.stored import UNROUNDED

if TYPE_CHECKING:
    from convert.request.stored import StoredWeight
    from convert.runtimes.declared_signature import DeclaredSignature
    from convert.runtimes.generation import EncoderGeneration, Generation, Step
    from convert.runtimes.trace import Trace

KINDS = ("onnx", "onnx-object")

Feeds = Sequence[Mapping[str, np.ndarray]]
Outputs = list[dict[str, np.ndarray]]

_LACKING = re.compile(r"NOT_IMPLEMENTED|Could not find an implementation|does not support \w+ yet")
"""How onnxruntime reports that it has no kernel for an operator in a dtype."""

# Larger weights do not fit into one protobuf message.
_INLINE_LIMIT = 1_800_000_000


def available() -> str:
    """Return "" if onnxruntime is installed, else what is missing."""
    found = importlib.util.find_spec("onnxruntime")
    return "" if found else "onnxruntime is not installed (pip install onnxruntime)"


def run(source: Source, feeds: Feeds, *, precision: str, options: Options) -> Outputs:
    """Return the outputs by name for each dict of inputs.

    Kind `onnx` is a path, `onnx-object` a ModelProto or onnx_ir model. Raises `ConvertError` if onnxruntime does not
    load the model, `Unsupported` if it cannot be run in float64, and `UsageError` for unknown inputs.
    """
    if options.outputs:
        source, options = _with_outputs(source, options.outputs), replace(options, outputs=())
    feeds = _with_fixed_values(source, feeds, options)
    if precision == "float64":
        return _run_float64(source, feeds, options)
    if options.rules and (graph := _graph(source, options)) and _needs_user_kernels(graph):
        return _evaluate_graph(graph, feeds)
    if source.path is not None:
        return run_file(source.path, feeds, unrounded=bool(options.extra.get(UNROUNDED)))
    with scratch_folder() as folder:
        path = folder / "model.onnx"
        _save(source.model, path)
        return run_file(path, feeds, unrounded=bool(options.extra.get(UNROUNDED)))


def generate(
    source: Source, how: Generation | EncoderGeneration, prompt: Mapping[str, np.ndarray], options: Options
) -> dict[str, np.ndarray]:
    """Run greedy generation, as `generate_by_steps` does. Raises `Unsupported` for a model in memory."""
    from convert.runtimes.generation import generate_by_steps

    if source.path is None:
        raise Unsupported("a model in memory is not generated with")
    return generate_by_steps(_step, source.path, how, prompt)


def _step(path: Path) -> tuple[Step, dict[str, np.dtype]]:
    session = _session(path)
    names = [o.name for o in session.get_outputs()]
    kinds = {"tensor(float16)": np.float16, "tensor(double)": np.float64, "tensor(int32)": np.int32}
    dtypes = {i.name: np.dtype(kinds[i.type]) for i in session.get_inputs() if i.type in kinds}
    return lambda feed: dict(zip(names, session.run(names, feed), strict=True)), dtypes


def stored(source: Source) -> str:
    """Return how a file stores its numbers: one of `convert.request.stored.STORED`, or ""."""
    from convert.runtimes.onnx_stored import storage_of

    return "" if source.kind != "onnx" or source.path is None else storage_of(source.path)


def stored_weights(source: Source) -> list[StoredWeight]:
    """Return the constants of a file as it stores them."""
    from convert.runtimes.onnx_stored import stored_weights

    return [] if source.kind != "onnx" or source.path is None else stored_weights(source.path)


def declared_signature(source: Source) -> DeclaredSignature | None:
    """Return the inputs and outputs that a file declares; None for a model in memory."""
    from convert.runtimes.onnx_declared import declared_signature_of

    return None if source.path is None else declared_signature_of(source.path)


def trace(source: Source, feed: Mapping[str, np.ndarray], options: Options) -> Trace:
    """Return the trace of one float32 run in onnxruntime, with a summary of every value."""
    from convert.runtimes.onnx_trace import trace_file

    (feed,) = _with_fixed_values(source, [feed], options)
    if source.path is not None:
        return trace_file(source.path, feed, run_file)
    with scratch_folder() as folder:
        path = folder / "model.onnx"
        _save(source.model, path)
        return trace_file(path, feed, run_file)


def run_file(path: Path, feeds: Feeds, *, unrounded: bool = False) -> Outputs:
    """Run a file in onnxruntime on the CPU with its default optimizations, as it would be deployed.

    There is one exception: quantized operators are not fused into integer kernels, because these round ties between two
    steps differently from the operators in the file. unrounded: see `convert.request.stored.UNROUNDED`.
    """
    from convert.runtimes.onnx_products import without_rounded_activations

    session = _session(path, without_rounded_activations(path) if unrounded else None)
    inputs = {i.name: i for i in session.get_inputs()}
    names = [o.name for o in session.get_outputs()]
    found = []
    for feed in feeds:
        unknown = [n for n in feed if n not in inputs]
        if unknown:
            raise UsageError(f"the model has no input {unknown[0]!r}", hint=names_hint(unknown[0], inputs))
        try:
            results = _run_session(session, names, {n: _cast_feed(v, inputs[n].type) for n, v in feed.items()})
        except Exception as error:  # onnxruntime's exceptions are its own, all directly under Exception
            text = _one_line(error)
            if _LACKING.search(text):  # for LSTM in float64, reported at the first run only
                raise Unsupported(f"onnxruntime lacks a kernel for {path.name}: {text}") from error
            raise ConvertError(f"onnxruntime failed to run {path.name}: {text}") from error
        found.append(dict(zip(names, results, strict=True)))
    return found


_BFLOAT16 = "tensor(bfloat16)"


def _run_session(session: Any, names: Sequence[str], feed: Mapping[str, Any]) -> Sequence[Any]:
    """Return a session's outputs.

    onnxruntime has no numpy dtype for bfloat16, so such values are passed as bytes and returned as ml_dtypes'.
    """
    kinds = {given.name: given.type for given in (*session.get_inputs(), *session.get_outputs())}
    if _BFLOAT16 not in kinds.values():
        return list(session.run(names, feed))
    import ml_dtypes

    values = import_onnxruntime().OrtValue
    made = {
        name: values.ortvalue_from_numpy_with_onnx_type(array.view(np.uint16), 16)  # TensorProto.BFLOAT16
        if kinds[name] == _BFLOAT16
        else values.ortvalue_from_numpy(np.ascontiguousarray(array))
        for name, array in feed.items()
    }
    found = []
    for name, value in zip(names, session.run_with_ort_values(names, made), strict=True):
        if kinds[name] == _BFLOAT16:
            size = 2 * math.prod(value.shape())
            data = ctypes.string_at(value.data_ptr(), size) if size else b""
            found.append(np.frombuffer(data, ml_dtypes.bfloat16).reshape(value.shape()))
        else:
            found.append(value.numpy())
    return found


def _with_outputs(source: Source, names: Sequence[str]) -> Source:
    """Return the model with the tensors of these names as its outputs, as the frontend reads it."""
    import onnx
    import onnx_ir as ir

    if isinstance(source.model, ir.Model):
        proto = ir.to_proto(source.model)
    else:
        proto = onnx.ModelProto()
        proto.CopyFrom(source.model if source.path is None else onnx.load(source.path))
    known = {v.name: v for v in (*proto.graph.value_info, *proto.graph.output)}
    chosen = [known.get(name, onnx.ValueInfoProto(name=name)) for name in dict.fromkeys(names)]
    del proto.graph.output[:]
    proto.graph.output.extend(chosen)
    return Source("onnx-object", model=proto)


def _with_fixed_values(source: Source, feeds: Feeds, options: Options) -> Feeds:
    """Return the feeds with the values of `Options.fixed` added, if the model has such inputs.

    The converted graph does not have them any more.
    """
    if not options.fixed:
        return feeds
    from convert.graph.values import known_dims
    from convert.reference.onnx_file import open_model
    from convert.request.given_inputs import tensor_of_value

    inputs = {v.name or "": v for v in open_model(source.model if source.path is None else source.path).graph.inputs}
    fixed = {}
    for name, value in options.fixed.items():
        found = inputs.get(str(name))
        if found is not None and found.dtype is not None:
            fixed[str(name)] = tensor_of_value(str(name), value, found.dtype.numpy(), known_dims(found))
    return [{**feed, **fixed} for feed in feeds]


def import_onnxruntime() -> Any:
    """Return onnxruntime without its telemetry, which writes to the home folder and contacts servers when imported."""
    os.environ["ORT_DISABLE_TELEMETRY"] = "1"
    import onnxruntime

    onnxruntime.disable_telemetry_events()
    return onnxruntime


def _named_or_read(path: Path) -> str | bytes:
    """Return a file's name, or its content if the name is no valid text: onnxruntime accepts no such name."""
    try:
        str(path).encode()
    except UnicodeEncodeError:
        return path.read_bytes()
    return str(path)


def _session(path: Path, content: bytes | None = None) -> Any:
    """Return a session for a file. content: what to load instead; its weights in other files are beside `path`."""
    onnxruntime = import_onnxruntime()
    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads = 2
    settings.inter_op_num_threads = 1
    settings.log_severity_level = 4
    settings.use_deterministic_compute = True
    settings.add_session_config_entry("session.disable_quant_qdq", "1")
    if content is not None:
        settings.add_session_config_entry("session.model_external_initializers_file_folder_path", str(path.parent))
    given = _named_or_read(path) if content is None else content
    try:
        return onnxruntime.InferenceSession(given, settings, providers=["CPUExecutionProvider"])
    except Exception as error:  # onnxruntime raises many types
        text = _one_line(error)
        if _LACKING.search(text):
            raise Unsupported(f"onnxruntime lacks a kernel for {path.name}: {text}") from error
        raise NotLoaded(f"onnxruntime does not load {path.name}: {text}", hint=_loading_hint(text)) from error


def _loading_hint(text: str) -> str:
    """Return what to do if onnxruntime does not load a model, according to its message."""
    if "is not a registered function/op" in text:
        return (
            "say what the operator computes in a file of rules, with a kernel: --rules FILE.py (see Custom "
            "operators in README.md); --no-verify leaves out the run"
        )
    if "opset" in text.lower() or "implementation for" in text:
        return "convert with a lower --opset"
    return (
        "onnx.checker.check_model(path, full_check=True) says what is wrong in the file; --no-verify leaves out the run"
    )


def _cast_feed(value: np.ndarray, kind: str) -> Any:
    """Return the array in the dtype that the model takes, if both are floating-point."""
    wanted = {"tensor(float)": np.float32, "tensor(double)": np.float64, "tensor(float16)": np.float16}.get(kind)
    if wanted is not None and isinstance(value, np.ndarray) and value.dtype.kind == "f":
        return value.astype(wanted, copy=False)
    return value


def _run_float64(source: Source, feeds: Feeds, options: Options) -> Outputs:
    """Return the outputs in float64.

    The reference executor runs a shared graph. Any other model runs unchanged, without the frontend under test.
    """
    if _is_shared_graph(source.model):
        from convert.passes.to_float64 import widen_model

        return _evaluate_graph(widen_model(source.model), feeds)
    from convert.reference.onnx_file import evaluate_file

    return evaluate_file(source.model if source.path is None else source.path, feeds)


def _evaluate_graph(graph: Any, feeds: Feeds) -> Outputs:
    from convert.reference.executor import run as evaluate

    sizes = [1 + sum(array.size for array in feed.values()) for feed in feeds]
    found: Outputs = []
    for feed in feeds:
        found.append(evaluate(graph, feed))
        advance(sum(sizes[: len(found)]), sum(sizes))
    return found


def _needs_user_kernels(graph: Any) -> bool:
    """Return whether the graph has operators that only user kernels compute, and onnxruntime does not know."""
    from convert.reference.table import kernel
    from convert.rules.onnx_schemas import operator_of

    return any(node.domain and operator_of(node) in kernel for node in graph.graph.all_nodes())


def _graph(source: Source, options: Options) -> Any:
    """Return the model at the canonical opset: a shared graph unchanged, anything else through its frontend."""
    from convert import plugin
    from convert.outcome.report import Report

    if _is_shared_graph(source.model):
        return source.model
    return plugin.frontend_for(source).read(source, Options(), Report("run"))


def _is_shared_graph(model: Any) -> bool:
    import onnx_ir as ir

    from convert.graph import OPSET

    return isinstance(model, ir.Model) and model.graph.opset_imports.get("") == OPSET and not model.functions


def _save(model: Any, path: Path) -> None:
    import onnx
    import onnx_ir as ir

    if not isinstance(model, ir.Model):
        onnx.save(model, str(path))
        return
    copy = model.clone()
    private = sorted({n.domain for n in copy.graph.all_nodes() if n.domain.startswith("convert.")})
    if private:
        raise Unsupported(f"onnxruntime does not know the domain {private[0]}")
    size = sum(v.const_value.nbytes for v in copy.graph.initializers.values() if v.const_value is not None)
    ir.save(copy, path, external_data=f"{path.name}.data" if size > _INLINE_LIMIT else None)


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())[:500]
