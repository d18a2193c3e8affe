"""Reads a PyTorch source, whatever its kind, into the shared graph."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Collection, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import onnx_ir as ir
import torch
import torch.fx
from torch.export import ExportedProgram

from convert.errors import ConvertError, Unsupported, UsageError
from convert.outcome.report import Report
from convert.request.nearest import names_hint
from convert.request.options import DimSpec, InputSpec, Options
from convert.request.source import Source

from .common.modes import note_fast_path
from .common.used_weights import note_unused_modules, recording_used_weights
from .common.wider import widen_graph
from .export.capture.captured import Capture
from .export.capture.dims import is_fixed
from .export.capture.explain import is_about_data, loops_in_python
from .export.capture.export_module import capture, inference
from .export.capture.prepare import OneSizeOnly
from .export.capture.static_dims import Place, read_with_static_dims
from .export.decisions.on_data import deciding
from .export.decisions.separate_paths import read_all_paths
from .export.decisions.size_branches import read_size_branches
from .export.lowering.program import lower
from .export.patch_table import patched
from .export.patches.patch import Stage
from .export.patches.pytorch.counts import fixed_counts
from .export.patches.pytorch.hits import loops_over_hits, places_of_hits
from .export.patches.pytorch.lengths import symbolic_numbers
from .files.diffusers_folder import KIND as DIFFUSERS
from .files.diffusers_folder import component_folder
from .files.hugging_face import (
    is_hugging_face,
    leaves_out_modules,
    note_companions,
    note_first_call,
    note_ranges,
    note_windows,
    rename_cache_inputs,
    specs_of,
)
from .files.hugging_face_cache import is_cache_parameter
from .files.hugging_face_towers import note_single_image, tower_names
from .files.loader import load
from .inputs.arguments import arrange_arguments
from .inputs.examples import Call, candidate_calls, lengthened_call, long_call
from .inputs.guess import parameters_of
from .releases import note_release
from .scripted_parts import agree_at_sizes, record_around_scripts


def read(source: Source, options: Options, report: Report) -> ir.Model:
    """Load, capture and lower `source`. Raises `BadInput`, `UnsafeInput`, `Unsupported`, `UsageError`."""
    note_release(report)
    with report.stage("load"):
        loaded = load(source, options, report)
    if is_hugging_face(source):
        options = replace(options, inputs=specs_of(loaded))
        note_windows(loaded, report)
        note_single_image(specs_of(loaded), report)
    if isinstance(loaded, ExportedProgram):
        return lower(loaded, report, _dims_of_specs(loaded, options))
    note_fast_path(loaded, report)
    if isinstance(loaded, (torch.jit.ScriptModule, torch.jit.ScriptFunction)):
        return _read_script(loaded, options, report, source.path)
    if _has_quantized_layers(loaded):
        report.note(
            "the module was scripted first: torch.export does not take PyTorch's quantized tensors", code="scripted"
        )
        return _read_script(_compile_script(loaded), options, report)
    if options.trace:
        return _read_traced(loaded, options, report)
    with recording_used_weights() as used:
        model = _read_module(loaded, options, report)
    widen_graph(loaded, model, options, report)
    if is_hugging_face(source):
        names = [str(v.name) for v in model.graph.inputs]
        if not leaves_out_modules(loaded, options):
            note_unused_modules(
                loaded, used, [n for n in names if not is_cache_parameter(n)], tower_names(loaded), report
            )
        note_first_call(model)
        rename_cache_inputs(model)
        note_ranges(model)
        if source.path is not None:
            of_diffusers = source.kind == DIFFUSERS
            note_companions(model, component_folder(source.path, options) if of_diffusers else source.path)
    return model


def _read_module(loaded: torch.nn.Module, options: Options, report: Report) -> ir.Model:
    """Return the graph of a module in memory, with as many dynamic dims as can be converted."""
    before = list(report.notes)
    try:
        return _read_captured(loaded, options, (), report)
    except (Unsupported, UsageError) as error:
        report.notes[:] = before
        call, _ = next(candidate_calls(loaded, options))
        try:
            return read_with_static_dims(partial(_read_captured, loaded, options), call, report, error)
        except (Unsupported, UsageError) as refused:
            if not loops_in_python(refused):
                raise
            report.notes[:] = before
            why = "torch.export could not capture what forward loops over"
            return _read_compiled(loaded, replace(options, fixed={}), report, refused, why)


def _read_captured(loaded: torch.nn.Module, options: Options, static: Collection[Place], report: Report) -> ir.Model:
    """Return the graph of a module in memory, with the dims `static` not dynamic."""
    try:
        return _read_one_way(loaded, options, static, report)
    except (Unsupported, UsageError) as error:
        if not static and any(isinstance(m, torch.nn.RNNBase) for m in loaded.modules()):
            return _read_compiled(loaded, options, report, error, "torch.export could not capture its recurrent layers")
        if not is_about_data(error) and ".numpy() is not supported" not in error.message:
            raise
        if (model := _read_loops_over_hits(loaded, options, static, report)) is not None:
            return model
        try:
            return _read_all_ways(loaded, options, static, report, error)
        except (Unsupported, UsageError) as refused:
            return _read_with_fixed_counts(loaded, options, static, report, refused)


def _read_loops_over_hits(
    loaded: torch.nn.Module, options: Options, static: Collection[Place], report: Report
) -> ir.Model | None:
    """Return the graph in which loops over `nonzero` run over the positions of a mask; None if there is none, or it
    fails.
    """
    before = list(report.notes)
    with inference(loaded):
        idle_changes_nothing = loops_over_hits(loaded, next(candidate_calls(loaded, options))[0])
    for every in () if idle_changes_nothing is None else (True, False) if idle_changes_nothing else (False,):
        with places_of_hits(every):
            try:
                try:
                    model = _read_one_way(loaded, options, static, report)
                except (Unsupported, UsageError) as error:
                    report.notes[:] = before
                    if not is_about_data(error):
                        raise
                    model = _read_all_ways(loaded, options, static, report, error)
            except (Unsupported, UsageError):
                report.notes[:] = before
                continue
        if every:
            report.note(
                "loops over nonzero() visit all elements: runs show that elements equal to zero change nothing",
                code="control-flow",
            )
        return model
    return None


def _read_with_fixed_counts(
    loaded: torch.nn.Module, options: Options, static: Collection[Place], report: Report, error: ConvertError
) -> ir.Model:
    """Return the graph with torch.bincount limited to numbers below its minlength. If that fails, return a graph with
    symbolic numbers.
    """
    before = list(report.notes)
    with fixed_counts() as met:
        try:
            model = _read_one_way(loaded, options, static, report)
        except (Unsupported, UsageError) as other:
            try:
                if not met:
                    raise
                report.notes[:] = before
                model = _read_all_ways(loaded, options, static, report, other)
            except (Unsupported, UsageError) as last:
                report.notes[:] = before
                model, error = None, last if met else error
    if model is None:
        return _read_with_symbolic_numbers(loaded, options, static, report, error)
    if met:
        numbers = ", ".join(map(str, sorted(set(met))))
        report.note(
            f"torch.bincount counts numbers below its minlength, {numbers}: for others the model fails",
            code="value-limits",
        )
    return model


def _read_with_symbolic_numbers(
    loaded: torch.nn.Module, options: Options, static: Collection[Place], report: Report, error: ConvertError
) -> ir.Model:
    """Return the graph in which `int(x.max())` and similar numbers are known at run time only; if this fails, raise
    `error`.
    """
    before = list(report.notes)
    with symbolic_numbers(loaded) as changed:
        if not changed:
            raise error
        try:
            return _read_all_ways(loaded, options, static, report, error)
        except (Unsupported, UsageError):
            report.notes[:] = before
            raise error from None


def _read_all_ways(
    loaded: torch.nn.Module, options: Options, static: Collection[Place], report: Report, error: ConvertError
) -> ir.Model:
    """Return the graph with both paths of each decision that forward makes on data.

    Raises `Unsupported`, with the message of `error` about the first decision, if that is impossible.
    """
    before = list(report.notes)
    lines: set[str] = set()

    def read_path(path: list[bool]) -> ir.Model:
        with patched(Stage.DECISIONS, path=path) as watching:
            made = watching[deciding]
            try:
                return _read_one_way(loaded, options, static, Report("another way") if path else report, False)
            finally:
                lines.update(line for each in made for line in each.lines)

    try:
        model = read_all_paths(read_path)
    except (Unsupported, UsageError) as other:
        report.notes[:] = before
        if is_about_data(other):  # the line of a decision without an If, on a path that depends on another condition
            others = sorted(line for line in lines if line not in other.message)
            asked = f"; it is asked on one way only of the condition at {', '.join(others)}" if others else ""
            raise Unsupported(f"{other.sentence}{asked}", hint=other.hint) from other
        raise Unsupported(f"{error.sentence}; both ways as an If: {other.sentence}", hint=error.hint) from other
    for line in sorted(lines):
        report.note(
            f"forward decides on the value of a tensor at {line}: both ways are in the graph, behind an If",
            code="control-flow",
        )
    return model


def _read_one_way(
    loaded: torch.nn.Module, options: Options, static: Collection[Place], report: Report, size_branches: bool = True
) -> ir.Model:
    """Return the graph of one capture, with the paths that forward takes for other sizes unless `size_branches` is
    False.
    """
    before = list(report.notes)
    done = capture(loaded, options, report, static)
    read = partial(read_size_branches, loaded) if size_branches and not options.single_size_branch else _lower_capture
    try:
        return read(done, _wanted_names(done), report)
    except OneSizeOnly:
        if lengthened_call(done.call, every=True) is None:
            raise
        report.notes[:] = before
        done = capture(loaded, options, report, static, longer=True)
        return read(done, _wanted_names(done), report)


def _wanted_names(done: Capture) -> dict[Place, str]:
    return {(n, p): w.name for n, e in done.call.items() for p, w in e.dynamic_dims.items() if w.name}


def _lower_capture(done: Capture, names: Mapping[Place, str], report: Report) -> ir.Model:
    return lower(done.program, report, names, done.branches)


def _read_script(loaded: Any, options: Options, report: Report, path: Path | None = None) -> ir.Model:
    from .torchscript.inputs import recorded_inputs
    from .torchscript.lower import lower as lower_script

    recorded = recorded_inputs(path) if path is not None else ()
    return lower_script(loaded, options, report, recorded)


def _read_compiled(
    module: torch.nn.Module, options: Options, report: Report, error: ConvertError, why: str
) -> ir.Model:
    """Return the graph of the module as TorchScript, whose loops stay loops; if this fails, raise `error`.

    torch.export does not accept the number of rows of packed sequences as a size, and unrolls a loop over a length.
    """
    before = list(report.notes)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            program = torch.jit.script(module)
        what = "the module was scripted"
    except Exception:
        program = _record_around_scripts(module, options, error)
        what = "the parts of the module with loops were scripted"
    report.note(f"{what}: {why}", code="scripted")
    try:
        return _read_script(program, options, report)
    except (Unsupported, UsageError) as other:
        report.notes[:] = before
        raise type(error)(f"{error.sentence}; as TorchScript: {other.sentence}", hint=error.hint) from other


def _record_around_scripts(module: torch.nn.Module, options: Options, error: ConvertError) -> Any:
    """Return the module with compiled submodules where they decide in Python; raise `error` if the module itself
    decides.
    """
    try:
        with inference(module):  # a compiled module keeps the mode that it has when it is compiled
            recorded = record_around_scripts(module, partial(_record_run, module, options))
            call = next(candidate_calls(module, options))[0]
            agree = agree_at_sizes(module, partial(_call_recorded, module, recorded), call)
    except Exception:
        raise error from None
    if not agree:
        raise error
    return recorded


def _call_recorded(module: torch.nn.Module, recorded: Any, *args: Any, **kwargs: Any) -> Any:
    return recorded(**_by_name(module, args, kwargs)) if kwargs else recorded(*args)


def _by_name(module: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """All arguments by name: PyTorch records them all by place, or all by name."""
    return dict(zip((p.name for p in parameters_of(module)), args, strict=False)) | kwargs


def _has_quantized_layers(module: torch.nn.Module) -> bool:
    names = (type(m).__module__ for m in module.modules())
    return any(n.startswith(("torch.ao.nn.quantized.", "torch.ao.nn.intrinsic.quantized.")) for n in names)


def _compile_script(module: torch.nn.Module) -> Any:
    """Return the module as TorchScript. Raises `Unsupported` if it cannot be compiled."""
    if isinstance(module, torch.fx.GraphModule):
        module = _without_types(module)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return torch.jit.script(module)
    except Exception as error:
        text = " ".join(str(error).split())[:400]
        raise Unsupported(
            f"a module with PyTorch's quantized layers is read as TorchScript, and this one does not compile: {text}",
            hint="save torch.jit.trace(module, example) and convert that, or quantize with torchao's PT2E instead",
        ) from error


def _without_types(module: torch.fx.GraphModule) -> torch.fx.GraphModule:
    """Return a copy without the annotations of its nodes, because TorchScript's compiler does not know their text."""
    graph = copy.deepcopy(module.graph)
    for node in graph.nodes:
        node.type = None
    return torch.fx.GraphModule(module, graph)


def _read_traced(module: torch.nn.Module, options: Options, report: Report) -> ir.Model:
    """Return one recorded run of the module: right for inputs that take the same path, and reported as such."""
    traced = _record_run(module, options, False)
    report.note(
        "--trace: only the path that the example took was converted; other inputs may need another", code="traced"
    )
    return _read_script(traced, replace(options, fixed={}), report)


def _record_run(module: torch.nn.Module, options: Options, longer: bool) -> Any:
    """Return one recorded run of the module as TorchScript, on `longer` inputs if requested; None if there are none."""
    with inference(module):
        call: Call | None = next(call for call, _ in candidate_calls(module, options))
        call = long_call(call) if longer and call is not None else call
        if call is None:
            return None
        args, kwargs = arrange_arguments(module, {name: example.tensor for name, example in call.items()})
        if not kwargs:
            return torch.jit.trace(module, args, check_trace=False, strict=False)
        _refuse_keyword_only(module, kwargs)
        named = _by_name(module, args, kwargs)
        return torch.jit.trace(module, example_kwarg_inputs=named, check_trace=False, strict=False)


def _refuse_keyword_only(module: torch.nn.Module, given: Mapping[str, Any]) -> None:
    names = [p.name for p in parameters_of(module) if p.kind is p.KEYWORD_ONLY and p.name in given]
    if names:
        raise UsageError(
            f"--trace cannot record the inputs that forward takes by keyword only: {', '.join(names)}",
            hint="make them ordinary parameters of forward, or leave out --trace",
        )


def _dims_of_specs(program: ExportedProgram, options: Options) -> dict[tuple[str, int], str]:
    """Return the user's names for dims of a program that was captured elsewhere; which dims are dynamic is already
    fixed.

    Raises `UsageError` for a description that the program does not fit.
    """
    users = set(program.graph_signature.user_inputs)
    nodes = [n for n in program.graph.nodes if n.op == "placeholder" and n.name in users]
    places: dict[str, Any] = {n.name: n.meta.get("val") for n in nodes}
    names = list(places)
    wanted = {}
    for i, spec in enumerate(options.inputs):
        name = spec.name or (names[i] if i < len(names) else None)
        if name is None or name not in places:
            raise UsageError(f"the program has no input {name!r}", hint=names_hint(str(name), names))
        fake = places[name]
        if isinstance(fake, torch.Tensor):
            _check_spec(spec, name, fake)
        for place, dim in enumerate(spec.shape or ()):
            if dim.name:
                wanted[name, place] = dim.name
    return wanted


def _check_spec(spec: InputSpec, name: str, fake: torch.Tensor) -> None:
    dtype = str(fake.dtype).removeprefix("torch.")
    asked = spec.shape if spec.shape is not None else [DimSpec()] * fake.dim()
    fits = len(asked) == fake.dim() and all(
        dim.dynamic or not is_fixed(size) or dim.size == size for dim, size in zip(asked, fake.shape, strict=True)
    )
    if spec.dtype not in (None, dtype) or not fits:
        shown = ",".join(str(size) if is_fixed(size) else "?" for size in fake.shape)
        raise UsageError(
            f"the program was captured with {name}:{dtype}[{shown}], which --input {spec} does not fit",
            hint="leave that --input out, or capture the module again with other inputs",
        )
    for dim, size in zip(asked, fake.shape, strict=True):
        if dim.name and is_fixed(size):
            raise UsageError(
                f"the program was captured for one size ({size}) of the dim {dim.name} of {name}",
                hint="capture the module again with torch.export.export(…, dynamic_shapes=…)",
            )
