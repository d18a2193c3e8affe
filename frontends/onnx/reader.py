"""Reads an ONNX model from a file or from memory: parse, check, inline functions, leave weights in place."""

from __future__ import annotations

import mmap
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import onnx
import onnx_ir as ir
from google.protobuf.message import DecodeError
from onnx_ir.passes import common

from convert.errors import BadInput, Location, Unsupported, UsageError
from convert.graph.builder import check_output_count
from convert.graph.claims import claim_notes
from convert.graph.dim_counts import check_dims
from convert.graph.metadata import FILES_KEY
from convert.graph.misread_attributes import has_misread_attributes, misread_attribute
from convert.graph.shape_inference import SMALL
from convert.graph.tensors import dims_of
from convert.graph.written_numbers import record_constants_of_operators
from convert.outcome.report import Report
from convert.passes.tidy.decide_branches import decide_branches
from convert.patterns.layers import find_layers
from convert.request.options import Options
from convert.request.source import Source
from convert.runtimes.onnx_products import rounding_levels

from .cache_calls import bind_calls
from .functions import all_nodes, check_functions, drop_overruled_functions, inline_functions
from .lazy_proto import ByteSpan, parse_model
from .lift import fix_inputs, fix_values, lift_opset
from .nested import flatten_inputs
from .notes import check_notes
from .repair import allow_unlisted_weights, give_output_types, repair
from .runtime_operators import find_facts, give_domain, write_in_onnx
from .strict import contradiction_in
from .weight_sizes import fix_channels
from .weights import check_tensor, dense_tensor, external_files, external_tensor, mapped_tensor

Weights = dict[str, ir.TensorProtocol]


def read_model(source: Source, options: Options, report: Report) -> ir.Model:
    """Return the model, as `frontends.onnx.read` describes."""
    if source.path is not None:
        proto, spans = _parse_file(source.path)
    elif isinstance(source.model, ir.Model):
        return _read_ir(source.model, options, report)
    else:
        proto, spans = _copy_without_large(source.model), {}
    files = external_files(proto, source.path)
    weights = _take_weights(proto, spans, source.path)
    if isinstance(source.model, onnx.ModelProto):
        _take_large_weights(source.model, weights)
    model = _finish_model(proto, weights, options, report)
    model.meta[FILES_KEY] = files
    return model


def _finish_model(proto: onnx.ModelProto, weights: Weights, options: Options, report: Report) -> ir.Model:
    _normalize_proto(proto)
    repair(proto, report)
    overridable = _declare_weights(proto, weights)
    allow_unlisted_weights(proto, report)
    give_output_types(proto, report)
    overruled = drop_overruled_functions(proto)
    give_domain(proto, all_nodes(proto.graph.node))
    check_functions(proto)
    _check(proto)
    for function in (proto.graph, *proto.functions):
        _check_attributes(function.node)
    inlined = inline_functions(proto)
    _check_attributes(inlined.graph.node)  # a call determines the attributes of a function's nodes
    if contradiction := contradiction_in(proto.SerializeToString()):
        report.note(
            f"the model contradicts itself, as ONNX's inference sees it, and may run nowhere: {contradiction}",
            code="contradiction",
        )
    if count := sum(1 for _ in rounding_levels(inlined.graph.node)):
        report.note(
            f"onnxruntime rounds the activations of {count} products to 8 bits (accuracy_level 4); the graph does not",
            code="rounded-activations",
        )
    _refuse_maps(inlined.graph, options.outputs)
    try:
        model = ir.serde.deserialize_model(inlined)
    except Exception as error:  # onnx_ir wraps the original error
        raise BadInput(f"the ONNX model is broken: {_error_line(error)}", hint=_HINT) from error
    check_notes(model)
    claim_notes(model, "the source")
    _attach_weights(model, weights)
    _choose_outputs(model, options.outputs)
    common.LiftConstantsToInitializersPass(lift_all_constants=True, size_limit=SMALL)(model)
    if overridable:
        report.note(f"inputs with default values became constants: {', '.join(overridable)}", code="default-input")
    if overruled:
        report.note(
            f"functions named as operators of ONNX were left out, as runtimes do: {', '.join(overruled)}",
            code="left-out",
        )
    if len(inlined.training_info):
        report.note("training information in the file was left out", code="left-out")
    flatten_inputs(model, options)
    fix_values(model, options, report)
    check_dims(model)
    find_facts(model)
    lift_opset(model, report)
    bind_calls(model)
    write_in_onnx(model, report)
    fix_channels(model, report)
    fix_inputs(model, options, report)
    decide_branches(model)
    record_constants_of_operators(model.graphs())
    find_layers(model)
    return model


def _choose_outputs(model: ir.Model, names: Sequence[str]) -> None:
    """Make the tensors with these names the outputs, and drop what they do not need. Raises `UsageError` for a name
    that no node of the outermost graph computes.
    """
    if not names:
        return
    computed = {str(value.name): value for node in model.graph for value in node.outputs if value.name}
    for name in names:
        if name not in computed:
            raise UsageError(
                f"the model computes no {name!r}", hint="`convert inspect FILE --nodes '*'` lists the names"
            )
    model.graph.outputs[:] = [computed[name] for name in dict.fromkeys(names)]
    common.RemoveUnusedNodesPass()(model)


def _refuse_maps(graph: onnx.GraphProto, chosen: Sequence[str]) -> None:
    """Raise `Unsupported` for inputs and outputs that are maps, which only ONNX-ML has.

    Outputs that `chosen` replaces are dropped, with the nodes that make the maps.
    """
    for value in [value for value in graph.output if chosen and value.name not in chosen and _is_map(value)]:
        graph.output.remove(value)
        for node in [node for node in graph.node if value.name in node.output]:
            graph.node.remove(node)
            # ONNX's inference does not know the results of Normalizer; ZipMap takes float32.
            if node.op_type == "ZipMap" and node.input and all(v.name != node.input[0] for v in graph.value_info):
                graph.value_info.append(onnx.helper.make_tensor_value_info(node.input[0], onnx.TensorProto.FLOAT, None))
    numbers = {node.output[0]: node.input[0] for node in graph.node if node.op_type == "ZipMap" and node.input}
    for value in (*graph.input, *graph.output):
        if _is_map(value):
            tensors = ",".join(numbers.get(output.name, output.name) for output in graph.output)
            raise Unsupported(
                f"{value.name!r} is of maps from labels to numbers (ZipMap), and no tensor",
                hint=f"convert the numbers in the maps: --outputs {tensors}" if value.name in numbers else "",
            )


def _is_map(value: onnx.ValueInfoProto) -> bool:
    kind = value.type.sequence_type.elem_type if value.type.HasField("sequence_type") else value.type
    return bool(kind.HasField("map_type"))


_HINT = "check the file with onnx.checker, or export it again"


def _parse_file(path: Path) -> tuple[onnx.ModelProto, dict[int, ByteSpan]]:
    try:
        with open(path, "rb") as stream:
            if os.fstat(stream.fileno()).st_size == 0:
                raise BadInput(f"{path} is empty", hint="fetch or export it again")
            with mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as data, memoryview(data) as view:
                proto, spans = parse_model(view, SMALL, str(path))
    except OSError as error:
        raise BadInput(f"{path} cannot be read: {error.strerror}", hint="check the path and its permissions") from error
    if not proto.HasField("graph") or not proto.ir_version:
        raise BadInput(f"{path} is not an ONNX model: it has no graph", hint="`convert formats` lists what can be read")
    return proto, spans


def _take_weights(proto: onnx.ModelProto, spans: dict[int, ByteSpan], path: Path | None) -> Weights:
    """Remove the large and external initializers from the graph; return them as lazy tensors by name."""
    weights: Weights = {}
    kept = []
    for i, tensor in enumerate(proto.graph.initializer):
        check_tensor(tensor, spans.get(i))
        if i in spans:
            assert path is not None
            _add_weight(weights, tensor.name, mapped_tensor(tensor, path, spans[i]))
        elif tensor.data_location == onnx.TensorProto.EXTERNAL:
            _add_weight(weights, tensor.name, external_tensor(tensor, path))
        else:
            kept.append(tensor)
    if len({t.name for t in kept} | set(weights)) < len(proto.graph.initializer):
        raise BadInput("two initializers of the model have the same name", hint=_HINT)
    for tensor in _inner_tensors(proto):
        check_tensor(tensor)
        if tensor.data_location == onnx.TensorProto.EXTERNAL:
            content = external_tensor(tensor, path).tobytes()
            tensor.ClearField("external_data")
            tensor.ClearField("data_location")
            tensor.raw_data = content
    for sparse in proto.graph.sparse_initializer:
        _add_weight(weights, sparse.values.name, dense_tensor(sparse))
    if len(kept) < len(proto.graph.initializer):
        small = onnx.GraphProto(initializer=kept)
        del proto.graph.initializer[:]
        proto.graph.initializer.extend(small.initializer)
    del proto.graph.sparse_initializer[:]
    _write_out_sparse(proto)
    return weights


def _write_out_sparse(proto: onnx.ModelProto) -> None:
    """Make sparse constants and sparse initializers of subgraphs dense, because onnx_ir lacks sparse tensors."""

    def dense(sparse: onnx.SparseTensorProto) -> onnx.TensorProto:
        return onnx.numpy_helper.from_array(dense_tensor(sparse).numpy(), sparse.values.name)

    for attribute in _attributes(proto):
        if attribute.name == "sparse_value" and attribute.HasField("sparse_tensor"):
            attribute.CopyFrom(onnx.helper.make_attribute("value", dense(attribute.sparse_tensor)))
    for graph in _inner_graphs(proto):
        graph.initializer.extend([dense(sparse) for sparse in graph.sparse_initializer])
        del graph.sparse_initializer[:]


def _add_weight(weights: Weights, name: str, tensor: ir.TensorProtocol) -> None:
    if name in weights:
        raise BadInput(f"the model has two initializers named {name!r}", hint=_HINT)
    weights[name] = tensor


def _inner_tensors(proto: onnx.ModelProto) -> Iterator[onnx.TensorProto]:
    """Yield every tensor but the initializers of the outermost graph, including parts of sparse ones and of
    functions.
    """
    for attribute in _attributes(proto):
        if attribute.HasField("t"):
            yield attribute.t
        yield from attribute.tensors
        for sparse in (*([attribute.sparse_tensor] if attribute.HasField("sparse_tensor") else []),
                       *attribute.sparse_tensors):  # fmt: skip
            yield from (sparse.values, sparse.indices)
    for graph in (proto.graph, *_inner_graphs(proto)):
        if graph is not proto.graph:
            yield from graph.initializer
        for sparse in graph.sparse_initializer:
            yield from (sparse.values, sparse.indices)


def _inner_graphs(proto: onnx.ModelProto) -> Iterator[onnx.GraphProto]:
    """Yield all nested subgraphs."""
    for attribute in _attributes(proto):
        if attribute.HasField("g"):
            yield attribute.g
        yield from attribute.graphs


def _attributes(proto: onnx.ModelProto) -> Iterator[onnx.AttributeProto]:
    """Yield every attribute of every node, and the defaults of functions for calls that leave them out."""
    waiting = [
        a for nodes in (proto.graph.node, *(f.node for f in proto.functions)) for n in nodes for a in n.attribute
    ]
    waiting += [attribute for function in proto.functions for attribute in function.attribute_proto]
    while waiting:
        attribute = waiting.pop()
        yield attribute
        graphs = [*([attribute.g] if attribute.HasField("g") else []), *attribute.graphs]
        waiting += [inner for graph in graphs for node in graph.node for inner in node.attribute]


def _copy_without_large(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return a copy of a ModelProto without its large initializers."""
    copy = onnx.ModelProto()
    for field, value in model.ListFields():
        if field.name == "graph":
            for inner, content in value.ListFields():
                if inner.name == "initializer":
                    copy.graph.initializer.extend(t for t in content if not _is_large(t))
                elif inner.is_repeated:
                    getattr(copy.graph, inner.name).extend(content)
                else:
                    setattr(copy.graph, inner.name, content)
        elif field.is_repeated:
            getattr(copy, field.name).extend(value)
        else:
            setattr(copy, field.name, value)
    return copy


def _take_large_weights(model: onnx.ModelProto, weights: Weights) -> None:
    for tensor in model.graph.initializer:
        if _is_large(tensor):
            check_tensor(tensor)
            _add_weight(weights, tensor.name, ir.serde.TensorProtoTensor(tensor))


def _is_large(tensor: onnx.TensorProto) -> bool:
    return tensor.data_location != onnx.TensorProto.EXTERNAL and len(tensor.raw_data) > SMALL


def _normalize_proto(proto: onnx.ModelProto) -> None:
    """Normalize a proto: one name for the default domain, opset 1 if none is given, and no dims that only seem to be
    known.
    """
    if not proto.opset_import:
        proto.opset_import.append(onnx.helper.make_opsetid("", 1))
    newest = onnx.defs.onnx_opset_version()
    for entry in proto.opset_import:
        if entry.domain in ("", "ai.onnx") and not 0 < entry.version <= newest:
            raise Unsupported(
                f"the model is of opset {entry.version}, and the installed onnx knows opsets 1 to {newest}",
                hint="install a newer onnx, which may read it: pip install --upgrade onnx",
            )
    _check_other_domains(proto)
    for container in (proto.opset_import, *(f.opset_import for f in proto.functions)):
        for entry in container:
            if entry.domain == "ai.onnx":
                entry.domain = ""
    for function in proto.functions:
        if function.domain == "ai.onnx":
            function.domain = ""
    graphs = [proto.graph]
    pending: list[Any] = [proto.graph.node, *(f.node for f in proto.functions)]
    while pending:
        for node in pending.pop():
            if node.domain == "ai.onnx":
                node.domain = ""
            check_output_count(len(node.output), Location(node.op_type, node.name))
            for attribute in node.attribute:
                inner = [*([attribute.g] if attribute.HasField("g") else []), *attribute.graphs]
                graphs.extend(inner)
                pending.extend(g.node for g in inner)
    _rename_dims([v for g in graphs for v in (*g.input, *g.output, *g.value_info)])


def _check_other_domains(proto: onnx.ModelProto) -> None:
    """Raise `Unsupported` for an opset of ONNX's other domains that the installed onnx does not know.

    An entry without a node is removed.
    """
    known = onnx.defs.C.schema_version_map()
    used = {
        node.domain for nodes in (proto.graph.node, *(f.node for f in proto.functions)) for node in all_nodes(nodes)
    }
    for entry in list(proto.opset_import):
        if entry.domain in ("", "ai.onnx") or entry.domain not in known:
            continue
        least, most = known[entry.domain]
        if least <= entry.version <= most:
            continue
        if entry.domain in used:
            raise Unsupported(
                f"the model is of opset {entry.version} of {entry.domain}, and the installed onnx knows opsets {least} "
                f"to {most}",
                hint="install a newer onnx, which may read it: pip install --upgrade onnx",
            )
        proto.opset_import.remove(entry)


def _rename_dims(values: Sequence[onnx.ValueInfoProto]) -> None:
    """Clear names of dims that stand for no name, and rename those that are numbers.

    Sizes are computed from names such as `2*n`. A dynamic dim called `7` would be compared at this size only.
    """
    dims = [dim for value in values for dim in value.type.tensor_type.shape.dim]
    names = {dim.dim_param: dim.dim_param for dim in dims}
    for dim in dims:
        negative = dim.HasField("dim_value") and dim.dim_value < 0
        if negative or (dim.HasField("dim_param") and _NAMELESS.fullmatch(dim.dim_param)):
            dim.Clear()
        elif dim.HasField("dim_param") and not _LETTER.search(dim.dim_param):
            if names[dim.dim_param] == dim.dim_param:
                name = "dim_" + re.sub(r"\W", "_", dim.dim_param)
                while name in names.values():
                    name += "_"
                names[dim.dim_param] = name
            dim.dim_param = names[dim.dim_param]


_LETTER = re.compile(r"[^\W\d]")
# Names that exporters write for an unknown size: each is a separate dim, not a shared one.
_NAMELESS = re.compile(r"\s*|\?|\*|None|none|null|-\d+|unk__\d+|unknown", re.ASCII)


def _declare_weights(proto: onnx.ModelProto, weights: Weights) -> list[str]:
    """Declare the weights as inputs, for the checker; return the names that were inputs with default values.

    Up to IR version 3 every initializer is listed among the inputs; later this means that the value may be overridden.
    """
    listed = {i.name for i in proto.graph.input}
    both = [n for n in (*weights, *(t.name for t in proto.graph.initializer)) if n in listed]
    for name, tensor in weights.items():
        if name not in listed:
            kind = int(tensor.dtype)
            proto.graph.input.append(onnx.helper.make_tensor_value_info(name, kind, list(dims_of(tensor))))
    return both if proto.ir_version > 3 else []


def _check(proto: onnx.ModelProto) -> None:
    checked = onnx.ModelProto()
    checked.CopyFrom(proto)
    for value in (*checked.graph.input, *checked.graph.output):
        # The checker requires a shape; models with outputs of unknown rank are common, and run.
        if value.type.HasField("tensor_type"):
            value.type.tensor_type.shape.SetInParent()
    try:
        onnx.checker.check_model(checked)
    except onnx.checker.ValidationError as error:
        raise BadInput(f"the ONNX model is not valid: {_error_line(error)}", hint=_HINT, doubtful=True) from error
    except (DecodeError, ValueError, RuntimeError) as error:
        raise BadInput(f"the ONNX model cannot be checked: {_error_line(error)}", hint=_HINT, doubtful=True) from error


def _check_attributes(nodes: Iterable[onnx.NodeProto]) -> None:
    """Check attributes before inference sees them, because it crashes on some that the checker accepts."""
    for node in all_nodes(nodes):
        if not node.domain and has_misread_attributes(node.op_type):
            own = [a for a in node.attribute if not a.ref_attr_name]
            given = {a.name: a.s.decode("utf-8", "replace") if a.HasField("s") else a.i for a in own}
            if wrong := misread_attribute(node.op_type, given, len(node.output)):
                raise BadInput(f"{Location(node.op_type, node.name)}: {wrong}", hint="export it again")


def _attach_weights(model: ir.Model, weights: Weights) -> None:
    graph = model.graph
    for value in list(graph.inputs):
        name = value.name or ""
        if name in weights:
            tensor = weights[name]
            value.const_value = tensor
            value.type, value.shape = ir.TensorType(tensor.dtype), ir.Shape(dims_of(tensor))
            graph.inputs.remove(value)
            graph.register_initializer(value)
        elif name in graph.initializers:
            graph.inputs.remove(value)


def _read_ir(model: ir.Model, options: Options, report: Report) -> ir.Model:
    """Read a model that is in onnx_ir already: its tensors are used unchanged."""
    copy = model.clone()
    weights: Weights = {}
    for name, value in list(copy.graph.initializers.items()):
        tensor = value.const_value
        if tensor is None:
            raise BadInput(f"the initializer {name!r} has no content", hint="load the model with its weights")
        if tensor.nbytes > SMALL or isinstance(tensor, ir.ExternalTensor):
            copy.graph.initializers.pop(name)
            weights[name] = tensor
    return _finish_model(ir.serde.serialize_model(copy), weights, options, report)


def _error_line(error: Exception) -> str:
    return " ".join(str(error).split())[:600]
