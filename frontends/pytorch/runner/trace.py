"""Runs a captured program operator by operator in float64 and summarizes every value, to locate a defect."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch.export import ExportedProgram
from torch.utils.weak import WeakTensorKeyDictionary

from convert.errors import Location, Unsupported, UsageError
from convert.outcome.report import Report
from convert.request.options import Options
from convert.request.source import Source
from convert.runtimes.trace import Summary, Trace, TraceStep, summarize

from ..common.complexes import takes_complex
from ..common.locate import Locator
from ..common.state import changed_buffers
from ..export.capture.export_module import capture, inference
from ..export.capture.prepare import operator_key
from ..inputs.complex_inputs import complex_inputs
from ..torch_internals import TorchDispatchMode, pytree, schema_of
from .run import all_in_double, call_program, named_call, tensor_of_feed, widened_module


def trace(source: Source, feed: Mapping[str, np.ndarray], options: Options) -> Trace:
    """Run the program that torch.export captures, before its decomposition, once in float64; return a summary of each
    value.

    TorchScript, and a module that changes its state or cannot be captured, runs as it is: the trace then consists of
    the kernels that it calls, which know no module and no source line. Raises `Unsupported` for complex inputs.
    """
    from ..files.loader import load

    loaded = load(source, options)
    if complex_inputs(loaded, options):
        raise Unsupported("models with complex inputs are not followed")
    program = _program(loaded, feed, options)
    if program is None or changed_buffers(program):
        return _trace_kernels(loaded, feed, options)
    module = widened_module(program.module(check_guards=False), owned=False)
    recorder = _NodeRecorder(module)
    with torch.no_grad(), inference(None), all_in_double():
        tensors = {name: tensor_of_feed(array, True) for name, array in feed.items()}
        call_program(program, recorder.call, tensors)  # type: ignore[arg-type]
    return recorder.trace


def _program(loaded: Any, feed: Mapping[str, np.ndarray], options: Options) -> ExportedProgram | None:
    if isinstance(loaded, ExportedProgram):
        return loaded
    if isinstance(loaded, (torch.jit.ScriptModule, torch.jit.ScriptFunction)) or options.trace:
        return None
    examples = dict[str | int, np.ndarray](feed.items())
    try:  # capture with these very inputs, so that it takes the same path
        return capture(loaded, replace(options, inputs=(), examples=examples), Report("trace")).program
    except (Unsupported, UsageError):
        return None


def _trace_kernels(loaded: Any, feed: Mapping[str, np.ndarray], options: Options) -> Trace:
    call, module = named_call(loaded, True, False, options.fixed)
    watching = _KernelRecorder()
    with torch.no_grad(), inference(module), all_in_double(), watching:
        call({name: tensor_of_feed(array, True) for name, array in feed.items()})
    return watching.trace


class _KernelRecorder(TorchDispatchMode):
    """Records every kernel that returns floating tensors, below modules and below TorchScript's interpreter."""

    def __init__(self) -> None:
        super().__init__()
        self.trace = Trace()
        self.names = WeakTensorKeyDictionary()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        tensors = [t for t in pytree.tree_leaves(result) if isinstance(t, torch.Tensor) and t.is_floating_point()]
        if tensors:
            read = [t for t in pytree.tree_leaves((args, kwargs)) if isinstance(t, torch.Tensor)]
            inputs = tuple(self.names[t] for t in read if t in self.names)
            operator = schema_of(func).name.removeprefix("aten::")
            outputs = tuple(f"{operator}.{len(self.trace.steps)}.{i}" for i in range(len(tensors)))
            for name, tensor in zip(outputs, tensors, strict=True):
                self.names[tensor] = name
                self.trace.values[name] = summarize(tensor.detach().double().numpy())
            self.trace.steps.append(TraceStep(Location(operator), inputs, outputs))
        return result


class _NodeRecorder(torch.fx.Interpreter):
    """Interprets a graph and summarizes each node's result at once, because an in-place operator may change it
    later.
    """

    def __init__(self, module: torch.nn.Module) -> None:
        assert isinstance(module, torch.fx.GraphModule)
        super().__init__(module)
        self.trace = Trace()
        self.locate = Locator(module.graph, set())

    def call(self, *args: Any, **kwargs: Any) -> Any:
        """Run the graph with the arguments of the module itself."""
        leaves = pytree.arg_tree_leaves(*args, **kwargs)
        return self.run(*leaves, enable_io_processing=False)

    def run_node(self, n: torch.fx.Node) -> Any:
        """Run the node and record its result."""
        result = super().run_node(n)
        values = self._values(n.name, result)
        self.trace.values |= values
        if n.op == "call_function":
            key = operator_key(n.target, takes_complex(n)) or str(n.target)
            inputs = tuple(name for node in n.all_input_nodes for name in (node.name, *self._parts(node.name)))
            self.trace.steps.append(TraceStep(self.locate(n, key), inputs, tuple(values) or (n.name,)))
        return result

    def _values(self, name: str, result: Any) -> dict[str, Summary]:
        if isinstance(result, torch.Tensor) and not result.is_complex() and not result.is_quantized:
            return {name: summarize(result.detach().cpu().numpy())}
        if isinstance(result, (list, tuple)):
            return {k: v for i, r in enumerate(result) for k, v in self._values(f"{name}.{i}", r).items()}
        return {}

    def _parts(self, name: str) -> list[str]:
        return [v for v in (f"{name}.{i}" for i in range(8)) if v in self.trace.values]
