"""Helpers of the TorchScript tests: script, convert, and compare TorchScript with onnxruntime."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime
import torch
from convert.frontends.pytorch.inputs.output_names import named_outputs
from convert.frontends.pytorch.torchscript.lower import lower
from torch import nn

from convert.outcome.report import Report
from convert.request.options import Options, parse_input

FIXTURES = Path(__file__).parents[2] / "fixtures"


torch.manual_seed(0)  # modules that are made during collection need this too


def scripted(thing: Any) -> Any:
    """Script, save and load `thing`, as a frontend gets it from a file."""
    module = torch.jit.script(thing.eval() if isinstance(thing, nn.Module) else thing)
    if not isinstance(thing, nn.Module):
        return module
    buffer = io.BytesIO()
    torch.jit.save(module, buffer)
    return torch.jit.load(io.BytesIO(buffer.getvalue()))


def converted(module: Any, *inputs: str, report: Report | None = None, **rest: Any) -> ir.Model:
    options = Options(inputs=tuple(map(parse_input, inputs)))
    return lower(module, options, report or Report("test"), **rest)


def session(model: ir.Model) -> onnxruntime.InferenceSession:
    proto = ir.serde.serialize_model(model)
    onnx.checker.check_model(proto)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(proto.SerializeToString(), options)


def agree(module: Any, model: ir.Model, *calls: tuple[Any, ...]) -> None:
    """Assert that names, dtypes, shapes and values of the outputs are those of the program, for each call."""
    run = session(model)
    names = [i.name for i in run.get_inputs()]
    for call in calls:
        with torch.no_grad():
            expected = named_outputs(module(*(c.clone() if isinstance(c, torch.Tensor) else c for c in call)))
        feeds = {n: c.numpy() if isinstance(c, torch.Tensor) else np.array(c) for n, c in zip(names, call, strict=True)}
        results = dict(zip([o.name for o in run.get_outputs()], run.run(None, feeds), strict=True))
        assert list(results) == list(expected)
        for name, value in expected.items():
            want = value.numpy() if isinstance(value, torch.Tensor) else np.array(value)
            assert results[name].dtype == want.dtype, name
            assert results[name].shape == want.shape, name
            if want.dtype.kind == "f" and want.size:
                assert np.abs(results[name] - want).max() <= 32 * np.finfo(want.dtype).eps * max(
                    np.abs(want).max(), 1e-30
                )
            else:
                np.testing.assert_array_equal(results[name], want)


def kinds(model: ir.Model) -> list[str]:
    return [node.op_type for node in model.graph]
