"""Reads and runs modules in float32 that are in a dtype which the target's usual runtime does not compute in."""

from __future__ import annotations

from typing import Any

import onnx_ir as ir
import torch

from convert.options import Options
from convert.passes.to_float64 import widen_graphs
from convert.report import Report

_DTYPES = {"float16": ir.DataType.FLOAT16, "bfloat16": ir.DataType.BFLOAT16}
_TORCH_DTYPES = {"float16": torch.float16, "bfloat16": torch.bfloat16}


def widen_graph(model: ir.Model, options: Options, report: Report) -> None:
    """Give what the graph holds and computes in `options.widen` float32, in place, with a note.

    Weights are widened when they are written.
    """
    wanted = {_DTYPES[name]: ir.DataType.FLOAT for name in options.widen}
    values = [v for graph in model.graphs() for v in (*graph.inputs, *graph.initializers.values())]
    values += [v for node in model.graph.all_nodes() for v in node.outputs]
    found = sorted({v.dtype.name.lower() for v in values if v.dtype in wanted and v.dtype is not None})
    if not found:
        return
    widen_graphs(model.graphs(), wanted)
    ask = "" if options.dtype or options.quantize else "; --dtype bfloat16 or float16 stores what stands it narrower"
    report.note(f"{' and '.join(found)} of the source becomes float32, which onnxruntime computes in{ask}")


def widened_for_run(module: Any, options: Options, *, owned: bool) -> Any:
    """Return a module whose parameters and buffers in `options.widen` are float32: itself if it is `owned`."""
    narrow = {_TORCH_DTYPES[name] for name in options.widen}
    tensors = [*module.parameters(), *module.buffers()] if isinstance(module, torch.nn.Module) else []
    if isinstance(module, torch.jit.ScriptModule) or not any(t.dtype in narrow for t in tensors):
        return module
    if not owned:
        import copy

        module = copy.deepcopy(module)
    return module._apply(lambda tensor: tensor.float() if tensor.dtype in narrow else tensor)


def widened_output(value: Any, options: Options) -> Any:
    """Return an output tensor in float32 where it is in a dtype of `options.widen`."""
    narrow = {_TORCH_DTYPES[name] for name in options.widen}
    return value.float() if isinstance(value, torch.Tensor) and value.dtype in narrow else value
