"""Opsets newer than the shared graph's: the same nodes, with the requested opset number."""

from __future__ import annotations

import onnx
import onnxruntime
import pytest
import torch

import convert
from convert.errors import UsageError
from tests.suites.consumer_networks import build, feed, spec
from tests.support.marks import slow_but
from tests.support.run_targets import assert_close


@pytest.mark.parametrize("name", ["cnn", "attention", "words", "bilinear", "lstm"])
@pytest.mark.parametrize("opset", slow_but([24, 25, 26, 27, 28], 28))
def test_networks(name: str, opset: int) -> None:
    if opset > onnx.defs.onnx_opset_version():
        pytest.skip(f"onnx {onnx.__version__} has no opset {opset}")
    proto = convert.to_onnx(build(name), spec(name), opset=opset, verify=False)
    onnx.checker.check_model(proto, full_check=True)
    assert [(o.domain, o.version) for o in proto.opset_import] == [("", opset)]
    assert proto.ir_version == onnx.helper.find_min_ir_version_for(list(proto.opset_import))
    inputs = feed(name)
    (got,) = onnxruntime.InferenceSession(proto.SerializeToString()).run(None, inputs)
    with torch.no_grad():
        want = build(name)(*map(torch.from_numpy, inputs.values()))
        module = build(name).double()
        true = module(*(x if x.dtype == torch.int64 else x.double() for x in map(torch.from_numpy, inputs.values())))
    assert_close({"y": want.numpy()}, {"y": got}, {"y": true.numpy()})


def test_an_opset_that_the_installed_onnx_lacks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(onnx.defs, "onnx_opset_version", lambda: 26)
    with pytest.raises(UsageError, match="opset 27 is not in onnx"):
        convert.to_onnx(build("mlp"), spec("mlp"), opset=27, verify=False)
