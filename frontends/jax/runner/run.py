"""Calls a program's `Exported`. A module without one, or a module in float64, gets one with the shapes of its feed."""

from __future__ import annotations

import dataclasses
import io
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np
from jax import export
from jaxlib import _jax
from jaxlib.mlir import ir as mlir
from jaxlib.mlir.dialects import stablehlo
from jaxlib.mlir.passmanager import PassManager

from convert.errors import Unsupported, UsageError
from convert.request.options import Options
from convert.request.source import Source

from ..context import compute_quantization, has_quantized_types, register_passes
from ..files.exporting import open_program
from ..files.parsing import QUANTIZED, parse_module
from ..files.signature import argument_names, output_names
from ..program import Program, distinct, io_name
from ..types import ResultType, numpy_dtype, result_type
from ..walker import Walker
from .widen import operations_in, widen

Feed = Mapping[str, np.ndarray]


def run(source: Source, feeds: Sequence[Feed], precision: str, options: Options) -> list[dict[str, np.ndarray]]:
    """Run an `Exported` unchanged, except that its arguments and results are flat."""
    program = open_program(source, options, confined=source.path is not None)
    wide = precision == "float64"
    with jax.enable_x64(True):
        if program.exported is None or wide:
            return [_run_module(program, source.label, feed, wide) for feed in feeds]
        module = parse_module(program.module, source.label)
        with module.context:
            walker = Walker(module)
            names = _output_names(program, walker)
        return [_call(program, names, feed) for feed in feeds]


def _call(program: Program, names: Sequence[str], feed: Feed) -> dict[str, np.ndarray]:
    """Return the outputs of the program's `Exported` by name, with flat arguments and results."""
    known = program.exported
    arrays = [_array(program, number, feed) for number in range(len(program.inputs))]
    flat = dataclasses.replace(known, in_tree=_arguments_tree(len(arrays)), out_tree=_results_tree(len(names)))
    return {name: _shown(value) for name, value in zip(names, flat.call(*arrays), strict=True)}


def _fed(value: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Return an input in the dtype of its argument; complex numbers are given as pairs in a last dim of 2."""
    array = np.asarray(value)
    if dtype.kind == "c" and array.dtype.kind != "c":
        array = array[..., 0] + np.asarray(1j, np.complex128) * array[..., 1]
    return array.astype(dtype, copy=False)


def _shown(value: Any) -> np.ndarray:
    """Return a result in the form of the graph; complex numbers are pairs in a last dim of 2."""
    array = np.asarray(value)
    return np.stack([array.real, array.imag], -1) if array.dtype.kind == "c" else array


def _array(program: Program, number: int, feed: Feed) -> np.ndarray:
    """Return the array for an argument; an argument that no result depends on may be missing in the feed."""
    end = program.inputs[number]
    if end.name in program.weights:
        return program.weights[end.name]
    if end.name in feed:
        return _fed(feed[end.name], np.dtype(end.dtype))
    if end.kept:
        raise UsageError(f"the input {end.name!r} is not given", hint=", ".join(e.name for e in program.inputs))
    return np.zeros([d if isinstance(d, int) else 1 for d in end.dims], end.dtype)


def _run_module(program: Program, label: str, feed: Feed, wide: bool) -> dict[str, np.ndarray]:
    """Run a module: its inputs get the shapes of the feed, from which other sizes follow."""
    module = parse_module(program.module, label)
    with module.context, mlir.Location.unknown():
        walker = Walker(module)
        arguments = list(walker.main().regions[0].blocks[0].arguments)
        arrays = _module_arrays(program, walker, [_type(a) for a in arguments], feed)
        if any(None in _type(value).dims for value in arguments):
            _fix_arguments(module, [
                mlir.RankedTensorType.get(array.shape, argument.type.element_type)
                for array, argument in zip(arrays, arguments, strict=True)
            ])  # fmt: skip
        names = _output_names(program, walker)
        if QUANTIZED in program.module and has_quantized_types(module):
            compute_quantization(module)
        if wide:
            widen(module)
        refined = _refine_shapes(module)
    inner = parse_module(refined, label)
    with inner.context:
        kinds = [_type(result) for result in _results(Walker(inner))]
        artefact = _serialized(inner)
    if wide:
        arrays = [a.astype(_WIDE.get(str(a.dtype), a.dtype)) for a in arrays]
    exported = _exported_of(artefact, arrays, kinds)
    return {name: _shown(value) for name, value in zip(names, exported.call(*arrays), strict=True)}


def _module_arrays(program: Program, walker: Walker, types: Sequence[ResultType], feed: Feed) -> list[np.ndarray]:
    """Return the arguments of the main function: the program's inputs, or those that the module names."""
    if program.exported is not None:
        kept = [_array(program, number, feed) for number, end in enumerate(program.inputs) if end.kept]
        index = program.platforms.index("cpu") if "cpu" in program.platforms else 0
        return [*([np.array(index, np.int32)] * (len(types) - len(kept))), *kept]
    found = argument_names(walker)
    found = found if len(found) == len(types) else [""] * len(types)
    names = distinct([io_name(name, f"arg{i}") for i, name in enumerate(found)])
    if missing := [name for name in names if name not in feed]:
        raise UsageError(f"the input {missing[0]!r} is not given", hint=", ".join(names))
    return [_fed(feed[n], numpy_dtype(t)) for n, t in zip(names, types, strict=True)]


def _fix_arguments(module: mlir.Module, types: Sequence[mlir.Type]) -> None:
    """Set the types of the main function's arguments, here and in the functions that it calls."""
    register_passes()
    listed = ",".join(map(str, types))
    PassManager.parse(f"builtin.module(stablehlo-refine-arguments{{types={listed}}})").run(module.operation)


def _refine_shapes(module: mlir.Module) -> bytes:
    """Return a module whose inputs have known sizes, with all other sizes derived from them."""
    stream = io.BytesIO()
    module.operation.write_bytecode(stream)
    found = _jax.mlir.refine_polymorphic_shapes(stream.getvalue(), True, True)
    return found.encode() if isinstance(found, str) else bytes(found)


def _serialized(module: mlir.Module) -> bytes:
    """Return the module as a portable artefact in jaxlib's version. Such artefacts have no CHLO operators.

    Shardings are removed: they are not portable, and the program runs on one device.
    """
    register_passes()
    for op in operations_in(module.operation):
        for name in [name for name in op.attributes if str(name).startswith("sdy.")]:
            del op.attributes[name]
    PassManager.parse("builtin.module(func.func(chlo-legalize-to-stablehlo))").run(module.operation)
    return bytes(stablehlo.serialize_portable_artifact_str(str(module), stablehlo.get_current_version()))


def _output_names(program: Program, walker: Walker) -> Sequence[str]:
    return program.outputs or output_names(walker, len(_results(walker)))


def _results(walker: Walker) -> list[mlir.Value]:
    return list(list(walker.main().regions[0].blocks[0].operations)[-1].operands)


def _type(value: mlir.Value) -> ResultType:
    found = result_type(value.type)
    if found is None:
        raise Unsupported("a program with ordered effects")
    return found


_WIDE = {"float16": "float64", "bfloat16": "float64", "float32": "float64", "complex64": "complex128"}


def _arguments_tree(count: int) -> Any:
    return jax.tree_util.tree_structure((tuple(range(count)), {}))


def _results_tree(count: int) -> Any:
    return jax.tree_util.tree_structure(tuple(range(count)))


def _exported_of(artefact: bytes, arrays: Sequence[np.ndarray], kinds: Sequence[ResultType]) -> Any:
    """Return an `Exported` around a module without dynamic sizes; its other fields are those of an empty program."""
    template = export.export(jax.jit(lambda: np.float32(0)), platforms=["cpu"])()
    ins, outs = len(arrays), len(kinds)
    changes: dict[str, Any] = {
        "in_shardings_hlo": (None,) * ins, "out_shardings_hlo": (None,) * outs,
        "_in_named_shardings": (None,) * ins, "_out_named_shardings": (None,) * outs,
    }  # fmt: skip
    fields = {field.name for field in dataclasses.fields(template)}
    return dataclasses.replace(
        template,
        in_tree=_arguments_tree(ins),
        in_avals=tuple(jax.core.ShapedArray(a.shape, a.dtype) for a in arrays),
        out_tree=_results_tree(outs),
        out_avals=tuple(jax.core.ShapedArray(k.dims, numpy_dtype(k)) for k in kinds),
        mlir_module_serialized=artefact,
        module_kept_var_idx=tuple(range(ins)),
        _get_vjp=None,
        **{name: value for name, value in changes.items() if name in fields},
    )
