"""A model before it is lowered: a body, its library and variables, and the names that inputs and outputs shall have."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx_ir as ir

from convert.errors import Unsupported, UsageError
from convert.graph import Dim, Graph
from convert.options import DimSpec, InputSpec, Options
from convert.passes.clean import drop_unused
from convert.report import Report
from convert.runners.constants import as_written
from convert.tensors import EXACT_KEY, SHORT_NAMES, dtype_name

from . import ops  # noqa: F401  (fills the table of rules)
from .attributes import dtype_of
from .body import Body
from .framed import structured
from .graphdef import Walker
from .rules import node as rules
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


def lower(program: Program, options: Options, report: Report) -> ir.Model:
    """Write `program` as an ONNX graph. Raises as the frontend's `read` does."""
    walker = Walker(rules, program.functions, program.variable, program.buffer, program.bodies)
    body = structured(program.body, walker.bodies)
    walker.check(body)
    g = Graph(program.name)
    bounds: dict[str, list[int | None]] = {}
    specs = matched([i.name for i in program.inputs], options.inputs)
    arguments: list[Any] = [add_input(g, i, specs.get(i.name), bounds) for i in program.inputs]
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


def matched(names: Sequence[str], specs: Sequence[InputSpec]) -> dict[str, InputSpec]:
    """The user's specs by input: those with a name by it, the others in order. Raises `UsageError` for a wrong name."""
    left = [n for n in names if n not in {s.name for s in specs}]
    found = {}
    for spec in specs:
        if spec.name is None and left:
            found[left.pop(0)] = spec
        elif spec.name in names:
            found[str(spec.name)] = spec
        else:
            raise UsageError(f"the model has no input for {str(spec)!r}", hint=f"its inputs are {', '.join(names)}")
    return found


def add_input(g: Graph, described: Input, spec: InputSpec | None, bounds: dict[str, list[int | None]]) -> ir.Value:
    """A graph input as the model or, where it leaves something open, the user describes it; `bounds` grows."""
    dtype = dtype_of(described.dtype)
    name = described.name
    if dtype is None:
        raise Unsupported(f"the input {name!r} is a resource or a variant, not a tensor")
    if spec is not None and spec.dtype is not None and SHORT_NAMES[spec.dtype] != dtype:
        raise UsageError(f"the input {name!r} is {dtype_name(dtype)}, not {spec.dtype}")
    wanted = spec.shape if spec is not None else None
    shape: list[Dim] | None = None
    if described.shape is not None:
        shape = [_dim(name, i, d, described.shape, wanted) for i, d in enumerate(described.shape)]
    elif wanted is not None:
        shape = [d.size if d.size is not None else d.name or _dim_name(name, i) for i, d in enumerate(wanted)]
    for i, dim in enumerate(shape or ()):
        if isinstance(dim, str):
            given = wanted[i] if wanted is not None and i < len(wanted) else DimSpec()
            bounds[dim] = [1 if given.low is None else given.low, given.high]
    return g.input(name, dtype, shape)


def _dim(name: str, i: int, size: int | None, shape: Sequence[int | None], wanted: Sequence[DimSpec] | None) -> Dim:
    """One dim of an input: the model's size, or the user's word where the model leaves it open."""
    if wanted is not None and len(wanted) != len(shape):
        raise UsageError(f"the input {name!r} has {len(shape)} dims, not {len(wanted)}")
    given = wanted[i] if wanted is not None else DimSpec()
    if size is not None:
        if given.size not in (None, size):
            raise UsageError(f"dim {i} of the input {name!r} is {size} in the model, not {given.size}")
        return size
    return given.size if given.size is not None else given.name or _dim_name(name, i)


def _dim_name(name: str, i: int) -> str:
    return "batch" if i == 0 else f"{name}_d{i}"
