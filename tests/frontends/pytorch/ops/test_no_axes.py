"""Functions of vectors and scalars whose rules reduce over lists of dims that may be empty, against PyTorch."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnxruntime
import pytest
import torch
from torch import nn
from torch.nn import functional as F

import convert

REDUCING = ("sum", "mean", "amax", "amin", "std", "var", "logsumexp", "any", "all", "count_nonzero", "norm")
ORDERS = (0, 1, 2, 3, float("inf"), -float("inf"))
FUNCTIONS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    **{f"{name} of dim=[]": (lambda x, name=name: getattr(torch, name)(x, dim=[])) for name in REDUCING},
    **{f"vector_norm {n} of dim=[]": (lambda x, n=n: torch.linalg.vector_norm(x, n, dim=[])) for n in ORDERS},
    "weight_norm of dim 0": lambda x: torch._weight_norm(x, x.abs() + 1, 0),
    "weight_norm of all": lambda x: torch._weight_norm(x, torch.ones(1), -1),
    "sum of dim=[], kept": lambda x: x.sum([], keepdim=True),
    "squeeze of dim=[]": lambda x: x[None].squeeze([]),
    "squeeze of dims that are longer": lambda x: x[None].squeeze(-1),
    "norm along dim 0": lambda x: x.norm(dim=0),
    "normalize along dim 0": lambda x: F.normalize(x, dim=0),
    "var_mean of dim=[]": lambda x: torch.cat([v[None] for v in torch.var_mean(x, [])]),
    "softmax": lambda x: x.softmax(0),
    "maximum along dim 0": lambda x: x.max(0).values,
    "unique": lambda x: x.abs().round().unique(),
    "unique_consecutive": lambda x: x.abs().round().unique_consecutive(),
    "median": lambda x: x.median(),
    "flip of no dims": lambda x: x.flip([]),
    "fftn of no dims": lambda x: torch.fft.fftn(x, dim=[]).real,
    "cosine_similarity": lambda x: F.cosine_similarity(x, x + 1, 0),
    "layer_norm": lambda x: F.layer_norm(x, x.shape),
    "trapezoid": lambda x: torch.trapezoid(x),
    "sum_to_size": lambda x: x.sum_to_size(x.shape),
}


class Called(nn.Module):
    def __init__(self, function: Callable[[torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.function(x)


@pytest.mark.parametrize("shape", [(5,), (1,), ()], ids=str)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_it_gives_what_pytorch_gives(name: str, shape: tuple[int, ...]) -> None:
    x = torch.from_numpy(np.random.default_rng(0).normal(size=shape).astype(np.float32).reshape(shape))
    try:
        want = FUNCTIONS[name](x)
    except (RuntimeError, IndexError, AssertionError):
        return  # PyTorch has no such function of this rank
    proto = convert.to_onnx(Called(FUNCTIONS[name]).eval(), x, verify=False)
    session = onnxruntime.InferenceSession(proto.SerializeToString())
    (got,) = session.run(None, {i.name: x.numpy() for i in session.get_inputs()})
    assert (got.shape, got.dtype) == (tuple(want.shape), want.numpy().dtype)
    np.testing.assert_allclose(got, want.numpy(), rtol=1e-5, atol=1e-5)


class Gain(nn.Module):
    """A vector that is normalized by its only dim, in PyTorch's two ways."""

    def __init__(self, norm: Callable[..., nn.Module]) -> None:
        super().__init__()
        self.norm, self.linear = norm(nn.LayerNorm(4), "weight", dim=0), norm(nn.Linear(4, 4), "bias", dim=0)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.linear(self.norm(x))


@pytest.mark.parametrize("norm", [nn.utils.weight_norm, nn.utils.parametrizations.weight_norm], ids=["old", "new"])
@pytest.mark.filterwarnings("ignore:.*weight_norm.*:FutureWarning")
def test_weight_norm_of_a_vector(norm: Callable[..., nn.Module]) -> None:
    module, x = Gain(norm).eval(), torch.randn(3, 4)
    session = onnxruntime.InferenceSession(convert.to_onnx(module, x, verify=False).SerializeToString())
    (got,) = session.run(None, {session.get_inputs()[0].name: x.numpy()})
    np.testing.assert_allclose(got, module(x).detach().numpy(), rtol=1e-5, atol=1e-5)
