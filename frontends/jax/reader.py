"""Reads a program: the module's main function becomes the graph; inputs are named after the program's arguments."""

from __future__ import annotations

import json
from typing import Any

import onnx_ir as ir

from convert.errors import Unsupported
from convert.graph import Dim
from convert.graph.inputs import Bounds, add_input, match_specs
from convert.graph.metadata import DIMS_KEY
from convert.graph.tensors import SHORT_NAMES
from convert.graph.written_numbers import record_written_numbers
from convert.numerics.complexes import split_parts
from convert.outcome.report import Report
from convert.passes.layout.compose_transposes import compose_transposes
from convert.passes.tidy.clean import drop_identities, drop_unused, share_repeated
from convert.passes.tidy.fold import fold_constants
from convert.patterns.layers import find_layers
from convert.patterns.recurrent.find import find_recurrent
from convert.processes.interpreter import raised_recursion_limit
from convert.request.options import DimSpec, InputSpec, Options
from convert.request.source import Source

from .files.exporting import open_program
from .files.parsing import parse_module
from .files.signature import argument_names, output_names
from .program import Program, distinct, io_name
from .rules import stablehlo_op
from .sizes import parse_size
from .types import ResultType, is_quantized, result_type
from .values import NamedGraph, Pair, Tensor, pair_as_tensor, whole
from .walker import Walker


def read_jax(source: Source, options: Options, report: Report) -> ir.Model:
    """Return the shared graph of a program. Raises `BadInput`, `ResourceLimit`, `Unsupported`, `UsageError`."""
    program = open_program(source, options)
    for note in program.notes:
        report.note(note, code="training-mode")
    module = parse_module(program.module, source.label)
    with module.context, raised_recursion_limit(CALLS_OF_PYTHON):
        return _lowered(Walker(module), program, options, report)


CALLS_OF_PYTHON = 20_000
"""Recursion limit of Python, for functions of a module that call one another."""


def _lowered(walker: Walker, program: Program, options: Options, report: Report) -> ir.Model:
    main = walker.main()
    operators = list(walker.operators(main))
    stablehlo_op.check(operators)
    if any(name == "rng_bit_generator" for name, _ in operators):
        report.note(
            "random bits are those that XLA computes on the CPU; on GPUs and TPUs the same state may give others",
            code="random-bits",
        )
    g = NamedGraph("main")
    bounds: Bounds = {}
    outputs = list(program.outputs) or output_names(walker, len(_results(main)))
    taken = dict.fromkeys(outputs, 0)
    g.reserve(taken)
    values = _arguments(g, walker, program, options, bounds, report)
    found = walker.function(g, main, values)
    for name, tensor in zip(outputs, found, strict=True):
        taken.pop(name, None)
        if tensor is None:
            raise Unsupported("an output that is no tensor")
        if isinstance(tensor, Pair):
            _note_pair(f"the output {name}", report)
            tensor = pair_as_tensor(g, tensor)
        g.output(whole(g, tensor).value, name)
    result = g.model()
    compose_transposes(result)
    drop_identities(result)
    fold_constants(result, sizes_only=True)  # a computed weight has more digits in float64
    share_repeated(result)
    constants = (v for name, v in result.graph.initializers.items() if name not in program.weights)
    record_written_numbers(constants)
    find_layers(result)
    find_recurrent(result)
    drop_unused(result)
    if bounds:
        result.metadata_props[DIMS_KEY] = json.dumps(bounds)
    return result


def _results(function: Any) -> list[Any]:
    block = function.regions[0].blocks[0]
    return list(list(block.operations)[-1].operands)


def _note_pair(what: str, report: Report) -> None:
    report.note(f"{what} is complex: its last dim, of 2, holds the real and the imaginary part", code="complex-pairs")


def _arguments(
    g: NamedGraph, walker: Walker, program: Program, options: Options, bounds: Bounds, report: Report
) -> list[Any]:
    """Return the values of the main function's arguments: inputs, weights, and the index of the platform if there is
    one.
    """
    types = [result_type(a.type) for a in walker.main().regions[0].blocks[0].arguments]
    if any(t is None for t in types):
        raise Unsupported("a program with ordered effects")
    if any(is_quantized(v.type) for v in (*walker.main().regions[0].blocks[0].arguments, *_results(walker.main()))):
        raise Unsupported("an input or an output of a quantized type", hint="dequantize it in the program")
    known = [t for t in types if t is not None]
    values: list[Any] = []
    if not program.inputs:
        return _module_inputs(g, walker, known, options, bounds, report)
    if len(known) == sum(end.kept for end in program.inputs) + 1 and len(program.platforms) > 1:
        index = program.platforms.index("cpu") if "cpu" in program.platforms else 0
        values.append(Tensor(g.const(index, known.pop(0).dtype), ()))
    names = [end.name for end in program.inputs if end.name not in program.weights]
    specs = match_specs(names, options.inputs)
    for end in program.inputs:
        if end.name in program.weights:
            tensor = ir.Tensor(program.weights[end.name])
            if end.kept:
                values.append(Tensor(g.initializer(end.name, tensor), tuple(tensor.shape.numpy())))
            continue
        dims = [d if isinstance(d, int) or d is None else parse_size(d).dim for d in end.dims]
        part = _PARTS.get(end.dtype, end.dtype)
        if part not in SHORT_NAMES:
            raise Unsupported(f"the input {end.name!r} of dtype {end.dtype}")
        type_ = (SHORT_NAMES[part], dims, end.dtype in _PARTS)
        value = _input(g, end.name, *type_, specs.get(end.name), bounds, report)
        if end.kept:
            values.append(value)
    return values


_PARTS = {"complex64": "float32", "complex128": "float64"}


def _input(
    g: NamedGraph, name: str, dtype: ir.DataType, dims: list[Dim], is_complex: bool, spec: InputSpec | None,
    bounds: Bounds, report: Report,
) -> Tensor | Pair:  # fmt: skip
    """Add an input to the graph; a complex one has its parts in a last dim of 2, and a note says so."""
    if not is_complex:
        value = add_input(g, name, dtype, dims, spec, bounds)
        return Tensor(value, g.shape(value))
    _note_pair(f"the input {name}", report)
    given = None if spec is None or spec.shape is None else InputSpec(shape=(*spec.shape, DimSpec(size=2)))
    value = add_input(g, name, dtype, [*dims, 2], given, bounds)
    parts = split_parts(g, value)
    return Pair(*(Tensor(part, g.shape(value)[:-1]) for part in (parts.real, parts.imag)))


def _module_inputs(
    g: NamedGraph, walker: Walker, types: list[ResultType], options: Options, bounds: Bounds, report: Report
) -> list[Any]:
    """Return the inputs of a module that is not part of an `Exported`."""
    found_names = argument_names(walker)
    found_names = found_names if len(found_names) == len(types) else [""] * len(types)
    names = distinct([io_name(name, f"arg{i}") for i, name in enumerate(found_names)])
    specs = match_specs(names, options.inputs)
    values = []
    for name, type_ in zip(names, types, strict=True):
        dims: list[Dim] = list(type_.dims)
        values.append(_input(g, name, type_.dtype, dims, type_.is_complex, specs.get(name), bounds, report))
    return values
