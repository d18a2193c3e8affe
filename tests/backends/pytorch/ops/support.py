"""Runs rows of ONNX operators, which the tests of several backends share, as exported programs of one node."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import torch
from convert.backends.pytorch.dtypes import tensor_from
from convert.backends.pytorch.emit import check
from convert.backends.pytorch.passes.legalize import legalize
from convert.backends.pytorch.writer.exported import export_model

from tests.backends.tensorflow.ops.support import CONSTANT, STATIC, assert_same, expected, feeds_of, model_of
from tests.support.cases import Case


def computed(row: Case, variant: int) -> list[np.ndarray]:
    """What PyTorch computes; constants are emitted without the passes, which would fold them."""
    model = ir.from_proto(model_of(row, variant))
    if variant != CONSTANT:
        legalize(model)
    check(model)
    program = export_model(model)
    feeds = feeds_of(row)
    with torch.no_grad():
        outputs = program.module()(*(tensor_from(feeds[v.name]) for v in model.graph.inputs))
    return [as_array(outputs[v.name]) for v in model.graph.outputs]


def as_array(x: torch.Tensor) -> np.ndarray:
    """The content as numpy; bfloat16 through its bytes."""
    if x.dtype == torch.bfloat16:
        return x.view(torch.int16).numpy().view(ir.DataType.BFLOAT16.numpy())
    return x.numpy()


def assert_right(row: Case, variant: int = STATIC) -> None:
    """PyTorch computes what onnxruntime does, or ONNX's own evaluator."""
    assert_same(computed(row, variant), expected(row))
