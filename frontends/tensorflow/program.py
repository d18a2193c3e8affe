"""A model before it is lowered: a body, its library and variables, and the names that inputs and outputs shall have."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx_ir as ir

from convert.ends import Bounds, add_input, matched
from convert.errors import Unsupported
from convert.graph import Graph
from convert.options import InputSpec, Options
from convert.passes.clean import drop_unused
from convert.report import Report
from convert.runners.constants import as_written
from convert.tensors import EXACT_KEY

from . import ops  # noqa: F401  (fills the table of rules)
from .attributes import dtype_of
from .body import Body
from .framed import structured
from .graphdef import Walker
from .rules import node as rules
from .tables import Tables
from .variables import Variable


@dataclass(frozen=True)
class Input:
    """One input: its name for users, TensorFlow's dtype number, its dims (None: unknown rank)."""

    name: str
    dtype: int
    shape: tuple[int | None, ...] | None


@dataclass
class Program:
    """`captured` are the arguments of `body` after the inputs; `buffer` is the file in which tensors were left.

    `bodies` are functions beside those of the library.
    """

    name: str
    body: Body
    inputs: Sequence[Input]
    outputs: Sequence[str]
    functions: Mapping[str, Any] = field(default_factory=dict)
    variable: Callable[[str, str], Variable | None] = lambda name, shared: None
    captured: Sequence[Variable | ir.TensorProtocol] = ()
    buffer: memoryview = field(default_factory=lambda: memoryview(b""))
    bodies: dict[str, Body] = field(default_factory=dict)
    tables: Tables = field(default_factory=lambda: Tables({}, {}))


def lower(program: Program, options: Options, report: Report) -> ir.Model:
    """Write `program` as an ONNX graph. Raises as the frontend's `read` does."""
    walker = Walker(rules, program.functions, program.variable, program.buffer, program.bodies, program.tables)
    body = structured(program.body, walker.bodies)
    walker.check(body)
    g = Graph(program.name)
    bounds: Bounds = {}
    specs = matched([i.name for i in program.inputs], options.inputs)
    arguments: list[Any] = [add_described(g, i, specs.get(i.name), bounds) for i in program.inputs]
    open_first = [i.name for i in program.inputs if i.shape and i.shape[0] is None and i.name not in specs]
    if len(open_first) > 1:
        report.note(
            f"the first dims of {', '.join(open_first)} are taken to be one batch, of the same size; "
            f"--input {open_first[-1]}:[n,…] says that one is another"
        )
    arguments += [c if isinstance(c, Variable) else g.const(c, name="captured") for c in program.captured]
    results = walker.lower(g, body, arguments)
    for value, name in zip(results, program.outputs, strict=True):
        if not isinstance(value, ir.Value):
            raise Unsupported(f"the output {name!r} is a resource, not a tensor")
        g.output(value, name)
    model = g.model()
    drop_unused(model)
    state_written(model)
    if bounds:
        model.metadata_props["convert.dims"] = json.dumps(bounds)
    return model


def state_written(model: ir.Model) -> None:
    """Say of every float32 scalar what it was written as, for the float64 twin."""
    for value in model.graph.initializers.values():
        tensor = value.const_value
        if tensor is not None and tensor.dtype == ir.DataType.FLOAT and tensor.size == 1:
            tensor.meta.setdefault(EXACT_KEY, np.array(as_written(tensor.numpy().item())))


def add_described(g: Graph, described: Input, spec: InputSpec | None, bounds: Bounds) -> ir.Value:
    """A graph input as the program or, where it leaves something open, the user describes it; `bounds` grows."""
    dtype = dtype_of(described.dtype)
    if dtype is None:
        raise Unsupported(f"the input {described.name!r} is a resource or a variant, not a tensor")
    return add_input(g, described.name, dtype, described.shape, spec, bounds)
