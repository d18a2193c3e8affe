"""Writes the lowered model to a file, one tensor at a time, so that no second copy of the weights is made.

A single file is an ONNX protobuf message: protobuf serializes the model without its weights, and the initializers are
inserted into its graph field by hand (https://protobuf.dev/programming-guides/encoding).
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO

import numpy as np
import onnx
import onnx_ir as ir

from convert.activity import advance
from convert.errors import DEFECT, ConvertError, ResourceLimit
from convert.files.protobuf_wire import length_delimited_header
from convert.graph.shape_inference import is_small, weightless_proto
from convert.graph.tensors import contiguous_parts, dims_of
from convert.outcome.report import Report

INLINE_LIMIT = 1_800_000_000
"""Maximum bytes of weights inside the .onnx file; protobuf ends at 2 GiB."""

# Offsets of external tensors are multiples of this, so that readers can map them into memory.
_ALIGNMENT = 4096
_GRAPH, _INITIALIZER, _RAW_DATA = 7, 5, 9

Weights = Sequence[tuple[str, ir.TensorProtocol]]


def write_model(model: ir.Model, path: Path, report: Report, *, limit: int = INLINE_LIMIT) -> None:
    """Write `model` to `path`; weights of more than `limit` bytes in total go to `<path>.data`."""
    weights = _large_weights(model)
    proto = skeleton(model)
    _check(proto)
    if names := open_ranks(model):
        report.note(
            f"the number of dims of {', '.join(names)} is not known: written without a shape, which runtimes take and "
            "onnx.checker does not",
            code="no-shape",
        )
    size = sum(tensor.nbytes for _, tensor in weights)
    _release_inputs(proto, model)
    if size > limit:
        data = path.with_name(path.name + ".data")
        with open(data, "wb") as stream:
            _write_external(proto, weights, data.name, stream)
        with open(path, "wb") as stream:
            stream.write(proto.SerializeToString(deterministic=True))
        if not names:
            onnx.checker.check_model(str(path))
        report.note(f"the weights are in {data.name}, which has to stay beside {path.name}", code="weights-beside")
    else:
        with open(path, "wb") as stream:
            _write_inline(proto, weights, stream)


def model_proto(model: ir.Model) -> onnx.ModelProto:
    """Return `model` as a ModelProto that includes its weights. Raises `ResourceLimit` over 2 GB."""
    _check(skeleton(model))
    if sum(tensor.nbytes for _, tensor in _large_weights(model)) > INLINE_LIMIT:
        raise ResourceLimit(
            "the weights do not fit into a ModelProto, which ends at 2 GiB",
            hint="write a file instead: the weights then go beside it",
        )
    return ir.serde.serialize_model(model)


def skeleton(model: ir.Model) -> onnx.ModelProto:
    """Return the model with its large weights as inputs, which is valid by itself."""
    return weightless_proto(model)


def _large_weights(model: ir.Model) -> list[tuple[str, ir.TensorProtocol]]:
    """Return the weights that the skeleton lacks, by their names in it."""
    found: list[tuple[str, ir.TensorProtocol]] = []
    for value in model.graph.initializers.values():
        tensor = value.const_value
        if tensor is None:
            raise ConvertError(f"the initializer {value.name!r} has no content")
        if not is_small(tensor):
            found.append((value.name or "", tensor))
    return found


def _release_inputs(proto: onnx.ModelProto, model: ir.Model) -> None:
    """Keep only the model's own inputs among the skeleton's."""
    names = [v.name for v in model.graph.inputs]
    inputs = {i.name: i for i in proto.graph.input}
    kept = onnx.GraphProto(input=[inputs[n] for n in names])
    del proto.graph.input[:]
    proto.graph.input.extend(kept.input)


def _write_external(proto: onnx.ModelProto, weights: Weights, location: str, stream: BinaryIO) -> None:
    written, size = 0, sum(tensor.nbytes for _, tensor in weights)
    for name, tensor in weights:
        stream.write(b"\0" * (-stream.tell() % _ALIGNMENT))
        offset = stream.tell()
        _write_data(tensor, stream)
        written += tensor.nbytes
        advance(written, size)
        entry = _tensor_header(name, tensor)
        entry.data_location = onnx.TensorProto.EXTERNAL
        for key, value in (("location", location), ("offset", offset), ("length", tensor.nbytes)):
            entry.external_data.add(key=key, value=str(value))
        proto.graph.initializer.append(entry)


def _write_inline(proto: onnx.ModelProto, weights: Weights, stream: BinaryIO) -> None:
    graph = proto.graph.SerializeToString(deterministic=True)
    rest = onnx.ModelProto()
    rest.CopyFrom(proto)
    rest.ClearField("graph")
    heads = []
    for name, tensor in weights:
        head = _tensor_header(name, tensor).SerializeToString(deterministic=True) + length_delimited_header(
            _RAW_DATA, tensor.nbytes
        )
        heads.append(length_delimited_header(_INITIALIZER, len(head) + tensor.nbytes) + head)
    size = len(graph) + sum(len(head) + tensor.nbytes for head, (_, tensor) in zip(heads, weights, strict=True))
    stream.write(rest.SerializeToString(deterministic=True))
    stream.write(length_delimited_header(_GRAPH, size) + graph)
    start = stream.tell() - len(graph)
    for head, (_, tensor) in zip(heads, weights, strict=True):
        stream.write(head)
        _write_data(tensor, stream)
        advance(stream.tell(), start + size)


def _tensor_header(name: str, tensor: ir.TensorProtocol) -> onnx.TensorProto:
    return onnx.TensorProto(name=name, data_type=int(tensor.dtype), dims=dims_of(tensor))


def _ends(proto: onnx.ModelProto) -> list[onnx.ValueInfoProto]:
    return [*proto.graph.input, *proto.graph.output]


def _write_data(tensor: ir.TensorProtocol, stream: BinaryIO) -> None:
    start = stream.tell()
    if sys.byteorder == "little" and tensor.dtype.bitwidth >= 8:  # otherwise elements must be swapped or packed
        for part in contiguous_parts(tensor.numpy()):
            stream.write(part.reshape(-1).view(np.uint8).data)
    else:
        stream.write(tensor.tobytes())
    if stream.tell() - start != tensor.nbytes:
        raise ConvertError(
            f"the weights {tensor.name!r} have {stream.tell() - start} bytes, and their dims need {tensor.nbytes}",
            hint=DEFECT,
        )


def open_ranks(model: ir.Model) -> list[str]:
    """Return the inputs and outputs of unknown rank, which are written without a shape.

    ONNX expresses this by a missing shape (IR.md, "Static tensor shapes"), and runtimes accept it. Its checker, in
    every version from 1.8 to 1.23, requires a shape for inputs and outputs, and has no form for an unknown rank.
    """
    ends = (*model.graph.inputs, *model.graph.outputs)
    return [str(v.name) for v in ends if v.shape is None and isinstance(v.type, ir.TensorType)]


def _check(proto: onnx.ModelProto) -> None:
    given = proto
    if any(v.type.HasField("tensor_type") and not v.type.tensor_type.HasField("shape") for v in _ends(proto)):
        given = onnx.ModelProto()
        given.CopyFrom(proto)
        for value in _ends(given):
            if value.type.HasField("tensor_type"):
                value.type.tensor_type.shape.SetInParent()
    try:
        onnx.checker.check_model(given)
    except onnx.checker.ValidationError as error:
        raise ConvertError(
            f"the ONNX model that would be written is not valid: {' '.join(str(error).split())[:500]}",
            hint=DEFECT,
        ) from error
