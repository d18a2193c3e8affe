"""Writes a decoder for the first token and one with a cache as one file, which transformers.js and optimum look for.

The file has the inputs of both, and `use_cache_branch`, a truth value of shape [1]: an If runs one decoder or the
other. The decoders share the weights that they have in common.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from itertools import count
from pathlib import Path

import onnx_ir as ir

from convert.errors import Unsupported
from convert.graph.shape_inference import is_small
from convert.graph.tensors import contiguous_parts, dims_of
from convert.outcome.report import Report
from convert.runtimes.generation import CACHE_BRANCH, PAST, PRESENT

from .writer import INLINE_LIMIT, write_model

Values = Mapping[str, ir.Value]
_BRANCHES = {"else_branch": "first", "then_branch": "further"}
"""The attributes of an If on whether there is a cache, each with the suffix of new names in its branch."""


def merge_decoders(first: Path, further: Path, place: Path, report: Report, *, limit: int = INLINE_LIMIT) -> None:
    """Write the decoders `first` (without a cache) and `further` (with one) to `place`, as `write_model` does.

    The outputs are those of `first`. An output `present.NAME` that `further` lacks is its input `past_key_values.NAME`:
    the keys and values of the encoder stay as they are. Raises `Unsupported` for any other output that it lacks, and
    for weights among the inputs, as opsets 7 and 8 have them.
    """
    decoders = [ir.load(path) for path in (first, further)]
    if any(value.is_initializer() for decoder in decoders for value in decoder.graph.inputs):
        raise Unsupported("weights are among the inputs, as in opsets 7 and 8")
    inputs, outputs = _outer_inputs(decoders), _outer_outputs(*decoders)
    weights = _share_weights(decoders)
    flag = _value(CACHE_BRANCH, ir.DataType.BOOL, [1])
    taken = {*inputs, *outputs, *weights, CACHE_BRANCH}
    branches = [
        ir.AttrGraph(name, _branch(decoder.graph, inputs, outputs, taken, suffix))
        for decoder, (name, suffix) in zip(decoders, _BRANCHES.items(), strict=True)
    ]
    chosen = ir.Node("", "If", [flag], branches, outputs=list(outputs.values()), name=CACHE_BRANCH)
    graph = ir.Graph(
        [*inputs.values(), flag], list(outputs.values()), nodes=[chosen], initializers=list(weights.values()),
        opset_imports=decoders[0].opset_imports | decoders[1].opset_imports, name="main",
    )  # fmt: skip
    write_model(ir.Model(graph, ir_version=decoders[0].ir_version, producer_name="convert"), place, report, limit=limit)


def _value(name: str, dtype: ir.DataType | None, dims: Iterable[int | str | None]) -> ir.Value:
    return ir.Value(name=name, type=None if dtype is None else ir.TensorType(dtype), shape=ir.Shape(list(dims)))


def _dims(value: ir.Value) -> list[int | str | None]:
    return [dim if isinstance(dim, int) else dim.value for dim in value.shape or ()]


def _outer_inputs(decoders: Sequence[ir.Model]) -> dict[str, ir.Value]:
    """Return new values for the inputs of both decoders, by name.

    For the first token, runtimes pass a cache of any length. So the dims of the cache after the first, which is the
    batch, share no name with other inputs.
    """
    elsewhere = {dim for value in decoders[0].graph.inputs for dim in _dims(value)}
    found: dict[str, ir.Value] = {}
    for value in (value for decoder in decoders for value in decoder.graph.inputs):
        name, dims = str(value.name), _dims(value)
        if name.startswith(PAST):
            dims[1:] = [f"past_{dim}" if isinstance(dim, str) and dim in elsewhere else dim for dim in dims[1:]]
        found.setdefault(name, _value(name, value.dtype, dims))
    return found


def _outer_outputs(first: ir.Model, further: ir.Model) -> dict[str, ir.Value]:
    """Return new values for the outputs of the first decoder, by name. A dim that differs has a new name."""
    ends = {v.name: v for v in (*further.graph.inputs, *further.graph.outputs)}
    found = {}
    for value in first.graph.outputs:
        name = str(value.name)
        other = ends.get(name, ends.get(name.replace(PRESENT, PAST, 1)))
        if other is None:
            raise Unsupported(f"the decoder with a cache has no output {name}, so both cannot become one file")
        pairs = zip(_dims(value), _dims(other), strict=True)
        found[name] = _value(name, value.dtype, [a if a == b else f"total_{a}" for a, b in pairs])
    return found


def _share_weights(decoders: Sequence[ir.Model]) -> dict[str, ir.Value]:
    """Take the large weights out of both decoders, and return one value for each content, by name."""
    by_content: dict[tuple[object, ...], ir.Value] = {}
    found: dict[str, ir.Value] = {}
    for decoder in decoders:
        for name, value in list(decoder.graph.initializers.items()):
            content = value.const_value
            if content is None or is_small(content):
                continue
            key = (content.dtype, dims_of(content), _digest(content))
            if key not in by_content:
                new = _unused(name, found)
                found[new] = by_content[key] = _value(new, content.dtype, dims_of(content))
                found[new].const_value = content
            decoder.graph.initializers.pop(name)
            value.replace_all_uses_with(by_content[key])
    return found


def _digest(content: ir.TensorProtocol) -> bytes:
    found = hashlib.sha256()
    for part in contiguous_parts(content.numpy()):
        found.update(part.reshape(-1).view("uint8").data)
    return found.digest()


def _unused(name: str, taken: Iterable[str]) -> str:
    """Return `name`, with a number if it is in `taken`."""
    return next(new for number in count() if (new := f"{name}_{number}" if number else name) not in taken)


def _branch(graph: ir.Graph, inputs: Values, outputs: Values, taken: set[str], suffix: str) -> ir.Graph:
    """Return the nodes of `graph` as a branch that reads the outer `inputs` and returns the `outputs`.

    A branch must not use a name of the outer graph (`taken`) for a value of its own.
    """
    ends = {**inputs, **{str(value.name): value for value in graph.outputs}}
    own = [*graph.initializers.values(), *(value for node in graph.all_nodes() for value in node.outputs)]
    used = taken | {str(value.name) for value in own}
    for value in own:
        if value.name in taken:
            value.name = _unused(f"{value.name}_{suffix}", used)
            used.add(value.name)
    for value in graph.inputs:
        value.replace_all_uses_with(inputs[str(value.name)])
    nodes, initializers = list(graph), list(graph.initializers.values())
    results = []
    for name in outputs:
        value = ends[name] if name in ends else inputs[name.replace(PRESENT, PAST, 1)]
        node = value.producer()
        if node is None or node.graph is not graph or value in results:
            nodes.append(ir.Node("", "Identity", [value]))
            value = nodes[-1].outputs[0]
            value.name = _unused(f"{name}_{suffix}", used)
            used.add(value.name)
        results.append(value)
    graph.outputs.clear()
    graph.initializers.clear()
    graph.remove(list(graph))
    return ir.Graph([], results, nodes=nodes, initializers=initializers, name=suffix)
