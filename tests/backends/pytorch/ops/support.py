"""Runs rows of ONNX operators, which the tests of several backends share, as exported programs of one node."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache

import numpy as np
import onnx
import onnx_ir as ir
import torch
from convert.backends.pytorch.dtypes import tensor_from
from convert.backends.pytorch.emit import check
from convert.backends.pytorch.passes.legalize import expand_unsupported, legalize, normalize_windows
from convert.backends.pytorch.writer.exported import export_model

from convert.passes import run_passes
from tests.backends.tensorflow.ops.support import CONSTANT, STATIC, assert_same, expected, feeds_of, model_of
from tests.support.cases import Case
from tests.support.merged_cases import merged


def computed(row: Case, variant: int) -> list[np.ndarray]:
    """Return PyTorch's outputs; constants are only written out, because the other passes would fold them."""
    return _run(model_of(row, variant), feeds_of(row), variant)


class RowsTogether:
    """The outputs of rows, thirty to a program, because capturing a program takes five times as long as one operator in
    it.

    No program has rows of two groups.
    """

    def __init__(self, groups: Iterable[Sequence[Case]], variant: int) -> None:
        self._variant = variant
        self._batches = [rows[at : at + 30] for rows in groups for at in range(0, len(rows), 30)]
        self._place = {id(row): i for i, batch in enumerate(self._batches) for row in batch}

    def outputs(self, row: Case) -> list[np.ndarray]:
        """Return PyTorch's outputs.

        If a batch of rows fails, all of its rows fail, the faulty row with its own error.
        """
        try:
            return self._outcomes(self._place[id(row)])[id(row)]
        except Exception:
            computed(row, self._variant)
            raise

    @cache  # noqa: B019  (as many as there are test tables)
    def _outcomes(self, place: int) -> dict[int, list[np.ndarray]]:
        by_opset: dict[int, list[tuple[int, onnx.ModelProto]]] = {}
        batch = self._batches[place]
        for i, row in enumerate(batch):
            model = model_of(row, self._variant)
            by_opset.setdefault(model.opset_import[0].version, []).append((i, model))
        found = {}
        for opset, members in by_opset.items():
            feeds = {f"c{i}_{name}": x for i, _ in members for name, x in feeds_of(batch[i]).items()}
            outputs = iter(_run(merged(members, opset), feeds, self._variant))
            found |= {id(batch[i]): [next(outputs) for _ in model.graph.output] for i, model in members}
        return found


def _run(proto: onnx.ModelProto, feeds: dict[str, np.ndarray], variant: int) -> list[np.ndarray]:
    model = ir.from_proto(proto)
    if variant == CONSTANT:
        run_passes(model, (normalize_windows, expand_unsupported))
    else:
        legalize(model)
    check(model)
    program = export_model(model)
    with torch.no_grad():
        outputs = program.module()(*(tensor_from(feeds[v.name]) for v in model.graph.inputs))
    return [as_array(outputs[v.name]) for v in model.graph.outputs]


def as_array(x: torch.Tensor) -> np.ndarray:
    """Return the content as numpy; bfloat16 by way of its bytes. Parts that a split returns of a parameter require
    gradients.
    """
    x = x.detach()
    if x.dtype == torch.bfloat16:
        return x.view(torch.int16).numpy().view(ir.DataType.BFLOAT16.numpy())
    return x.numpy()


def assert_right(row: Case, variant: int = STATIC) -> None:
    """Assert that PyTorch computes what onnxruntime computes, or ONNX's own evaluator."""
    assert_same(computed(row, variant), expected(row))
