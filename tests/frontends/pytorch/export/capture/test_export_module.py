"""Functions that torch.export cannot capture alone, writes that it does not report, and strided memory access."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnxruntime
import pytest
import torch
from convert.backends.onnx import to_proto
from convert.frontends.pytorch.export.capture.export_module import export_program, inference
from convert.frontends.pytorch.export.lowering.program import lower
from convert.frontends.pytorch.rules import torch_op
from torch.nn import functional as F

from convert.errors import Unsupported
from convert.outcome.report import Report
from convert.request.options import Options

X, Y = torch.randn(4, 6), torch.randn(4, 6)
WEIGHTS, COUNTS = torch.rand(6), torch.tensor([1, 2, 1, 3, 1, 2])
DEFICIENT = torch.ones(5, 3)
LOG_PROBS = torch.randn(9, 3, 5).log_softmax(2)
TARGETS, LENGTHS = torch.tensor([[1, 2, 2, 3], [4, 4, 0, 0], [1, 0, 0, 0]]), torch.tensor([4, 2, 0])
TOGETHER = torch.tensor([1, 2, 2, 3, 4, 4])
STEPS = torch.tensor([9, 7, 0])
POINTS = torch.rand(20, 2)


class Module(torch.nn.Module):
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *args: torch.Tensor) -> Any:
        return self.function(*args)


def ctc(**options: Any) -> Callable[..., torch.Tensor]:
    return lambda p, t, i, n: F.ctc_loss(p, t, i, n, **options)


def data_assigned(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    z = torch.zeros_like(x)
    z.data = y
    return x + z


FUNCTIONS: list[tuple[str, Callable[..., Any], tuple[torch.Tensor, ...]]] = [
    ("equal", torch.equal, (X, X.clone())),
    ("not equal", lambda a, b: a.equal(b), (X, Y)),
    ("of other shapes", torch.equal, (X, Y[:2])),
    ("allclose", lambda a, b: torch.allclose(a, b, atol=1e-3), (X, X + 5e-4)),
    ("data assigned", data_assigned, (X, X + 1)),
    ("cov", lambda x, f, a: torch.cov(x, fweights=f, aweights=a), (X, COUNTS, WEIGHTS)),
    ("cov of a row", lambda x: x.cov(correction=0), (X[0],)),
    ("corrcoef", torch.corrcoef, (X,)),
    ("combinations", lambda x: torch.combinations(x, 3, True), (X[0],)),
    ("unique_consecutive", lambda x: torch.unique_consecutive(x, True, True, dim=1), (COUNTS[None] // 2,)),
    ("unique_consecutive, whole", lambda x: torch.unique_consecutive(x, return_inverse=True), (COUNTS // 2,)),
    ("unique_consecutive of nothing", lambda x: x.unique_consecutive(dim=0), (X[:0],)),
    ("lstsq", lambda a, b: tuple(torch.linalg.lstsq(a, b, driver="gelsd")), (torch.randn(6, 3), torch.randn(6, 2))),
    ("lstsq, wide", lambda a, b: torch.linalg.lstsq(a, b).solution, (torch.randn(2, 3, 6), torch.randn(2, 3, 2))),
    (
        "lstsq, deficient",
        lambda a, b: torch.linalg.lstsq(a, b, driver="gelsd")[:3],
        (DEFICIENT, torch.arange(10.0).view(5, 2)),
    ),
    ("one_hot", lambda x: F.one_hot(x), (COUNTS,)),
    ("gaussian_nll_loss", lambda x, y: F.gaussian_nll_loss(x, y, x.exp(), full=True), (X, Y)),
    ("gaussian_nll_loss, number", lambda x, y: F.gaussian_nll_loss(x, y, 0.5, reduction="sum"), (X, Y)),
    ("ctc_loss", ctc(), (LOG_PROBS, TARGETS, STEPS.clamp(min=5), LENGTHS)),
    ("ctc_loss, together", ctc(reduction="none"), (LOG_PROBS, TOGETHER, STEPS, LENGTHS)),
    (
        "ctc_loss, never",
        ctc(zero_infinity=True, reduction="sum"),
        (LOG_PROBS[:3], TARGETS, STEPS.clamp(max=3), LENGTHS),
    ),
    ("ctc_loss, blank", ctc(blank=4), (LOG_PROBS, TARGETS % 4, STEPS, torch.tensor([4, 2, 1]))),
    ("ctc_loss, one", ctc(), (LOG_PROBS[:, 0], TARGETS[0], STEPS[0], LENGTHS[0])),
    ("tensor_split", lambda x, i: torch.tensor_split(x, i, 1), (X, torch.tensor([1, 4]))),
    ("histogramdd", lambda x: torch.histogramdd(x, [3, 4], density=True), (POINTS,)),
    ("histogramdd, range", lambda x: torch.histogramdd(x, 3, range=[0.2, 0.8, 0.0, 0.5]), (POINTS,)),
    (
        "histogramdd, edges",
        lambda x, w, a: torch.histogramdd(x, [a, a], weight=w),
        (POINTS, torch.rand(20), torch.tensor([0.0, 0.25, 0.5, 0.9])),
    ),
    ("batch_norm", lambda x, m, v: F.batch_norm(x, m, v, training=True), (X, torch.zeros(6), torch.ones(6))),
    ("as_strided", lambda x: torch.as_strided(x, (3, 2), (2, 7), 1), (X,)),
    ("as_strided, turned", lambda x: torch.as_strided(x, (3, 2), (2, 7), 1), (X.t(),)),
    ("as_strided_scatter", lambda x, y: torch.as_strided_scatter(x, y[0, :4], (4,), (6,), 2), (X.t(), Y)),
]

SLOW = (
    "combinations", "ctc_loss, together", "ctc_loss, never", "ctc_loss, blank", "ctc_loss, one", "lstsq", "lstsq, wide",
    "lstsq, deficient",
)  # fmt: skip


def lowered(function: Callable[..., Any], inputs: tuple[torch.Tensor, ...]) -> Any:
    module = Module(function).eval()
    with inference(module):
        return lower(export_program(module, inputs), Report("test"))


@pytest.mark.parametrize(
    ("function", "inputs"),
    [pytest.param(*f[1:], id=f[0], marks=pytest.mark.slow if f[0] in SLOW else ()) for f in FUNCTIONS],
)
def test_function_is_captured(function: Callable[..., Any], inputs: tuple[torch.Tensor, ...]) -> None:
    model = lowered(function, tuple(x.clone() for x in inputs))
    session = onnxruntime.InferenceSession(to_proto(model, Options()).SerializeToString())
    got = session.run(None, {i.name: x.numpy() for i, x in zip(session.get_inputs(), inputs, strict=True)})
    want = [np.asarray(x) for x in torch.utils._pytree.tree_leaves(function(*(x.clone() for x in inputs)))]
    for a, b in zip(got, want, strict=True):
        assert (a.dtype, a.shape) == (b.dtype, b.shape)
        np.testing.assert_allclose(a, b, rtol=2e-5, atol=2e-5)


def test_statistics_that_forward_updates_are_state() -> None:
    class Trained(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("mean", torch.randn(6))
            self.register_buffer("variance", torch.rand(6))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return F.batch_norm(x, self.mean, self.variance, training=True, momentum=0.3)

    module = Trained().eval()
    mean, variance = module.mean.clone(), module.variance.clone()
    model = lower(export_program(module, (X,)), Report("test"))
    session = onnxruntime.InferenceSession(to_proto(model, Options()).SerializeToString())
    feeds = {"x": X.numpy(), "mean": mean.numpy(), "variance": variance.numpy()}
    got = dict(zip([o.name for o in session.get_outputs()], session.run(None, feeds), strict=True))
    want = F.batch_norm(X, mean, variance, training=True, momentum=0.3)
    np.testing.assert_allclose(got["output"], want, rtol=2e-5, atol=2e-5)
    np.testing.assert_allclose(got["mean_next"], mean, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(got["variance_next"], variance, rtol=1e-5, atol=1e-6)


REFUSED = {
    "a number of pieces": (
        lambda x, n: torch.tensor_split(x, n, 1),
        (X, torch.tensor(2)),
        torch_op.limits["tensor_split"],
    ),
    "strides of a view": (lambda x: x[1:].as_strided((2, 2), (1, 2)), (X,), torch_op.gaps["as_strided"]),
    "data of another shape": (
        data_assigned,
        (X, X[0]),
        "forward assigns a tensor of another shape or dtype to .data, which a capture does not record",
    ),
    "eigenvalues": (torch.linalg.eigvals, (X[:, :4],), torch_op.gaps["linalg_eigvals"]),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_said_in_a_graph_is_refused_with_its_declared_reason(name: str) -> None:
    function, inputs, reason = REFUSED[name]
    with pytest.raises(Unsupported) as caught:
        lowered(function, inputs)
    assert {p.why for p in caught.value.problems} == {reason}
