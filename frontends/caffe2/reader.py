"""Reads nets: operators of init_net become initializers, those of predict_net the graph; blobs may be overwritten."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from dataclasses import replace
from typing import Any

import onnx_ir as ir

from convert.errors import (
    BadInput,
    ConvertError,
    Location,
    Problem,
    ResourceLimit,
    Unsupported,
    UsageError,
    contradiction,
)
from convert.files.caffe2.folder import read_folder
from convert.files.caffe2.netdef import Model, Net, Op
from convert.graph import Dim, Graph
from convert.graph.inputs import Bounds, add_input, match_specs
from convert.graph.metadata import DIMS_KEY
from convert.graph.tensors import SHORT_NAMES
from convert.graph.values import dims
from convert.outcome.report import Report
from convert.passes.tidy.clean import clean
from convert.request.options import DimSpec, InputSpec, Options
from convert.request.source import Source

from . import ops  # noqa: F401  (fills the table)
from .body import NestedNet
from .fills import FILLS, check_fills, filled_tensor
from .rules import caffe2_op
from .windows import WINDOWED, normalize_window_args

Values = dict[str, ir.Value]

_RANDOM = ("UniformFill", "GaussianFill", "XavierFill", "MSRAFill", "UniformIntFill")


def read_caffe2(source: Source, options: Options, report: Report) -> ir.Model:
    """Return the shared graph of a folder's nets. Raises `BadInput`, `Unsupported`, `UsageError`."""
    model = read_folder(source.file)
    if not model.predict.outputs:
        raise BadInput(f"{source.label} has no outputs: its predict_net writes no blob that it does not read")
    operators = [op for net in (model.init, model.predict) for op in _read_operators(net)]
    drawn = [Problem("a weight of random numbers", location(op)) for op in model.init.ops if op.type in _RANDOM]
    if drawn:
        raise Unsupported(problems=drawn, hint="run init_net once in Caffe2 and save the weights that it made")
    caffe2_op.check((op.type, location(op)) for op in operators if op.type not in FILLS)
    check_fills(operators)
    g = Graph(model.predict.name or "main")
    taken = dict.fromkeys(set(model.predict.outputs) - set(model.inputs), 0)  # the outputs keep their names
    g.reserve(taken)
    for name in model.placeholders():
        report.note(f"assuming that {name!r}, which init_net fills with one number, is the input", code="assumed-input")
    if model.outputs_found:
        report.note(f"outputs found by the net's shape: {', '.join(model.predict.outputs)}", code="found-outputs")
    bounds: Bounds = {}
    values = _add_inputs(g, model, options, bounds)
    values |= {name: g.initializer(name, ir.tensor(array)) for name, array in model.blobs.items()}
    # Nets for mobile devices fill their inputs in init_net with arbitrary values; a fill in predict_net is intended.
    data = {name for name, value in values.items() if value.is_graph_input()}
    lower(g, model.init, values, data)
    lower(g, model.predict, values, data - set(model.inputs))
    inferred = model.results()
    for name in model.predict.outputs:
        taken.pop(name, None)
        value = find_blob(values, name, "predict_net")
        g.facts(value, shape=_merge_dims(value, inferred.get(name)))
        g.output(value, name)
    result = g.model()
    clean(result)
    if bounds:
        result.metadata_props[DIMS_KEY] = json.dumps(bounds)
    return result


_NOT_READ = ("backward_step_net",)
"""Nets in arguments that are for training."""


def _read_operators(net: Net) -> Iterator[Op]:
    """Yield every operator that is read, including those of nets in arguments, except for training."""
    for op in net.ops:
        yield op
        for name, value in op.args.items():
            if isinstance(value, Net) and name not in _NOT_READ:
                yield from _read_operators(value)


def _add_inputs(g: Graph, model: Model, options: Options, bounds: Bounds) -> Values:
    described, filled = model.described_inputs(), model.placeholders()
    # Nets for mobile devices fill their inputs with arbitrary values: the user may say which blobs are inputs.
    inner = [s.name for s in options.inputs if s.name in model.predict.inputs and s.name not in model.inputs]
    names = [*model.inputs, *map(str, inner)]
    specs = match_specs(names, options.inputs)
    values: Values = {}
    for name in names:
        own, given = described.get(name, InputSpec(name)), specs.get(name)
        if len(filled.get(name, ())) > 1:  # a single number fits any shape
            own = replace(own, shape=tuple(map(DimSpec, filled[name])))
        if own.shape is None and (given is None or given.shape is None):
            raise UsageError(
                f"a Caffe2 net does not say the shape of its input {name!r}",
                hint=f"say it with --input, for instance --input {name}:float32[batch,3,224,224]",
            )
        dtype = own.dtype or (given.dtype if given is not None else None) or "float32"
        values[name] = add_input(g, name, SHORT_NAMES[dtype], spec_dims(own), given, bounds)
    return values


def _merge_dims(value: ir.Value, inferred: list[Dim] | None) -> list[Dim] | None:
    """Return the dims of an output as the operators give them, completed by the net's declaration."""
    if value.shape is None or inferred is None or len(inferred) != len(value.shape):
        return inferred if value.shape is None else None
    return [d if isinstance(d, int) or other is None else other for d, other in zip(dims(value), inferred, strict=True)]


def spec_dims(spec: InputSpec) -> list[Dim] | None:
    """Return the dims in a description as sizes and names."""
    return None if spec.shape is None else [d.size if d.size is not None else d.name for d in spec.shape]


def lower(g: Graph, net: Net, values: Values, data: Collection[str] = ()) -> None:
    """Write the operators of `net`; `values` has the known blobs, and grows. Fills leave the blobs in `data`
    unchanged.
    """
    shared: dict[str, str] = {}
    for op in net.ops:
        with g.at(location(op)):
            _refuse_shared_write(op, shared)
            if op.type in FILLS and not op.inputs:
                if not op.outputs or op.outputs[0] not in data:
                    tensor = filled_tensor(op)
                    values[op.outputs[0]] = g.initializer(op.outputs[0], tensor)
                continue
            inputs = [find_blob(values, name, f"{op.type} {op.outputs[:1]}") for name in op.inputs]
            attributes = _attributes(op, values)
            entry = caffe2_op.entries[op.type]
            # The names of an operator's outputs give their number and, for nested nets, their meaning.
            attributes |= {k: v for k, v in (("inputs", op.inputs), ("outputs", op.outputs)) if k in entry.keyword}
            try:
                found = caffe2_op.apply(g, op.type, inputs, attributes, g.location)
            except ConvertError as error:
                if isinstance(error, (BadInput, ResourceLimit, Unsupported)):
                    raise
                raise contradiction(error) from error
            results = list(found) if isinstance(found, (list, tuple)) else [found]
            # An output that the rule does not compute is reported only if something reads it.
            values.update(zip(op.outputs, results, strict=False))
            for name in op.outputs[len(results) :]:
                values.pop(name, None)


def _refuse_shared_write(op: Op, shared: dict[str, str]) -> None:
    """Raise `Unsupported` if an operator writes to memory that two blobs share through Alias; `shared` grows."""
    if op.type == "Alias" and op.inputs != op.outputs:
        shared |= {op.outputs[0]: op.inputs[0], op.inputs[0]: op.outputs[0]}
    elif written := [name for name in op.outputs if name in shared]:
        why = f"it writes to {written[0]!r}, whose memory {shared[written[0]]!r} has too, by an Alias"
        raise Unsupported(why).with_location(location(op))


def _attributes(op: Op, values: Values) -> dict[str, Any]:
    args = normalize_window_args(op.args) if op.type in WINDOWED else op.args
    return {name: NestedNet(value, values, lower) if isinstance(value, Net) else value for name, value in args.items()}


def find_blob(values: Values, name: str, reader: str) -> ir.Value:
    """Return the value of a blob. Raises `BadInput` if no operator has created it."""
    if name not in values:
        raise BadInput(f"{reader} reads the blob {name!r}, which no operator and no rule of convert makes")
    return values[name]


def location(op: Op) -> Location:
    """Return the location of an operator, named after the first blob that it writes, because Caffe2's operators have no
    names.
    """
    return Location(op.type, op.outputs[0] if op.outputs else "")
