"""TorchScript programs whose lists, dicts, objects and numbers were once converted with wrong contents."""

# ruff: noqa: UP006, UP035  (the language that is tested is no Python)
from __future__ import annotations

from typing import Any, Dict, List

import onnx_ir as ir
import pytest
import torch
from onnx.reference import ReferenceEvaluator
from torch import Tensor, nn

from convert.errors import Unsupported
from tests.support.torchscript_tools import agree, converted, scripted

X = (torch.arange(12.0).reshape(3, 4) - 5, 3.5 - torch.arange(20.0).reshape(5, 4), torch.arange(4.0).reshape(1, 4))


@torch.jit.script
class Point:
    def __init__(self, a: Tensor, b: Tensor):
        self.a = a
        self.b = b

    def total(self) -> Tensor:
        return self.a + self.b * 10


def objects_that_data_choose(x):
    p, q = Point(x, x * 2), Point(x + 1, x * 3)
    if bool(x.sum() > 0):
        p, q = Point(x + 2, x * 5), Point(x - 2, x * 7)
    p.a, q.a = x * 11, x * 13
    r = p if bool(x.max() > 3) else q
    return r.total()


def lists_that_are_replaced(x):
    outs = [x]
    if bool(x.sum() > 0):
        outs = [x * 2]
    outs.append(x * 3)
    stack, seen = [0], torch.jit.annotate(List[int], [])
    while len(stack) > 0:
        k = stack.pop()
        if k in seen or k >= x.size(0):
            continue
        seen.append(k)
        stack.append(k * 2 + 1)
        stack.append(k + 2)
    return torch.stack(outs), torch.tensor(seen)


def dicts_of_pairs(x):
    d = dict([(0, x), (1, x * 2)])  # noqa: C406
    e = dict([("a", x), ("b", x * 3)])  # noqa: C406
    f = dict(e)
    f["a"] = x * 5
    e.clear()
    g: Dict[str, Tensor] = dict()  # noqa: C408
    return d[0] + d[1] * 3 + f["b"] + f["a"] * (len(e) + len(g) + 1)


def sorted_tuples(x):
    pairs = [(2, 1.5), (0, 3.0), (0, -2.0)]
    named = [("b", (1, 2)), ("a", (0, 5))]
    for i, f in sorted(pairs):
        x = x * f + i
    named.sort(reverse=True)
    for name, (i, j) in named:
        x = x * (i + 2) + len(name) - j
    return x


def tuple_at_a_place(x):
    t = (1.5, 2.5, -3.0)
    out: List[float] = []
    for i in range(x.size(0)):
        out.append(t[i % 3])
    return torch.tensor(out)


def rests(x):
    s, n = float(x.sum()) / 3, int(x.sum())
    a, b = divmod(s, 0.4)
    c, d = divmod(n, -3)
    return [s % 0.1, s % -0.7, 1.0 % 0.1, (-s) % 0.7, a, b], c, d


def numbers_of_tensors(x):
    s = float(x[0, 0]) / 3
    wide = torch.tensor([0.1, 16777217.0, s], dtype=torch.float64)
    return wide, torch.tensor(s, dtype=torch.float64), torch.tensor([16777217, 3], dtype=torch.float64)


def equal_tensors(x):
    y = x + 1
    z = y if torch.equal(x, x) else x
    n = 1 if torch.equal(y, x) else 2
    m = 1 if torch.equal(x.abs(), x) else 2
    return z * n, m, torch.equal(x, x[0]), torch.equal(torch.ones(2), torch.ones(2))


class Complex(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("w", torch.complex(torch.arange(4.0), torch.ones(4)))

    def forward(self, x):
        w = torch.complex(x, x * 2) * (1 + 2j) * self.w
        turned = torch.fft.fft(w)
        v = turned.clone()
        v *= 2
        r = torch.view_as_complex(torch.stack([x, -x], -1))
        sizes = w.size(0) + w.numel() + w.dim()
        return w.real, turned.abs(), torch.view_as_real(v), (w + r).sum(0).imag.neg(), sizes, torch.fft.irfft(v[:, :3])


class Spectrum(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("window", torch.hann_window(8))

    def forward(self, x):
        s = torch.stft(torch.cat([x, x, -x], 1).repeat(1, 3), 16, 4, 8, self.window, return_complex=True)
        return s.real.pow(2) + s.imag.pow(2), torch.view_as_real(s[:, 1])


PROGRAMS: dict[Any, list[str]] = {
    objects_that_data_choose: ["x:float32[n,4]"],
    lists_that_are_replaced: ["x:float32[n,4]"],
    dicts_of_pairs: ["x:float32[n,4]"],
    sorted_tuples: ["x:float32[n,4]"],
    tuple_at_a_place: ["x:float32[n,4]"],
    rests: ["x:float32[n,4]"],
    numbers_of_tensors: ["x:float32[n,4]"],
    equal_tensors: ["x:float32[n,4]"],
    Complex: ["x:float32[n,4]"],
    Spectrum: ["x:float32[n,4]"],
}


class Switched(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 3)

    def forward(self, x: Tensor, narrow: bool = True):
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=narrow):
            return self.layer(x)


def test_autocast_that_pytorch_does_not_run_is_refused() -> None:
    module = scripted(Switched())
    with pytest.raises(RuntimeError, match="Autocast _enabled argument must be a constant"):
        module(X[0])
    with pytest.raises(Unsupported, match="Autocast _enabled argument must be a constant"):
        converted(module, "x:float32[3,4]")


class Narrowed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 3)

    def forward(self, x):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y = self.layer(x)
            with torch.autocast("cpu", enabled=False):
                z = self.layer(x)
            s = y + z
        return y, z, s


def test_autocast_narrows_what_it_narrows_in_pytorch() -> None:
    """onnxruntime has no bfloat16 product on the CPU, so ONNX's evaluator runs it."""
    module = scripted(Narrowed())
    proto = ir.to_proto(converted(module, "x:float32[3,4]"))
    got = ReferenceEvaluator(proto).run(None, {"x": X[0].numpy()})
    with torch.no_grad():
        wanted = module(X[0])
    assert [v.dtype for v in wanted] == [torch.bfloat16, torch.float32, torch.float32]
    assert [o.type.tensor_type.elem_type for o in proto.graph.output] == [16, 1, 1]
    for value, result, bound in zip(wanted, got, (2.0**-7, 1e-6, 2.0**-7), strict=True):  # the sum has a half in it
        torch.testing.assert_close(torch.tensor(result.astype("float32")), value.float(), rtol=bound, atol=bound)


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_program(program: Any) -> None:
    module = scripted(program() if isinstance(program, type) else program)
    agree(module, converted(module, *PROGRAMS[program]), *((x,) for x in X))
