"""Models of old opsets are lifted, those of newer ones come down, and compute the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper
from onnx.backend.test.loader import load_model_tests

from convert.errors import Unsupported
from convert.graph import OPSET
from convert.passes.opset.convert import convert_opset
from convert.reference.executor import run
from tests.support.onnx_support import assert_same, data_of, info, model, node_tests, read

X = np.random.default_rng(0).normal(size=(2, 3, 4)).astype(np.float32)


OLD = [
    c
    for kind in ("pytorch-converted", "pytorch-operator", "simple")
    for c in load_model_tests(kind=kind)
    if "gradient" not in c.name
]


@pytest.mark.parametrize("case", OLD[::6], ids=lambda c: c.name)
def test_old_models_compute_the_same_when_lifted(case: Any) -> None:
    folder = Path(case.model_dir)
    shared = read(folder / "model.onnx")
    data = folder / "test_data_set_0"

    def load(what: str) -> list[Any]:
        tensors = []
        for i in range(len(list(data.glob(f"{what}_*.pb")))):
            content = (data / f"{what}_{i}.pb").read_bytes()
            tensors.append(onnx.numpy_helper.to_array(onnx.TensorProto.FromString(content)))
        return tensors

    feeds = dict(zip([v.name for v in shared.graph.inputs], load("input"), strict=True))
    got = run(shared, feeds)
    for value, wanted in zip(got.values(), load("output"), strict=True):
        assert_same(value, wanted, 1e-4)


def test_broadcast_of_opset_6_with_a_dynamic_batch() -> None:
    node = helper.make_node("Add", ["x", "b"], ["y"], broadcast=1, axis=1)
    proto = model([node], [info("x", ["N", 3, 4]), info("b", [3])], [info("y", ["N", 3, 4])], opset=6, ir_version=3)
    b = np.array([1, 2, 3], np.float32)
    assert np.array_equal(run(read(proto), {"x": X, "b": b})["y"], X + b[:, None])


@pytest.mark.parametrize("name", ["test_swish", "test_attention_4d_causal", "test_softmax_axis_1"])
def test_newer_opsets_come_down(name: str) -> None:
    case = node_tests()[name]
    proto = onnx.ModelProto()
    proto.CopyFrom(case.model)
    proto.opset_import[0].version = 25
    inputs, outputs = data_of(case)
    shared = read(proto)
    assert shared.graph.opset_imports[""] == OPSET
    got = run(shared, dict(zip([v.name for v in shared.graph.inputs], inputs, strict=True)))
    assert_same(next(iter(got.values())), outputs[0], 1e-4)


def test_an_operator_that_is_too_new_stays_and_is_named_where_it_cannot() -> None:
    case = node_tests()["test_cumprod_1d"]
    shared = read(case.model)
    assert shared.graph.opset_imports[""] == case.model.opset_import[0].version > OPSET
    assert [n.op_type for n in shared.graph] == ["CumProd"]
    with pytest.raises(Unsupported, match=f"CumProd.*not in opset {OPSET}"):
        convert_opset(shared, OPSET)
