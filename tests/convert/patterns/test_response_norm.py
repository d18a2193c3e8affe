"""PyTorch's local response norm becomes one operator, for any rank and form, if ONNX has its window."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from convert.patterns.response_norm import find_response_norms
from convert.reference.executor import run
from tests.support.pytorch_tools import read


@pytest.mark.parametrize(
    ("dims", "size", "found"),
    [((6, 5, 5), 5, 1), ((6, 5), 3, 1), ((4, 3, 3, 2), 3, 1), ((6, 5, 5), 4, 0)],
)
@pytest.mark.parametrize("script", [False, True])
def test_a_pool_over_channels(dims: tuple[int, ...], size: int, found: int, script: bool) -> None:
    module = torch.nn.LocalResponseNorm(size, alpha=0.02, beta=0.6, k=2.0)
    spec = f"input:float32[batch,{','.join(map(str, dims))}]"
    model = read(torch.jit.script(module) if script else module, spec)
    assert find_response_norms(model) == bool(found)
    assert [n.op_type for n in model.graph.all_nodes()].count("LRN") == found
    x = np.random.default_rng(0).standard_normal((2, *dims)).astype(np.float32)
    (got,) = run(model, {"input": x}).values()  # onnxruntime's LRN takes four dims only
    np.testing.assert_allclose(got, module(torch.from_numpy(x)).numpy(), rtol=1e-5)
