"""Reads a PyTorch source, whatever its kind, into the shared graph."""

from __future__ import annotations

from typing import Any

import onnx_ir as ir
import torch
from torch.export import ExportedProgram

from convert.errors import UsageError
from convert.options import Options
from convert.report import Report
from convert.source import Source

from .capture import capture, inference
from .examples import Call, calls
from .exported import lower
from .loader import load


def read(source: Source, options: Options, report: Report) -> ir.Model:
    """Load, capture and lower `source`. Raises `BadInput`, `UnsafeInput`, `Unsupported`, `UsageError`."""
    with report.stage("load"):
        thing = load(source, options, report)
    if isinstance(thing, ExportedProgram):
        return lower(thing, report, _dims_of_specs(thing, options))
    if isinstance(thing, (torch.jit.ScriptModule, torch.jit.ScriptFunction)):
        return _scripted(thing, options, report)
    if options.trace:
        return _traced(thing, options, report)
    program, call = capture(thing, options, report)
    model = lower(program, report, {(n, p): w.name for n, e in call.items() for p, w in e.wishes.items() if w.name})
    return model


def _scripted(thing: Any, options: Options, report: Report) -> ir.Model:
    from .torchscript import lower as lower_script

    return lower_script(thing, list(options.inputs), dict(options.examples), options, report)


def _traced(module: torch.nn.Module, options: Options, report: Report) -> ir.Model:
    """One run of the module, recorded: right for inputs that take the same path, and labelled so."""
    from .capture import arranged

    with inference(module):
        call: Call = next(call for call, _ in calls(module, options))
        args, kwargs = arranged(module, {name: example.tensor for name, example in call.items()})
        if kwargs:
            raise UsageError(
                "--trace takes positional inputs only", hint=f"describe also the inputs before {next(iter(kwargs))}"
            )
        traced = torch.jit.trace(module, args, check_trace=False, strict=False)
    report.note("--trace: only the path that the example took was converted; other inputs may need another")
    return _scripted(traced, options, report)


def _dims_of_specs(program: ExportedProgram, options: Options) -> dict[tuple[str, int], str]:
    """The user's names for dims of a program that was captured elsewhere: which are dynamic is settled already."""
    names = [
        n.name for n in program.graph.nodes if n.op == "placeholder" and n.name in program.graph_signature.user_inputs
    ]
    wanted = {}
    for i, spec in enumerate(options.inputs):
        name = spec.name or (names[i] if i < len(names) else None)
        if name not in names:
            raise UsageError(f"the program has no input {name!r}", hint=f"its inputs are {', '.join(names)}")
        for place, dim in enumerate(spec.shape or ()):
            if dim.name:
                wanted[name, place] = dim.name
    return wanted
