"""Writes TensorFlow Lite models: our rules emit the graph, TensorFlow's converter encodes its operators.

The converter runs in a child process, because some graphs crash it, and its output is not meant for the user.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir
from tensorflow.core.protobuf import meta_graph_pb2

from convert.errors import ConvertError, Location, Problem, Unsupported, UsageError
from convert.files.protobuf_wire import length_delimited_header
from convert.files.scratch import scratch_folder
from convert.graph import location_of, register_initializer
from convert.graph.metadata import CHANNELS_LAST
from convert.graph.values import nodes_of
from convert.legalize.unroll_loops import unroll_loops
from convert.outcome.report import Report
from convert.passes import run_passes
from convert.passes.tidy.narrow_products import narrow_products, narrow_transforms
from convert.passes.tidy.size_checks import write_size_checks_as_reshapes
from convert.processes.arrays import save_arrays
from convert.processes.fork_client import Child, fork
from convert.processes.interpreter import module_command
from convert.processes.warm import address_of
from convert.request.calibration import parse_method
from convert.request.detections import DETECTIONS, NAMES, Detections
from convert.request.nearest import saving_hint
from convert.request.options import Options
from convert.request.storage import CALIBRATION_METHOD, IO_DTYPE, KEEP_FLOAT

from .. import ops  # noqa: F401  (fills the table)
from ..constants import scope_name
from ..emit import check, dtype_and_shape, tensor_inputs
from ..passes.legalize import legalize
from ..rules import CALIBRATED, LITE, onnx_op, standard_operator
from ..writer.graph_weights import write_graph
from ..writer.savedmodel import frozen_graph
from ..writer.signature import SIGNATURE, Names
from .delegates import note_delegate, note_floats
from .depth_order import order_depths
from .detections import box_arithmetic, split_detections
from .flatbuffer import set_signature_order
from .fused import give_transposed_convolutions_a_bias
from .fusion_barriers import write_fusion_barriers_as_checks
from .gaps import BUILTINS, NO_KERNELS, WRITTEN_OUT
from .halves import halves_of, has_half_weights, narrow_doubles, narrow_io, widen_halves
from .integer_products import find_integer_products
from .io_metadata import io_metadata
from .marks import QuantizedParts, mark_quantized
from .pools import split_pools

_HINT = (
    "TensorFlow Lite's built-in operators are fewer than TensorFlow's, and its runtime here has no others; "
    "--to tf writes all of the model"
)


def write_tflite(model: ir.Model, path: Path, options: Options, report: Report) -> None:
    """Write a `.tflite` with one signature, `serving_default`, whose inputs and outputs are the model's.

    `options.dtype` "float16" stores weights in float16. `options.quantize` "int8" stores them in 8 bits, and with
    `options.calibrate`, arrays of samples by input name, activations too; "int8-weights" stores weights in 8 bits and
    computes in float32, "int16x8" has activations in 16 bits. Inputs and outputs keep their dtypes.

    Raises `Unsupported` with every node that the built-in operators of TensorFlow Lite cannot express, `ResourceLimit`
    for 2 GiB or more.
    """
    if halves := halves_of(model):
        report.note(
            f"{' and '.join(halves)} of the source becomes float32, which TensorFlow Lite computes in",
            code="wider-dtype",
        )
    if narrow_doubles(model):
        report.note(
            "float64 inside of the model becomes float32, which TensorFlow Lite computes in", code="narrower-dtype"
        )
    if options.quantize == "int16x8":
        report.note(
            "activations in 16 bits are verified as if they had 8: compare the accuracy on your own data",
            code="wide-bound",
        )
    with scratch_folder() as folder:
        inputs, outputs = prepare_job(model, folder, options)
        _run_converter(folder)
        Path(path).write_bytes(read_flatbuffer(folder, model, inputs, outputs))
        chosen = folder / "floats.json"
        if chosen.exists() and (names := json.loads(chosen.read_text())):
            note_floats(names, report)
        examined = folder / "delegates.json"
        if examined.exists() and (found := json.loads(examined.read_text())):
            note_delegate(found["operators"], found["left"], report)


def prepare_job(model: ir.Model, folder: Path, options: Options) -> tuple[list[str], list[str]]:
    """Write the job of the child process into `folder`; return the names of inputs and outputs."""

    def choose_builtins(model: ir.Model) -> bool:
        return prefer_builtins(model, calibrated=bool(options.calibrate)) | keep_shapes_of_branches(model)

    def reshape_to_check(model: ir.Model) -> bool:
        return write_size_checks_as_reshapes(model, by_dims=True)

    def cast_ends(model: ir.Model) -> bool:
        return narrow_io(model, narrow)

    narrow: list[str] = []
    how: Detections | None = options.extra.get(DETECTIONS)
    detections: dict[str, Any] = {}
    if how is not None:
        detections, anchors = split_detections(model, how)
        save_arrays(folder / "anchors", anchors)
    if halves_of(model):
        if not (options.dtype or options.quantize) and has_half_weights(model):
            options = replace(options, dtype="float16")
        narrow = widen_halves(model)
    run_passes(model, (find_integer_products,), options)
    quantized = QuantizedParts() if options.dtype or options.quantize else mark_quantized(model)
    # The calibrator ends the process at loops of fixed sizes that read a row by their counter (TensorFlow 2.21).
    unrolling = (unroll_loops,) if options.calibrate else ()
    run_passes(model, (split_pools, narrow_transforms, *unrolling), options)
    legalize(model, options, WRITTEN_OUT)
    passes = (narrow_products, order_depths, reshape_to_check, choose_builtins, give_transposed_convolutions_a_bias)
    run_passes(model, passes, options)
    if narrow:
        run_passes(model, (cast_ends,), options)
    check(model)
    _check_dtypes(model)
    definition, inputs, outputs, contents = frozen_graph(model)
    write_fusion_barriers_as_checks(definition)
    (folder / "model").mkdir()
    (folder / "operators.pb").write_bytes(definition.SerializeToString())
    with open(folder / "graph.pb", "w+b") as graph, open(folder / "model" / "saved_model.pb", "wb") as stream:
        write_graph(definition, contents, graph)
        size = graph.tell()
        meta = _meta_graph(definition, model, inputs, outputs).SerializeToString()
        head = length_delimited_header(_GRAPH, size)
        stream.write(_VERSION + length_delimited_header(_META_GRAPH, len(meta) + len(head) + size) + meta + head)
        graph.seek(0)
        shutil.copyfileobj(graph, stream, 1 << 20)
    (folder / "graph.pb").unlink()
    count = 0
    for sample in calibration_samples(model, options.calibrate):
        save_arrays(folder / f"sample{count}", sample)
        count += 1
    job = {"dtype": options.dtype, "quantize": options.quantize, "samples": count, "quantized": quantized.save(folder)}
    job["io_dtype"], job["keep"] = IO_DTYPE.of(options), _kept_names(model, options)
    # Integers at the ends are for devices that compute in integers.
    job["choose"] = IO_DTYPE.of(options) == "float32"
    job["method"] = _calibration_method(options)
    job["detections"] = detections
    names = [real for real, _ in inputs], list(NAMES) if detections else [real for real, _ in outputs]
    job["metadata"] = io_metadata(model, *names, options)
    (folder / "job.json").write_text(json.dumps(job))
    return names


def read_flatbuffer(folder: Path, model: ir.Model, inputs: Sequence[str], outputs: Sequence[str]) -> bytearray:
    """Return the flatbuffer that the child process wrote to `folder`, with inputs and outputs in order. Raises as
    `write_tflite` does.
    """
    status = json.loads((folder / "status.json").read_text())
    if "tensor list" in status["error"]:
        raise Unsupported(problems=_list_problems(model), hint=_HINT)
    if status["lost"]:
        raise Unsupported(
            f"no integers for {', '.join(status['lost'])}: operators on real numbers read or give them",
            hint="quantize the model (--quantize int8 --calibrate), or leave out --io-dtype",
        )
    if status["problems"]:
        raise Unsupported(problems=_problems(status["problems"], model), hint=_HINT)
    if status["error"]:
        log = folder / "log"
        logged = re.findall(r"error: (.*)", log.read_text(errors="replace")) if log.exists() else []
        why = " | ".join([status["error"], *logged[-1:]])
        raise ConvertError(f"TensorFlow's converter to TensorFlow Lite refused the graph: {why}")
    file = folder / "model.tflite"
    data = bytearray(file.stat().st_size)
    with open(file, "rb") as stream:
        stream.readinto(memoryview(data))
    set_signature_order(data, inputs, outputs)
    return data


def prefer_builtins(model: ir.Model, *, calibrated: bool) -> bool:
    """Give float32 nodes, and those of `_OF_EVERY_DTYPE`, the domain of their TensorFlow Lite rules, if there are any.

    calibrated: activations will be stored in 8 bits.
    """
    modified = False
    for node in nodes_of(model.graph):
        first = node.inputs[0] if node.inputs else None
        better = node.domain == (CHANNELS_LAST if node.op_type in _OF_CHANNELS_LAST else "")
        better &= f"{LITE}::{node.op_type}" in onnx_op.entries and (calibrated or node.op_type not in _IF_CALIBRATED)
        floats = first is not None and first.dtype == ir.DataType.FLOAT
        if better and (floats or node.op_type in _OF_EVERY_DTYPE):
            node.domain, modified = LITE, True
            if calibrated:
                node.metadata_props[CALIBRATED] = "1"
    return modified


_OF_CHANNELS_LAST = ("MaxPool",)
_IF_CALIBRATED = ("MaxPool", "ReduceMean")
_OF_EVERY_DTYPE = ("Abs", "ConstantOfShape", "Div", "Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "Loop",
                   "Mod", "Scan", "ScatterElements", "ScatterND", "Sign", "Slice", "Split", "Squeeze",
                   "Tile")  # fmt: skip


def keep_shapes_of_branches(model: ir.Model) -> bool:
    """Replace each integer result of an If branch by its maximum with the least integer. Return whether any was
    replaced.

    The maximum changes no value. TensorFlow Lite computes shapes before it runs, and its If copies wrong bytes for such
    a result (LiteRT 2.3: garbage, or a crash of the process).
    """
    modified = False
    for node in [n for n in nodes_of(model.graph) if n.op_type == "If" and not n.domain]:
        for attribute in node.attributes.values():
            branch = attribute.as_graph()
            for place, value in enumerate(branch.outputs):
                if value.dtype in (ir.DataType.INT32, ir.DataType.INT64) and value.producer() is not None:
                    least = np.array(np.iinfo(value.dtype.numpy()).min, value.dtype.numpy())
                    name = f"{value.name}_least"
                    bound = register_initializer(branch, name, ir.tensor(least, name=name))
                    kept = ir.Node("", "Max", [value, bound], num_outputs=1)
                    kept.outputs[0].name = f"{value.name}_kept"
                    kept.outputs[0].type, kept.outputs[0].shape = value.type, value.shape
                    branch.append(kept)
                    branch.outputs[place] = kept.outputs[0]
                    modified = True
    return modified


def _check_dtypes(model: ir.Model) -> None:
    """Raise `Unsupported` with every node that computes numbers of a dtype that TensorFlow Lite has no kernels for, or
    reads them from an input.
    """
    inputs = {value for graph in model.graphs() for value in graph.inputs}
    problems = []
    for node in nodes_of(model.graph):
        values = [*(v for v in node.inputs if v in inputs), *node.outputs]
        dtypes = sorted({v.dtype.name.lower() for v in values if v is not None and v.dtype in NO_KERNELS})
        if dtypes:
            at = location_of(node)
            operator = standard_operator(at.operator)
            why = f"TensorFlow Lite has no built-in {BUILTINS.get(operator, operator)} for {' and '.join(dtypes)}"
            problems.append(Problem(why, replace(at, operator=operator)))
    if problems:
        raise Unsupported(problems=problems, hint=_HINT)


_OF_CALIBRATED = (CALIBRATION_METHOD.name, IO_DTYPE.name, KEEP_FLOAT.name)
"""Options that need the samples of a calibration."""


def check_tflite(model: ir.Model, options: Options) -> None:
    """Raise `Unsupported` with every node that `write_tflite` could not express. The model is changed, because writing
    it is tried.
    """
    with scratch_folder() as folder:
        others = {k: v for k, v in options.extra.items() if k not in _OF_CALIBRATED}
        plain = replace(options, dtype="", quantize="", calibrate={}, extra=others)
        write_tflite(model, folder / "model.tflite", plain, Report("check"))


def _kept_names(model: ir.Model, options: Options) -> list[str]:
    """Return the scopes of the nodes that should stay in floats. Raises `UsageError` as `kept_in_floats` does."""
    integers = bool(options.calibrate) and options.quantize in ("int8", "int16x8")
    return kept_in_floats(model, KEEP_FLOAT.of(options), calibrated=integers)


def _calibration_method(options: Options) -> str:
    """Return the name of the way to choose ranges. Raises `UsageError` for an unknown one, and if nothing is
    calibrated.
    """
    method = CALIBRATION_METHOD.of(options)
    if not parse_method(method).is_plain and not options.calibrate:
        raise UsageError("--calibration-method without samples", hint="give samples with --calibrate")
    return method


def kept_in_floats(model: ir.Model, wanted: str, *, calibrated: bool) -> list[str]:
    """Return the scopes of nodes that stay in floats: those given by name, glob or operator, and those that always
    stay.

    Raises `UsageError` if nothing matches, and if nothing is calibrated.
    """
    nodes = list(nodes_of(model.graph))
    found = [n for n in nodes if n.op_type in _IN_FLOATS] + box_arithmetic(model) if calibrated else []
    if wanted and not calibrated:
        raise UsageError("--keep-float without ranges for the others", hint="give samples with --calibrate")
    for pattern in filter(None, (part.strip() for part in wanted.split(","))):
        called = [
            node
            for node in nodes
            if node.op_type == pattern
            or any(fnmatchcase(str(name), pattern) for name in (node.name, *(v.name for v in node.outputs)))
        ]
        if not called:
            operators = ", ".join(sorted({node.op_type for node in nodes}))
            raise UsageError(
                f"--keep-float {pattern}: no node or operator is called so", hint=f"operators: {operators}"
            )
        found += called
    scopes = [scope_name(node.name or node.op_type) for node in found]
    # In the file, the node that computes an output has the name of the output.
    return scopes + [scope_name(str(v.name)) for node in found for v in node.outputs if v.is_graph_output()]


_IN_FLOATS = ("NonMaxSuppression",)
"""Operators whose kernel takes floats: ranks of thousands of boxes and corners would be rounded to 255 steps."""


def calibration_samples(model: ir.Model, arrays: Mapping[str, Any]) -> Iterable[dict[str, np.ndarray]]:
    """Yield calibration data, one set of inputs at a time: along a dynamic leading dim, or along an additional first
    dim of the arrays.

    Raises `UsageError` for arrays that do not match the model's inputs.
    """
    if not arrays:
        return
    values = {str(v.name): v for v in tensor_inputs(model)}
    if set(arrays) != set(values):
        raise UsageError(
            f"the calibration data is for {', '.join(sorted(arrays))}, and the model's inputs are {', '.join(values)}",
            hint=saving_hint(values),
        )
    parts = {name: _split_samples(value, np.asarray(arrays[name])) for name, value in values.items()}
    for i in range(min(len(p) for p in parts.values())):
        yield {name: part[i] for name, part in parts.items()}


def _split_samples(value: ir.Value, array: np.ndarray) -> Sequence[np.ndarray]:
    dtype, shape = dtype_and_shape(value)
    array = array.astype(dtype.as_numpy_dtype, copy=False)
    if array.ndim == (shape.rank or 0) + 1:
        return list(array)
    if shape.rank and array.ndim == shape.rank and shape[0] is None:
        return [array[i : i + 1] for i in range(len(array))]
    if shape.is_compatible_with(array.shape):
        return [array]
    batch = shape[0] if shape.rank else None
    if batch and shape[1:].is_compatible_with(array.shape[1:]) and not len(array) % batch:
        return [array[i : i + batch] for i in range(0, len(array), batch)]
    raise UsageError(f"the calibration data for {value.name!r} has shape {list(array.shape)}, and the input {shape}")


# Fields of SavedModel: its version (1), and its graphs. Field of MetaGraphDef: the graph, by far the largest part.
_VERSION, _META_GRAPH, _GRAPH = b"\x08\x01", 2, 2


def _meta_graph(definition: Any, model: ir.Model, inputs: Names, outputs: Names) -> meta_graph_pb2.MetaGraphDef:
    """Return the parts of a TensorFlow 1 SavedModel, which keeps every name, except its graph."""
    meta = meta_graph_pb2.MetaGraphDef()
    meta.meta_info_def.tags.append("serve")
    signature = meta.signature_def[SIGNATURE]
    signature.method_name = "tensorflow/serving/predict"
    for (real, node), value in zip(inputs, tensor_inputs(model), strict=True):
        signature.inputs[real].CopyFrom(_tensor_info(node, *dtype_and_shape(value)))
    dtypes = {node.name: node.attr["T"].type for node in definition.node if node.op == "Identity"}
    for real, node in outputs:
        signature.outputs[real].CopyFrom(meta_graph_pb2.TensorInfo(name=f"{node}:0", dtype=dtypes[node]))
        signature.outputs[real].tensor_shape.unknown_rank = True
    return meta


def _tensor_info(node: str, dtype: Any, shape: Any) -> meta_graph_pb2.TensorInfo:
    return meta_graph_pb2.TensorInfo(name=f"{node}:0", dtype=dtype.as_datatype_enum, tensor_shape=shape.as_proto())


def _run_converter(folder: Path) -> None:
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "PYTHONWARNINGS": "ignore"}
    module = f"{__package__}.converter_process"
    with open(folder / "log", "wb") as log:
        warm, number = address_of("tflite", {}), log.fileno()
        child: Child = fork(f"{module}:run", [str(folder)], environment, number, number, warm) or subprocess.Popen(
            module_command(module, str(folder), str(os.getpid())),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env=environment,
        )
        try:
            code = child.wait()
        finally:
            if child.poll() is None:
                os.kill(child.pid, signal.SIGKILL)
    if not (folder / "status.json").exists():
        tail = (folder / "log").read_text(errors="replace").strip().splitlines()[-3:]
        how = f"exit code {code}: {' | '.join(tail)}"
        loops = "of fixed sizes and loops: leave the batch size open, or store weights alone (--quantize int8-weights)"
        hint = f"its calibrator is known to die of graphs {loops}" if (folder / "sample0").exists() else ""
        raise ConvertError(f"TensorFlow's converter to TensorFlow Lite died with {how}", hint=hint)


def _problems(entries: Sequence[Mapping[str, str]], model: ir.Model) -> list[Problem]:
    """Return the operators that the converter could not express, by the nodes of the model whose rules emitted them."""
    scopes = {scope_name(node.name or node.op_type): node for node in nodes_of(model.graph)}
    found: dict[tuple[str, str], set[str]] = {}
    places: dict[tuple[str, str], Location] = {}
    for problem in entries:
        node = _owning_node(problem["name"], scopes)
        at = location_of(node) if node is not None else Location("", problem["name"])
        at = replace(at, operator=standard_operator(at.operator))
        key = (at.operator, at.node)
        places[key] = at
        found.setdefault(key, set()).add(problem["operator"].removeprefix("tf."))
    return [
        Problem(at=at, why=f"TensorFlow Lite has no built-in {', '.join(sorted(found[key]))} for these dtypes and dims")
        for key, at in places.items()
    ]


def _list_problems(model: ir.Model) -> list[Problem]:
    """Return the nodes that collect results in lists of tensors, because the converter does not say which of them it
    rejects.
    """
    why = "TensorFlow Lite has no list of tensors for the results that it collects, of dims not known before"
    found = [location_of(n) for n in nodes_of(model.graph) if n.op_type in _COLLECTING and _collects(n)]
    return [Problem(at=replace(at, operator=standard_operator(at.operator)), why=why) for at in found] or [Problem(why)]


def _collects(node: ir.Node) -> bool:
    """Return whether a Loop has more outputs than carried values, or sequences among them. Other operators count as
    collecting.
    """
    sequences = any(isinstance(v.type, ir.SequenceType) for v in node.outputs)
    return node.op_type != "Loop" or sequences or len(node.outputs) > len(node.inputs) - 2


_COLLECTING = ("Loop", "Scan", "SequenceMap", "NonMaxSuppression")


def _owning_node(name: str, scopes: Mapping[str, ir.Node]) -> ir.Node | None:
    """Return the node with the longest name among those whose scope contains the operation."""
    parts = name.split("/")
    for end in range(len(parts), 0, -1):
        for start in range(end):
            node = scopes.get("/".join(parts[start:end]))
            if node is not None:
                return node
    # TensorFlow numbers nodes without a name by operator.
    return next((scopes[plain] for part in parts if (plain := re.sub(r"_\d+$", "", part)) in scopes), None)
