"""Quantized modules of torch.ao, in memory and as TorchScript, and exported quantized programs."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir
import onnxruntime
import pytest
import torch
import torch.ao.quantization as quantization
import torch.nn.functional as F
from convert.frontends.pytorch.runner.run import run as execute
from torch import nn
from torch.ao.quantization.quantize_fx import convert_fx, prepare_fx, prepare_qat_fx
from torch.utils import _pytree as pytree

import convert.api
from convert.errors import Unsupported
from convert.request.options import Options
from convert.request.source import Source
from tests.support.pytorch_tools import read

pytestmark = pytest.mark.filterwarnings("ignore")
ENGINES = [e for e in ("x86", "qnnpack") if e in torch.backends.quantized.supported_engines]


@pytest.fixture(autouse=True)
def engine() -> Any:
    """Start each test with this machine's engine, and restore it afterwards."""
    before = torch.backends.quantized.engine
    yield
    torch.backends.quantized.engine = before


def literally(model: ir.Model, *arrays: np.ndarray) -> list[np.ndarray]:
    """Run the graph literally: in onnxruntime without its integer kernels, which round halves differently."""
    options = onnxruntime.SessionOptions()
    options.add_session_config_entry("session.disable_quant_qdq", "1")
    session = onnxruntime.InferenceSession(ir.to_proto(model).SerializeToString(), options)
    return session.run(None, dict(zip([i.name for i in session.get_inputs()], arrays, strict=True)))


def drawn(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def same(module: Any, *arrays: np.ndarray, specs: list[str], step: float = 0.0, often: float = 0.001) -> ir.Model:
    """Assert that the graph gives PyTorch's numbers; with `step`, up to one step in a share `often` of the elements."""
    model = read(module, *specs)
    with torch.no_grad():
        want = module(*map(torch.from_numpy, arrays))
    want = pytree.tree_leaves(want)
    for got, tensor in zip(literally(model, *arrays), want, strict=True):
        assert got.dtype == tensor.numpy().dtype
        off = np.abs(got.astype(np.float64) - tensor.numpy())
        small = 1e-5 * np.abs(tensor.numpy()).max()
        assert off.max() <= small + 1.01 * step
        assert np.mean(off > small) <= (often if step else 0.0)
    return model


def kinds(model: ir.Model) -> list[str]:
    return [node.op_type for node in model.graph]


# -- eager and FX -----------------------------------------------------------------------------------------------------


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.quant, self.dequant = quantization.QuantStub(), quantization.DeQuantStub()
        self.conv, self.bn, self.relu = nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU()
        self.second = nn.Conv2d(8, 8, 3, padding=1, groups=2)
        self.pool, self.fc = nn.AdaptiveAvgPool2d(2), nn.Linear(32, 10)
        self.sum = nn.quantized.FloatFunctional()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.relu(self.bn(self.conv(self.quant(x))))
        x = self.pool(self.sum.add(x, self.second(x)))
        return self.dequant(self.fc(torch.flatten(x, 1)))


def eager(name: str) -> nn.Module:
    torch.manual_seed(0)
    torch.backends.quantized.engine = name
    module = quantization.fuse_modules(Net().eval(), [["conv", "bn", "relu"]])
    module.qconfig = quantization.get_default_qconfig(name)
    quantization.prepare(module, inplace=True)
    for _ in range(3):
        module(torch.randn(8, 3, 16, 16))
    return quantization.convert(module)


@pytest.mark.parametrize("name", ENGINES)
def test_eager_modules(name: str) -> None:
    module = eager(name)
    # QNNPACK rounds biases to integers when a layer is packed, which changes results that are nearly half way.
    often = 0.15 if name == "qnnpack" else 0.001
    specs = ["x:float32[batch,3,16,16]"]
    model = same(module, drawn(9, 3, 16, 16), specs=specs, step=module.fc.scale, often=often)
    assert [str(v.dtype) for v in model.graph.initializers.values()].count("INT8") >= 3


class Mixed(nn.Module):
    """The layers and functions that FX quantizes."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.up, self.two = nn.Conv1d(3, 8, 3), nn.ConvTranspose2d(4, 4, 2, 2), nn.Conv2d(4, 4, 3, bias=False)
        self.three, self.fc, self.norm, self.bn = (
            nn.Conv3d(4, 2, 2),
            nn.Linear(8, 6),
            nn.LayerNorm(6),
            nn.BatchNorm2d(4),
        )
        self.leaky, self.elu, self.group = nn.LeakyReLU(0.1), nn.ELU(), nn.GroupNorm(2, 8)

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
        a = self.norm(self.fc(F.hardswish(self.group(self.one(x))).mean(-1)))
        a = torch.sigmoid(a) * torch.tanh(a) + F.softmax(a, -1)
        b = F.avg_pool2d(self.leaky(self.bn(self.up(self.two(y)))), 2)
        b = F.interpolate(F.max_pool2d(self.elu(b), 2), scale_factor=2.0, mode="nearest")
        c = F.hardtanh(torch.cat([b, b + 1], 1)).permute(0, 2, 3, 1).flatten(1)
        d = F.relu(self.three(y.unsqueeze(2).repeat(1, 1, 3, 1, 1)))
        return a, c * 2, F.relu6(c), d


def fx(module: nn.Module, *examples: torch.Tensor) -> nn.Module:
    prepared = prepare_fx(module.eval(), quantization.get_default_qconfig_mapping("x86"), examples)
    for _ in range(3):
        prepared(*(torch.randn_like(e) for e in examples))
    return convert_fx(prepared)


SPECS = ["x:float32[batch,3,10]", "y:float32[batch,4,12,12]"]


@pytest.mark.slow
def test_fx_modules() -> None:
    torch.manual_seed(0)
    module = fx(Mixed(), torch.randn(4, 3, 10), torch.randn(4, 4, 12, 12))
    same(module, drawn(5, 3, 10), drawn(5, 4, 12, 12, seed=1), specs=SPECS, step=0.05)


class Linears(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(8, 16), nn.Linear(16, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.b(torch.relu(self.a(x)))


@pytest.mark.parametrize("dtype", [torch.qint8, torch.float16])
@pytest.mark.parametrize("size", [1.0, 1e-3, 0.0])
def test_dynamic_modules(dtype: torch.dtype, size: float) -> None:
    """Ranges that are very small or empty get a scale of their own."""
    torch.manual_seed(0)
    module = quantization.quantize_dynamic(Linears().eval(), {nn.Linear}, dtype=dtype)
    same(module, drawn(6, 8) * np.float32(size), specs=["x:float32[batch,8]"])


@pytest.mark.parametrize(
    "layer",
    [
        nn.LSTM(4, 3, num_layers=2, batch_first=True),
        nn.GRU(4, 3, bidirectional=True),
        nn.LSTMCell(4, 3),
        nn.GRUCell(4, 3),
        nn.RNNCell(4, 3, nonlinearity="relu"),
    ],
    ids=lambda layer: type(layer).__name__,
)
def test_dynamic_recurrent_layers(layer: nn.Module) -> None:
    """The input of a layer is quantized as a whole, each state by its own range."""
    whole = isinstance(layer, nn.RNNBase)
    module = quantization.quantize_dynamic(nn.Sequential(layer).eval(), {type(layer)}, dtype=torch.qint8)
    same(module, drawn(2, 5, 4) if whole else drawn(5, 4), specs=[f"input:float32[batch,{'5,' * whole}4]"])


def test_dynamic_recurrent_layers_in_halves() -> None:
    module = quantization.quantize_dynamic(nn.Sequential(nn.LSTM(4, 3)).eval(), {nn.LSTM}, dtype=torch.float16)
    same(module, drawn(2, 5, 4), specs=["input:float32[batch,5,4]"])


@pytest.mark.slow
def test_fake_quantization() -> None:
    """A network with fake quantization, as it is after quantization-aware training and before it is quantized."""
    torch.manual_seed(0)
    module = prepare_qat_fx(
        Linears().train(), quantization.get_default_qat_qconfig_mapping("x86"), (torch.randn(2, 8),)
    )
    module(torch.randn(64, 8))
    module.eval()
    with pytest.raises(Unsupported, match="observer"):
        read(module, "x:float32[batch,8]")
    module.apply(quantization.disable_observer)
    model = same(module, drawn(6, 8), specs=["x:float32[batch,8]"], step=0.05)
    assert kinds(model).count("QuantizeLinear") >= 3


# -- what TorchScript calls -------------------------------------------------------------------------------------------


def arithmetic(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
    a, b = torch.quantize_per_tensor(x, 0.05, 10, torch.quint8), torch.quantize_per_tensor(y, 0.031, -3, torch.qint8)
    c = torch.quantize_per_tensor(y, 0.04, 117, torch.quint8)
    sums = [torch.ops.quantized.add(a, c, 0.07, 90), torch.ops.quantized.add_relu(a, c, 0.07, 90)]
    products = [torch.ops.quantized.mul(a, c, 0.11, 99), torch.ops.quantized.mul_relu(a, c, 0.11, 99)]
    shifted = [torch.ops.quantized.add_scalar(a, 1.3), torch.ops.quantized.mul_scalar(a, -0.7)]
    shifted += [torch.ops.quantized.add_scalar_relu(c, -0.9), torch.ops.quantized.mul_scalar_relu(c, 0.7)]
    joined = torch.ops.quantized.cat([a, c], 1, 0.09, 60)
    everything = [t.dequantize() for t in sums + products + shifted]
    return (*everything, joined.int_repr(), b.int_repr(), (a.q_scale() * a.q_zero_point()) * b.dequantize())


def looked_at(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    q = torch.quantize_per_tensor(x, 0.05, 33, torch.quint8)
    channels = torch.quantize_per_channel(x, torch.tensor([0.1, 0.2, 0.3]), torch.tensor([0, 5, -7]), 1, torch.qint8)
    again = torch._make_per_tensor_quantized_tensor(q.int_repr(), 0.1, 3)
    picked = q[:, 1:].transpose(1, 2).relu().dequantize()
    scaled = channels.q_per_channel_scales() * channels.q_per_channel_zero_points()
    return again.dequantize(), picked, channels.dequantize(), channels.int_repr(), scaled, q.clamp(-0.5, 0.5).int_repr()


def functions(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    q = torch.quantize_per_tensor(x, 0.05, 33, torch.quint8)
    s = torch.quantize_per_tensor(x, 0.05, -3, torch.qint8)
    found = [torch.sigmoid(q), torch.sigmoid(s), torch.tanh(q), torch.tanh(s), F.hardsigmoid(q)]
    found += [torch.ops.quantized.hardswish(q, 0.0417, 20), torch.ops.quantized.leaky_relu(q, 0.213, False, 0.0417, 20)]
    found += [torch.ops.quantized.elu(q, 0.0417, 20), torch.ops.quantized.celu(q, 0.0417, 20, 1.5)]
    found += [torch.ops.quantized.sigmoid(q, 0.004, 1), torch.ops.quantized.softmax(q, -1, 0.004, 0)]
    found += [torch.ops.quantized.relu6(q), torch.ops.quantized.clamp(q, -1.0, 1.0), F.leaky_relu(q, 0.307)]
    found += [torch.ops.quantized.prelu(q, q[0, 0, :1].clone(), 0.05, 30), torch.ops.quantized.dropout(q, 0.05, 33)]
    return tuple([t.int_repr() for t in found])


def averages(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Return averages in which the mean of integers lies half way between two steps, for any zero point."""
    pictures = x.reshape(4, 32, 4, 4)
    odd, even = (torch.quantize_per_tensor(pictures, 0.05, zero, torch.quint8) for zero in (33, 34))
    # All releases except 2.13 round channels-last values, such as a convolution returns, differently.
    means = [F.adaptive_avg_pool2d(t.contiguous(memory_format=torch.channels_last), 2) for t in (odd, even)]
    means += [F.interpolate(t, scale_factor=2.0, mode="bilinear", align_corners=False) for t in (odd, even)]
    # PyTorch 2.13 without AVX2 rounds halves of channels-last pools before it adds the zero point, so odd zero points
    # differ.
    pooled = (odd, even) if torch.backends.cpu.get_cpu_capability().startswith("AVX") else (even,)
    means += [F.avg_pool2d(t.contiguous(memory_format=torch.channels_last), 2, 2) for t in pooled]
    return tuple([t.int_repr() for t in means])


def dynamic(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    ranges = [x, x * 1e-3, x + 7, x * 0, -x.abs()]
    found = [torch.quantize_per_tensor_dynamic(t, torch.quint8, r) for t in ranges for r in (False, True)]
    return tuple([t.dequantize() for t in found])


@pytest.mark.parametrize("function", [arithmetic, looked_at, functions, averages, dynamic])
def test_operators_on_quantized_tensors(function: Any) -> None:
    """The integers equal PyTorch's exactly, floats up to rounding."""
    count, rows = (2, 3) if function is arithmetic else (1, 64 if function is averages else 3)
    arrays = [drawn(4, rows, 8, seed=i) for i in range(count)]
    tensors = tuple(map(torch.from_numpy, arrays))
    program = torch.jit.trace(function, tensors)
    model = read(program, *(f"{n}:float32[4,{rows},8]" for n in "xy"[:count]))
    for got, want in zip(literally(model, *arrays), function(*tensors), strict=True):
        assert got.dtype == want.numpy().dtype
        if want.is_floating_point():
            np.testing.assert_allclose(got, want.numpy(), rtol=1e-5, atol=1e-6)
        else:
            assert np.count_nonzero(got != want.numpy()) == 0


def test_missing_operators_on_quantized_tensors_are_listed() -> None:
    class Odd(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            q = torch.quantize_per_tensor(x, 0.05, 3, torch.quint8)
            return torch.flip(q.dequantize(), [0]) + torch.isnan(q.unsqueeze(0)).dequantize()

    with pytest.raises(Unsupported, match="quantized"):
        read(torch.jit.script(Odd()), "x:float32[4]")


# -- verification -----------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("to", ["onnx", pytest.param("tf", marks=pytest.mark.long)])
def test_quantized_archives_are_verified(tmp_path: Path, to: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.jit.script(eager(ENGINES[0])).save(str(tmp_path / "m.pt"))
    report = convert.api.convert(tmp_path / "m.pt", to, tmp_path / f"m.{to}", inputs="x:float32[batch,3,16,16]")
    assert report.verdict is not None
    assert report.verdict.status == "PASS"
    assert report.verdict.reference == "the source in float64"


@pytest.mark.slow
def test_the_float64_reference_is_what_the_kernels_compute() -> None:
    """The float64 reference differs from PyTorch's kernels by rounding only, rarely by a whole step."""
    torch.manual_seed(0)
    module = fx(Mixed(), torch.randn(4, 3, 10), torch.randn(4, 4, 12, 12))
    feeds = [{"x": drawn(5, 3, 10), "y": drawn(5, 4, 12, 12, seed=1)}]
    source = Source("torch-module-object", model=module)
    (single,), (double,) = (execute(source, feeds, p, Options()) for p in ("float32", "float64"))
    for name, array in single.items():
        off = np.abs(double[name] - array)
        assert double[name].dtype == np.float64
        assert np.mean(off > 1e-5 * np.abs(array).max()) <= 0.001


# -- exported programs ------------------------------------------------------------------------------------------------


def _decomposed(x: torch.Tensor, weight: torch.Tensor, scales: torch.Tensor, zeros: torch.Tensor) -> torch.Tensor:
    """A convolution as `convert_pt2e` writes it."""
    from torch.ao.quantization.fx import _decomposed  # noqa: F401  (registers the operators)

    ops = torch.ops.quantized_decomposed
    x = ops.dequantize_per_tensor(
        ops.quantize_per_tensor(x, 0.05, 3, 0, 255, torch.uint8), 0.05, 3, 0, 255, torch.uint8
    )
    w = ops.dequantize_per_channel(weight, scales, zeros, 0, -127, 127, torch.int8)
    y = F.relu(F.conv2d(x, w, padding=1))
    return ops.dequantize_per_tensor(
        ops.quantize_per_tensor(y, 0.1, -4, -128, 127, torch.int8), 0.1, -4, -128, 127, torch.int8
    )


class Exported(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(0)
        self.register_buffer("weight", torch.randint(-127, 128, (4, 3, 3, 3), dtype=torch.int8, generator=generator))
        self.register_buffer("scales", torch.rand(4, generator=generator) * 0.01 + 0.001)
        self.register_buffer("zeros", torch.zeros(4, dtype=torch.int64))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return _decomposed(x, self.weight, self.scales, self.zeros)


@pytest.mark.slow
def test_exported_programs_keep_their_integers(tmp_path: Path) -> None:
    """This also holds for a file read by a process that has not registered PT2E's operators."""
    program = torch.export.export(Exported(), (torch.randn(2, 3, 8, 8),), dynamic_shapes=({0: torch.export.Dim.AUTO},))
    torch.export.save(program, tmp_path / "m.pt2")
    report = convert.api.convert(tmp_path / "m.pt2", "onnx", tmp_path / "m.onnx")
    assert report.verdict is not None
    assert report.verdict.status == "PASS"
    model = ir.load(tmp_path / "m.onnx")
    assert kinds(model).count("QuantizeLinear") == 2
    weights = [v for v in model.graph.initializers.values() if v.shape is not None and len(v.shape) == 4]
    assert [v.dtype for v in weights] == [ir.DataType.INT8]
