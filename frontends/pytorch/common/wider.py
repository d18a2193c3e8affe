"""Reads and runs modules in float32 if the target's usual runtime does not compute in their dtype."""

from __future__ import annotations

from typing import Any

import onnx_ir as ir
import torch

from convert.outcome.report import Report
from convert.passes.to_float64 import widen_graphs
from convert.request.options import Options

from ..torch_internals import change_tensors

_DTYPES = {"float16": ir.DataType.FLOAT16, "bfloat16": ir.DataType.BFLOAT16}
_TORCH_DTYPES = {"float16": torch.float16, "bfloat16": torch.bfloat16}


def widen_graph(module: Any, model: ir.Model, options: Options, report: Report) -> None:
    """Convert weights and computation of a module's graph from `options.widen` to float32, in place, with a note.

    This applies only if the module's own weights or inputs have such a dtype; a float32 module that computes in half
    precision by itself, as under autocast, still does so. Weights are widened when they are written.
    """
    wanted = {_DTYPES[name]: ir.DataType.FLOAT for name in options.widen}
    own = narrow_dtypes(module, options)
    inputs = {name for name in options.widen if any(v.dtype == _DTYPES[name] for v in model.graph.inputs)}
    found = sorted(own | inputs)
    if not found:
        return
    widen_graphs(model.graphs(), wanted)
    stored = [name for name in ("bfloat16", "float16") if name in options.narrow]
    ask = (
        ""
        if options.dtype or options.quantize or not stored
        else (f"; --dtype {' or '.join(stored)} stores it in 16 bits where the numbers allow it")
    )
    report.note(
        f"{' and '.join(found)} of the source becomes float32, which the target's runtime computes in{ask}",
        code="wider-dtype",
    )


def narrow_dtypes(module: Any, options: Options) -> set[str]:
    """Return the dtypes of `options.widen` that the parameters and buffers of a module have; empty for a program."""
    plain = isinstance(module, torch.nn.Module) and not isinstance(module, torch.jit.ScriptModule)
    found = {t.dtype for t in (*module.parameters(), *module.buffers())} if plain else set()
    return {name for name in options.widen if _TORCH_DTYPES[name] in found}


def widened_for_run(module: Any, options: Options, *, owned: bool) -> Any:
    """Return a module with parameters and buffers in `options.widen` as float32: itself if it is `owned`."""
    narrow = {_TORCH_DTYPES[name] for name in narrow_dtypes(module, options)}
    if not narrow:
        return module
    if not owned:
        import copy

        module = copy.deepcopy(module)
    return change_tensors(module, lambda tensor: tensor.float() if tensor.dtype in narrow else tensor)


def widened_output(value: Any, dtypes: set[str]) -> Any:
    """Return an output tensor in float32 if it has one of the dtypes."""
    narrow = {_TORCH_DTYPES[name] for name in dtypes}
    return value.float() if isinstance(value, torch.Tensor) and value.dtype in narrow else value
