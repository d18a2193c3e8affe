"""Runs a captured program operator by operator in float64 and keeps a summary of every value, to find a defect."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch.export import ExportedProgram
from torch.utils import _pytree as pytree

from convert.errors import Unsupported
from convert.options import Options
from convert.parity.trace import Step, Summary, Trace, summary
from convert.report import Report
from convert.source import Source

from .capture import capture, inference
from .complexes import complex_inputs, takes_complex
from .execute import all_in_double, call_program, tensor_of_feed, widened_module
from .locate import Locator
from .prepare import operator_key
from .state import changed_buffers


def trace(source: Source, feed: Mapping[str, np.ndarray], options: Options) -> Trace:
    """One run of the program that torch.export captures, in its dialect before decomposition, in float64.

    Raises `Unsupported` for TorchScript, whose interpreter shows no values, and for programs with state.
    """
    from .loader import load

    thing = load(source, options)
    if isinstance(thing, (torch.jit.ScriptModule, torch.jit.ScriptFunction)) or options.trace:
        raise Unsupported("TorchScript runs as a whole")
    if isinstance(thing, ExportedProgram):
        program = thing
    else:  # with these very inputs, so that it takes the path that they take
        program = capture(thing, replace(options, inputs=(), examples=dict(feed)), Report("trace"))[0]
    if complex_inputs(thing, options) or set(changed_buffers(program)):
        raise Unsupported("programs with complex inputs or with state are not followed")
    module = widened_module(program.module(check_guards=False), owned=False)
    recorder = _Recorder(module)
    with torch.no_grad(), inference(None), all_in_double():
        tensors = {name: tensor_of_feed(array, True) for name, array in feed.items()}
        call_program(program, recorder.call, tensors)  # type: ignore[arg-type]
    return recorder.trace


class _Recorder(torch.fx.Interpreter):
    """An interpreter that summarises what every node gives, when it gives it: an operator in place changes it later."""

    def __init__(self, module: torch.nn.Module) -> None:
        assert isinstance(module, torch.fx.GraphModule)
        super().__init__(module)
        self.trace = Trace()
        self.locate = Locator(module.graph, set())

    def call(self, *args: Any, **kwargs: Any) -> Any:
        """What the module itself would be called with."""
        leaves = pytree.arg_tree_leaves(*args, **kwargs)
        return self.run(*leaves, enable_io_processing=False)

    def run_node(self, n: torch.fx.Node) -> Any:
        """Run the node, and record it."""
        result = super().run_node(n)
        values = self._values(n.name, result)
        self.trace.values |= values
        if n.op == "call_function":
            key = operator_key(n.target, takes_complex(n)) or str(n.target)
            inputs = tuple(name for node in n.all_input_nodes for name in (node.name, *self._parts(node.name)))
            self.trace.steps.append(Step(self.locate(n, key), inputs, tuple(values) or (n.name,)))
        return result

    def _values(self, name: str, result: Any) -> dict[str, Summary]:
        if isinstance(result, torch.Tensor) and not result.is_complex() and not result.is_quantized:
            return {name: summary(result.detach().cpu().numpy())}
        if isinstance(result, (list, tuple)):
            return {k: v for i, r in enumerate(result) for k, v in self._values(f"{name}.{i}", r).items()}
        return {}

    def _parts(self, name: str) -> list[str]:
        return [v for v in (f"{name}.{i}" for i in range(8)) if v in self.trace.values]
