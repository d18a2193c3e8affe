"""Writes TensorFlow Lite models: our rules emit the graph, TensorFlow's converter encodes its operators.

The converter runs in a child process, because some graphs end it, and what it prints is not for the user.
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
from convert.interpreter import module_command
from convert.nearest import saving_hint
from convert.options import Options
from convert.passes import run_passes
from convert.passes.narrow_products import narrow_products
from convert.passes.size_checks import write_size_checks_as_reshapes
from convert.report import Report
from convert.runners.arrays import save_arrays
from convert.runners.fork_client import Child, fork
from convert.runners.warm import address_of

from .. import ops  # noqa: F401  (fills the table)
from ..constants import scope_name
from ..emit import check, dtype_and_shape, tensor_inputs
from ..passes.legalize import legalize
from ..rules import LITE, onnx_op, standard_operator
from ..writer.graph_weights import write_graph
from ..writer.savedmodel import frozen_graph
from ..writer.signature import SIGNATURE, Names
from .apart import write_kept_apart_as_checks
from .flatbuffer import set_signature_order
from .fused import give_transposed_convolutions_a_bias
from .gaps import WRITTEN_OUT

_HINT = (
    "TensorFlow Lite's built-in operators are fewer than TensorFlow's, and its runtime here has no others; "
    "--to tf writes all of the model"
)


def write_tflite(model: ir.Model, path: Path, options: Options, report: Report) -> None:
    """Write a `.tflite` with one signature, `serving_default`, whose inputs and outputs are the model's.

    `options.dtype` "float16" stores weights in float16. `options.quantize` "int8" stores them in 8 bits, and with
    `options.calibrate`, arrays of samples by input name, activations too; inputs and outputs keep their dtypes.

    Raises `Unsupported` with every node that the built-in operators of TensorFlow Lite cannot express, `ResourceLimit`
    for 2 GiB or more.
    """
    with scratch_folder() as folder:
        inputs, outputs = prepare_job(model, folder, options)
        _run_converter(folder)
        Path(path).write_bytes(read_flatbuffer(folder, model, inputs, outputs))


def prepare_job(model: ir.Model, folder: Path, options: Options) -> tuple[list[str], list[str]]:
    """Put the job of the child process into `folder`; returns what the inputs and outputs are called."""

    def choose_builtins(model: ir.Model) -> bool:
        return prefer_builtins(model, calibrated=bool(options.calibrate)) | keep_shapes_of_branches(model)

    def reshape_to_check(model: ir.Model) -> bool:
        return write_size_checks_as_reshapes(model, by_dims=True)

    legalize(model, options.dump_passes, WRITTEN_OUT)
    passes = narrow_products, reshape_to_check, choose_builtins, give_transposed_convolutions_a_bias
    run_passes(model, passes, options.dump_passes)
    check(model)
    definition, inputs, outputs, contents = frozen_graph(model)
    write_kept_apart_as_checks(definition)
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
    job = {"dtype": options.dtype, "quantize": options.quantize, "samples": count}
    (folder / "job.json").write_text(json.dumps(job))
    return [real for real, _ in inputs], [real for real, _ in outputs]


def read_flatbuffer(folder: Path, model: ir.Model, inputs: Sequence[str], outputs: Sequence[str]) -> bytearray:
    """The flatbuffer that the child process left in `folder`, its ends in order. Raises as `write_tflite` does."""
    status = json.loads((folder / "status.json").read_text())
    if "tensor list" in status["error"]:
        raise Unsupported(problems=_list_problems(model), hint=_HINT)
    if status["problems"]:
        raise Unsupported(problems=_problems(status["problems"], model), hint=_HINT)
    if status["error"]:
        raise ConvertError(f"TensorFlow's converter to TensorFlow Lite refused the graph: {status['error']}")
    file = folder / "model.tflite"
    data = bytearray(file.stat().st_size)
    with open(file, "rb") as stream:
        stream.readinto(memoryview(data))
    set_signature_order(data, inputs, outputs)
    return data


def prefer_builtins(model: ir.Model, *, calibrated: bool) -> bool:
    """Give float32 nodes, and those of `_OF_EVERY_DTYPE`, the domain of their rules for TensorFlow Lite, if any.

    calibrated: activations will be in 8 bits.
    """
    modified = False
    for node in nodes_of(model.graph):
        first = node.inputs[0] if node.inputs else None
        better = node.domain == (CHANNELS_LAST if node.op_type in _OF_CHANNELS_LAST else "")
        better &= f"{LITE}::{node.op_type}" in onnx_op.entries and (calibrated or node.op_type != "MaxPool")
        floats = first is not None and first.dtype == ir.DataType.FLOAT
        if better and (floats or node.op_type in _OF_EVERY_DTYPE):
            node.domain, modified = LITE, True
    return modified


_OF_CHANNELS_LAST = ("ConvInteger", "MaxPool", "QLinearConv")
_OF_EVERY_DTYPE = ("Abs", "ConstantOfShape", "ConvInteger", "Div", "Loop", "MatMulInteger", "MaxUnpool", "Mod",
                   "QLinearConv", "QLinearMatMul", "Scan", "ScatterElements", "ScatterND", "Sign", "Slice", "Split",
                   "Squeeze", "Tile")  # fmt: skip


def keep_shapes_of_branches(model: ir.Model) -> bool:
    """Take the maximum of each integer that a branch of If gives and the least one; whether there is any.

    TensorFlow Lite computes shapes before it runs, and its If copies other bytes for a result that is one (LiteRT 2.3:
    garbage, or an end of the process).
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


def check_tflite(model: ir.Model, options: Options) -> None:
    """Raise `Unsupported` with every node that `write_tflite` could not express: it is tried out, and changed."""
    with scratch_folder() as folder:
        plain = replace(options, dtype="", quantize="", calibrate={})
        write_tflite(model, folder / "model.tflite", plain, Report("check"))


def calibration_samples(model: ir.Model, arrays: Mapping[str, Any]) -> Iterable[dict[str, np.ndarray]]:
    """Calibration data, one set of inputs at a time: along a dynamic leading dim, or along one that inputs do not have.

    Raises `UsageError` for arrays that are not the model's inputs.
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
    raise UsageError(f"the calibration data for {value.name!r} has shape {list(array.shape)}, and the input {shape}")


# Fields of SavedModel: its version, 1, and its graphs; of MetaGraphDef: the graph, which is the most of it by far.
_VERSION, _META_GRAPH, _GRAPH = b"\x08\x01", 2, 2


def _meta_graph(definition: Any, model: ir.Model, inputs: Names, outputs: Names) -> meta_graph_pb2.MetaGraphDef:
    """What a SavedModel of TensorFlow 1, which keeps every name, says beside its graph."""
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
        raise ConvertError(f"TensorFlow's converter to TensorFlow Lite died with {how}")


def _problems(entries: Sequence[Mapping[str, str]], model: ir.Model) -> list[Problem]:
    """What the converter could not express, by the nodes of the model whose rules emitted it."""
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
    """The nodes that collect results in lists of tensors, of which the converter does not say which it means."""
    why = "TensorFlow Lite has no list of tensors for the results that it collects, of dims not known before"
    found = [location_of(n) for n in nodes_of(model.graph) if n.op_type in _COLLECTING and _collects(n)]
    return [Problem(at=replace(at, operator=standard_operator(at.operator)), why=why) for at in found] or [Problem(why)]


def _collects(node: ir.Node) -> bool:
    """Whether a Loop has more outputs than it carries, or sequences among them; any other operator."""
    sequences = any(isinstance(v.type, ir.SequenceType) for v in node.outputs)
    return node.op_type != "Loop" or sequences or len(node.outputs) > len(node.inputs) - 2


_COLLECTING = ("Loop", "Scan", "SequenceMap", "NonMaxSuppression", "LSTM", "GRU", "RNN")


def _owning_node(name: str, scopes: Mapping[str, ir.Node]) -> ir.Node | None:
    """The node with the longest name among those that are a scope of the operation's."""
    parts = name.split("/")
    for end in range(len(parts), 0, -1):
        for start in range(end):
            node = scopes.get("/".join(parts[start:end]))
            if node is not None:
                return node
    # Of nodes without a name, TensorFlow counts those of one operator.
    return next((scopes[plain] for part in parts if (plain := re.sub(r"_\d+$", "", part)) in scopes), None)
