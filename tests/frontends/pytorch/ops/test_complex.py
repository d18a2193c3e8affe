"""Complex tensors in PyTorch modules, which are pairs of real tensors in the graph."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
import torch
import torch.nn.functional as F
from convert.backends.onnx import to_proto
from convert.frontends.pytorch.common.complexes import PREFIX
from convert.frontends.pytorch.export.capture.prepare import prepare_program
from convert.frontends.pytorch.export.lowering.program import lower
from convert.frontends.pytorch.rules import key_of, torch_op
from convert.frontends.pytorch.runner.run import run

from convert.errors import Unsupported
from convert.outcome.report import Report
from convert.request.options import Options, parse_input
from convert.request.source import Source
from tests.support.pytorch_tools import read
from tests.support.pytorch_tools import run as run_graph

A, B = torch.randn(3, 4, dtype=torch.complex64), torch.randn(3, 4, dtype=torch.complex64)
X, PLACES = torch.randn(2, 6, 8), torch.tensor([2, 0, 1])

SPECIAL = torch.tensor([1.5, float("inf"), -float("inf"), 0.0])


def written(a: torch.Tensor, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    y, z = torch.zeros_like(a), torch.empty_like(a)
    y[:, 1:3] = a[:, :2]
    y[0] = x[0, 0, :4]
    z.fill_(1j)
    z[1] = 2
    made = a.new_empty(4)
    made.copy_(a[2])
    return y, z, made.zero_()


# Functions of complex inputs. In the graph, complex inputs and outputs are real, with a last dim of 2.
FUNCTIONS: list[tuple[str, Callable[..., Any], tuple[torch.Tensor, ...]]] = [
    ("add", lambda a, b: (a + b, torch.add(a, b, alpha=2), a + 1, 1.5 + b.real + a), (A, B)),
    ("sub", lambda a, b: (a - b, 1 - a, torch.rsub(a, b, alpha=2)), (A, B)),
    ("mul", lambda a, b: (a * b, a * 2.0, a * b.real, 1j * a), (A, B)),
    ("div", lambda a, b: (a / b, a / 2.0, a / b.real, torch.reciprocal(a), torch.rsqrt(a * 0)), (A, B)),
    ("matmul", lambda a, b: (a @ b.mT, torch.mv(a, b[0]), torch.mm(a, b.t()), torch.dot(a[0], b[0])), (A, B)),
    ("bmm", lambda a, b: torch.bmm(a[None], b.T[None]), (A, B)),
    ("parts", lambda a: (a.real, a.imag, a.abs(), a.angle(), torch.view_as_real(a)), (A,)),
    ("copies", lambda a: (torch.view_as_real_copy(a), torch.isnan(a)), (A,)),
    ("conj", lambda a: (a.conj() * 2, torch.conj_physical(a), a.conj().resolve_conj()), (A,)),
    ("exp", lambda a: torch.exp(a), (A,)),
    (
        "make",
        lambda x: (torch.complex(x, -x), torch.polar(x.abs(), x), torch.view_as_complex(x.view(2, 6, 4, 2))),
        (X,),
    ),
    ("compare", lambda a, b: (a == b, torch.where(a.real > 0, a, b)), (A, B)),
    ("cast", lambda a: (a.to(torch.complex128), a.to(torch.float32)), (A,)),
    ("from real", lambda x: x.to(torch.complex64), (X,)),
    ("from infinities", lambda x: (x.to(torch.complex64), torch.cat([x + 0j, x])), (SPECIAL,)),
    ("imaginary numbers", lambda x: (1j * x, x + 1j, x - 2j, torch.exp(1j * x), (x + 1j * x).abs()), (X,)),
    ("numbers and integers", lambda x: (x * 2j, 1 - 1j + x, x / 2j), (torch.arange(5),)),
    ("reduce", lambda a: (a.sum(), a.sum(1), a.mean(0, True)), (A,)),
    ("shape", lambda a: (a.view(4, 3), a.reshape(2, 6), a.flatten(), a.unflatten(1, (2, 2)), a.permute(1, 0)), (A,)),
    ("order", lambda a: (a.transpose(0, 1), a.t(), a.movedim(0, 1), a.flip(0), a.roll(1, 0)), (A,)),
    ("rank", lambda a: (a[None], a[None].squeeze(), a[None].squeeze(0), a[None].squeeze((0,)), a[0]), (A,)),
    ("join", lambda a, b: (torch.cat([a, b]), torch.stack([a, b])), (A, B)),
    (
        "join real ones",
        lambda a, b: (torch.cat([a, b.real]), torch.stack([b.imag, a]), torch.cat([a, b.real.double()])),
        (A, B),
    ),
    ("cut", lambda a: (*a.split(2, 1), *a.chunk(3), *a.unbind(0), a.narrow(1, 1, 2), a[:, 1:3]), (A,)),
    ("spread", lambda a: (a[:1].expand(3, 4), a[:1].expand_as(a), a.repeat(2, 1), torch.diagonal(a)), (A,)),
    ("same", lambda a: (a.clone(), a.contiguous(), a.detach(), -a, +a), (A,)),
    ("pick", lambda a: (a.index_select(0, torch.tensor([2, 0])), torch.nn.functional.pad(a, (1, 2))), (A,)),
    ("pad", lambda a: (F.pad(a, (1, 2), value=1.5), torch.constant_pad_nd(a, [0, 1], 1 + 2j)), (A,)),
    (
        "make filled ones",
        lambda a, x: (
            torch.zeros(2, 3, dtype=torch.complex64) + a[0, 0],
            torch.ones(2, dtype=torch.complex128),
            torch.full((2, 2), 1 - 2j),
            torch.zeros_like(x, dtype=torch.complex64),
            torch.ones_like(a),
            torch.full_like(a, 3j),
            a.new_zeros(2),
            a.new_ones(2),
            a.new_full((2,), 1 + 1j),
        ),
        (A, X),
    ),
    (
        "write",
        lambda a, x: (
            torch.slice_scatter(a, x[0, :3, :2], 1, 1, 3),
            torch.select_scatter(a, a[1], 0, 0),
            torch.ops.aten.copy(a, x[0, :3, :4]),
            torch.ops.aten.copy(x[0, :3, :4], a),
            torch.ops.aten.fill(a, 2j),
            torch.ops.aten.zero(a),
        ),
        (A, X),
    ),
    ("write in place", written, (A, X)),
    (
        "after functionalisation",
        lambda a: (
            torch.ops.aten.alias(a),
            torch.ops.aten._to_copy(a, dtype=torch.complex128),
            torch.ops.aten.to.device(a, torch.device("cpu"), torch.complex128),
            torch.ops.aten.to.dtype_layout(a, dtype=torch.complex64),
            torch.ops.aten.to.other(a, a.to(torch.complex128)),
            torch.ops.aten.to.other(a, a.real.double()),
            torch.ops.aten.to.other(a.real, a),
            torch.ops.aten._unsafe_view(a, [4, 3]),
            torch.ops.aten._conj_physical(a),
        ),
        (A,),
    ),
    (
        "roots",
        lambda a: (
            a.sqrt(),
            a.rsqrt(),
            a.log(),
            (a * 0).sqrt(),
            torch.complex(-a.real.abs(), -0.0 * a.imag).sqrt(),
        ),
        (A,),
    ),
    (
        "powers of 0",
        lambda a, b: (
            (a * 0) ** -2.5,
            (a * 0) ** -5,
            (a * 0) ** -1,
            (a * 0) ** -2,
            (a * 0) ** 7,
            (a * 0) ** 0,
            a**0,
            (a * 0) ** 1j,
            (a * 0) ** (1 + 1j),
            (a * 0) ** (-1 + 2j),
            (a * 0) ** b,
        ),
        (A, B),
    ),
    ("powers", lambda a, b: (a**2, a**3, a**-1, a**0.5, a**1.7, a**b, 2.0**a, (a * 0) ** 2.5, a.square()), (A, B)),
    ("signs", lambda a: (a.sgn(), (a * 0).sgn()), (A,)),
    ("waves", lambda a: (a.sin(), a.cos(), a.sinh(), a.cosh(), a.tanh(), (a * 40).tanh(), a.sigmoid()), (A,)),
    (
        "along a dim",
        lambda a: (
            a.prod(),
            a.prod(1),
            a.prod(0, keepdim=True),
            a.cumsum(0),
            torch.linalg.vector_norm(a),
            torch.linalg.vector_norm(a, 1, dim=1),
        ),
        (A,),
    ),
    ("questions", lambda a, b: (a != b, a.isfinite(), torch.complex(a.real / (b.real * 0), a.imag).isinf()), (A, A)),
    (
        "elements",
        lambda a, i: (
            a[i],
            a.gather(1, i[:, None]),
            a.masked_select(a.real > 0),
            a.masked_fill(a.real > 0, 1 - 2j),
            a.tril(),
            a.triu(1),
            a.unfold(1, 2, 1),
            a[0].diag_embed(),
            a.diff(dim=1),
            a.repeat_interleave(2, 0),
        ),
        (A, PLACES),
    ),
    (
        "elements written",
        lambda a, i: (
            a.index_put((i,), a * 2),
            a.index_add(0, i, a),
            a.index_copy(0, i, a.conj()),
            a.scatter(1, i[:, None], a[:, 1:]),
            a.scatter_add(1, i[:, None], a),
        ),
        (A, PLACES),
    ),
    ("fft", lambda x: (torch.fft.fft(x), torch.fft.rfft2(x), torch.fft.ifft(x, norm="ortho")), (X,)),
    ("long fft", lambda x: torch.fft.rfft(x), (torch.randn(2, 1100),)),
    ("long inverse", lambda x: torch.fft.ifft(torch.fft.fft(x)).real, (torch.randn(2, 1100),)),
    ("irfft", lambda a: (torch.fft.irfft(a), torch.fft.irfft(a, 7), torch.fft.irfft2(a), torch.fft.hfft(a)), (A,)),
    ("stft", lambda x: torch.stft(x, 16, 4, window=torch.hann_window(16), return_complex=True), (torch.randn(2, 64),)),
]
USED: set[str] = set()


class Module(torch.nn.Module):
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *args: torch.Tensor) -> Any:
        return self.function(*args)


def flat(value: Any) -> np.ndarray:
    return (torch.view_as_real(value.resolve_conj()) if value.is_complex() else value).numpy()


@pytest.mark.parametrize(("function", "inputs"), [f[1:] for f in FUNCTIONS], ids=[f[0] for f in FUNCTIONS])
def test_function_of_complex_tensors(function: Callable[..., Any], inputs: tuple[torch.Tensor, ...]) -> None:
    module = Module(function).eval()
    program = torch.export.export(module, inputs, strict=False)
    model = lower(program, Report("test"))
    session = onnxruntime.InferenceSession(to_proto(model, Options()).SerializeToString())
    feeds = {i.name: flat(x) for i, x in zip(session.get_inputs(), inputs, strict=True)}
    want = module(*inputs)
    for a, b in zip(session.run(None, feeds), want if isinstance(want, tuple) else (want,), strict=True):
        assert (a.dtype, a.shape) == (flat(b).dtype, flat(b).shape)
        np.testing.assert_allclose(a, flat(b), rtol=2e-5, atol=2e-5)


def test_sizes_of_complex_tensors() -> None:
    """`z[:, :k] = …` with any number of rows reads sizes of z once the write is an operator of its own."""

    def sizes(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        z = torch.fft.fft(x)
        counted = torch.ops.aten.sym_size.int(z, 0) * torch.ops.aten.sym_numel(z.repeat(2, 1))
        y = torch.zeros(x.shape[0], 6, dtype=torch.complex64)
        y[:, :4] = z
        return y, x * counted

    model = read(Module(sizes).eval(), "args_0:float32[rows,4]")
    x = torch.randn(3, 4)
    for got, want in zip(run_graph(model, x), sizes(x), strict=True):
        np.testing.assert_allclose(got, flat(want), rtol=2e-5, atol=2e-5)


def test_transforms_of_any_length() -> None:
    """Even and odd lengths, of one and two elements; scaled by run-time lengths; forward and back."""

    def transforms(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        z, size = torch.fft.rfft2(x), x.shape[-2:]
        back, half = torch.fft.irfft2(z * 2, s=size), torch.fft.irfft(z, n=x.shape[-1] + 1, norm="forward")
        return torch.fft.fft(x, norm="ortho"), z, back, half, torch.fft.ifft(z, dim=0), torch.fft.hfft(z, n=size[-1])

    model = read(Module(transforms).eval(), "args_0:float32[rows,columns]")
    for shape in ((3, 6), (4, 7), (1, 1), (2, 2), (5, 3)):
        x = torch.randn(shape, generator=torch.Generator().manual_seed(0))
        for got, want in zip(run_graph(model, x), transforms(x), strict=True):
            assert got.shape == flat(want).shape
            np.testing.assert_allclose(got, flat(want), rtol=2e-5, atol=2e-5)


@pytest.mark.slow
def test_every_rule_on_pairs_has_a_case() -> None:
    used = {"complex::sym_size", "complex::sym_numel"}  # the test above, with dynamic dims
    for _, function, inputs in FUNCTIONS:
        program = torch.export.export(Module(function).eval(), inputs, strict=False)
        for node in (*program.graph.nodes, *prepare_program(program, Report("test")).graph.nodes):
            if isinstance(node.target, torch._ops.OpOverload):
                schema = node.target._schema
                used.add(key_of(schema.name, schema.overload_name, paired=True))
    assert sorted(k for k in torch_op.entries if k.startswith(PREFIX) and k not in used) == []


def test_an_operator_without_complex_rule_is_refused() -> None:
    with pytest.raises(Unsupported, match=r"complex::.*asinh"):
        lower(torch.export.export(Module(torch.asinh).eval(), (A,), strict=False), Report("test"))


class Transformed(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(4, 4, dtype=torch.complex64))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return x @ self.weight, x.abs()


def test_the_source_takes_and_gives_pairs_as_the_graph_does(tmp_path: Path) -> None:
    """This holds for a module in memory, whose complex input the user described, and for a file, which declares it
    itself.
    """
    module = Transformed().eval()
    file = tmp_path / "model.pt2"
    torch.export.save(torch.export.export(module, (A,), strict=False), file)
    described = Options(inputs=(parse_input("x:complex64[batch,4]"),))
    want = [flat(v.detach()) for v in module(A)]
    for source, options in (
        (Source("torch-module-object", None, module), described),
        (Source("torch-export", file), Options()),
    ):
        (got,) = run(source, [{"x": flat(A)}], "float32", options)
        (wide,) = run(source, [{"x": flat(A)}], "float64", options)
        for name, value in zip(("output_0", "output_1"), want, strict=True):
            np.testing.assert_allclose(got[name], value, rtol=1e-6, atol=1e-6)
            assert wide[name].dtype == np.float64
            np.testing.assert_allclose(wide[name], value, rtol=1e-5, atol=1e-5)
