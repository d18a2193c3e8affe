"""Reading: the operators of init_net make initializers, those of predict_net the graph; blobs may be written anew."""

from __future__ import annotations

import json
from typing import Any

import onnx_ir as ir

from convert.ends import Bounds, add_input, matched
from convert.errors import BadInput, Location, UsageError
from convert.graph import Dim, Graph
from convert.netdef import OUTPUTS_ARGUMENT, Model, Net, Op, read_folder, walk
from convert.options import InputSpec, Options
from convert.passes.clean import clean
from convert.report import Report
from convert.source import Source
from convert.tensors import SHORT_NAMES

from . import ops  # noqa: F401  (fills the table)
from .body import Body
from .fills import FILLS, filled
from .rules import caffe2
from .windows import WINDOWED, plain

Values = dict[str, ir.Value]


def read_caffe2(source: Source, options: Options, report: Report) -> ir.Model:
    """The shared graph of a folder's nets. Raises `BadInput`, `Unsupported`, `UsageError`."""
    model = read_folder(source.file)
    if not model.predict.outputs:
        raise BadInput(f"{source.label} names no outputs: its predict_net has no external_output")
    operators = [op for net in (model.init, model.predict) for op in walk(net)]
    caffe2.check((op.type, location(op)) for op in operators if op.type not in FILLS)
    g = Graph(model.predict.name or "main")
    taken = dict.fromkeys(set(model.predict.outputs) - set(model.inputs), 0)  # the outputs' names stay theirs
    g.reserve(taken)
    bounds: Bounds = {}
    values = _inputs(g, model, options, bounds)
    lower(g, model.init, values)
    lower(g, model.predict, values)
    said = model.described(OUTPUTS_ARGUMENT)
    for name in model.predict.outputs:
        taken.pop(name, None)
        value = look_up(values, name, "predict_net")
        spec = said.get(name)
        if value.shape is None and spec is not None and spec.shape is not None:
            g.facts(value, shape=dims(spec))
        g.output(value, name)
    result = g.model()
    clean(result)
    if bounds:
        result.metadata_props["convert.dims"] = json.dumps(bounds)
    return result


def _inputs(g: Graph, model: Model, options: Options, bounds: Bounds) -> Values:
    described = model.described()
    specs = matched(model.inputs, options.inputs)
    values: Values = {}
    for name in model.inputs:
        own, given = described.get(name, InputSpec(name)), specs.get(name)
        if own.shape is None and (given is None or given.shape is None):
            raise UsageError(
                f"a Caffe2 net does not say the shape of its input {name!r}",
                hint=f"say it with --input, for instance --input {name}:float32[batch,3,224,224]",
            )
        dtype = own.dtype or (given.dtype if given is not None else None) or "float32"
        values[name] = add_input(g, name, SHORT_NAMES[dtype], dims(own), given, bounds)
    return values


def dims(spec: InputSpec) -> list[Dim] | None:
    """The dims that a description holds, as sizes and names."""
    return None if spec.shape is None else [d.size if d.size is not None else d.name for d in spec.shape]


def lower(g: Graph, net: Net, values: Values) -> None:
    """Write the operators of `net`; `values` holds the blobs as they are known, and grows."""
    for op in net.ops:
        with g.at(location(op)):
            if op.type in FILLS and not op.inputs:
                values[op.outputs[0]] = g.initializer(op.outputs[0], filled(op))
                continue
            inputs = [look_up(values, name, f"{op.type} {op.outputs[:1]}") for name in op.inputs]
            attributes = _attributes(op, values)
            entry = caffe2.entries[op.type]
            # What the net calls an operator's ends says how many it has and, for nets inside, what they mean.
            attributes |= {k: v for k, v in (("inputs", op.inputs), ("outputs", op.outputs)) if k in entry.keyword}
            found = caffe2.apply(g, op.type, inputs, attributes, g.location)
            results = list(found) if isinstance(found, (list, tuple)) else [found]
            # An output that the rule does not make is missed only if something reads it.
            values.update(zip(op.outputs, results, strict=False))
            for name in op.outputs[len(results) :]:
                values.pop(name, None)


def _attributes(op: Op, values: Values) -> dict[str, Any]:
    args = plain(op.args) if op.type in WINDOWED else op.args
    return {name: Body(value, values, lower) if isinstance(value, Net) else value for name, value in args.items()}


def look_up(values: Values, name: str, reader: str) -> ir.Value:
    """The value of a blob. Raises `BadInput` where no operator has made it."""
    if name not in values:
        raise BadInput(f"{reader} reads the blob {name!r}, which no operator makes and no rule of convert does")
    return values[name]


def location(op: Op) -> Location:
    """Where an operator is: Caffe2 has no names for operators, so by the first blob that it writes."""
    return Location(op.type, op.outputs[0] if op.outputs else "")
