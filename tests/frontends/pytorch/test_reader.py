"""The PyTorch frontend on whole modules: weights, writes, operators, the runner."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir
import pytest
import torch
from convert.frontends import pytorch as frontend
from convert.frontends.pytorch.rules import torch_op
from convert.frontends.pytorch.runner import runner
from torch import nn

from convert.errors import Unsupported
from convert.files.sniff import sniff
from convert.outcome.report import Report
from convert.request.options import Options
from convert.request.source import Source
from tests.support.pytorch_tools import FACTORY, FILES, Calling, Own, agrees, noise, read

# -- weights -----------------------------------------------------------------------------------------------------------


def test_weights_are_not_copied_and_shared_ones_stored_once() -> None:
    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed = nn.Embedding(11, 4)
            self.head = nn.Linear(4, 11, bias=False)
            self.head.weight = self.embed.weight

        def forward(self, ids: torch.Tensor) -> torch.Tensor:
            return self.head(self.embed(ids).mean(1))

    module = Tied()
    model = read(module)
    (weight,) = [v for v in model.graph.initializers.values() if v.const_value is not None and v.const_value.size == 44]
    assert weight.const_value is not None
    assert np.shares_memory(weight.const_value.numpy(), module.embed.weight.detach().numpy())
    agrees(module, model, np.array([[1, 2, 3]]))


def test_bfloat16_weights_keep_their_bytes() -> None:
    module = nn.Linear(3, 2).bfloat16()
    model = read(module, "input:bfloat16[4,3]")
    weight = model.graph.initializers["weight"].const_value
    assert weight is not None
    assert weight.dtype == ir.DataType.BFLOAT16
    assert weight.tobytes() == module.weight.detach().view(torch.int16).numpy().tobytes()


def test_nodes_carry_module_path_and_source_line() -> None:
    module = nn.Sequential(nn.Sequential(nn.Linear(4, 3), nn.Tanh()), Own())
    model = read(module, "input:float32[batch,4]")
    nodes = {n.metadata_props["convert.module"]: n for n in model.graph}
    assert set(nodes) == {"0.0", "0.1", "1.fc"}
    fc = nodes["1.fc"]
    assert fc.name == "1.fc"
    assert fc.metadata_props["convert.operator"] == "linear"
    assert re.fullmatch(r"tests/support/pytorch_tools.py:\d+", fc.metadata_props["convert.source"])
    assert nodes["0.1"].metadata_props["convert.source"].startswith("torch/nn/modules/activation.py:")


# -- writes ------------------------------------------------------------------------------------------------------------


class Residual(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.a(x).relu_()
        z = self.b(y)
        z += y
        return z.clamp_(max=1.0).mul_(2)


class Aliased(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x * 1.0
        y[:, 1:3] += 5
        y[0] = -1
        view = y.view(-1)
        view.mul_(2)
        flat = torch.zeros_like(x)
        flat[:, ::2] = y[:, ::2]
        return y + flat


class Stale(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x + 1
        row = y[0]
        y.add_(10)
        return row + y.sum()


class Early(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x + 1
        same = torch.nn.functional.dropout(y, 0.5, training=False)
        same.neg_()
        return y


def same_dtype(x: torch.Tensor) -> torch.Tensor:
    y = x * 2
    y.type_as(x).add_(1)
    y.type_as(x.long()).add_(1)
    return y


def more_dims(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    y, row, number = x * 2, x[0] * 2, x[0, 0] * 2
    for v in (y, row, number):
        for more in (torch.atleast_1d, torch.atleast_2d, torch.atleast_3d):
            more(v)[0] += 1
    torch.atleast_3d([y, row])[1].mul_(3)
    return y, row, number


def permuted(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    y, square = x * 2, x[:2, :2] * 2
    torch.einsum("ij->ji", y)[0] += 1
    torch.einsum("ba", y)[0] += 1
    torch.einsum("ii->i", square).add_(1)
    torch.einsum("ij->i", y).add_(1)
    return y, square


def broadcast(x: torch.Tensor) -> torch.Tensor:
    y = x * 2
    a, _ = torch.broadcast_tensors(y, x[0])
    a += 1
    return y


@pytest.mark.parametrize("function", [same_dtype, more_dims, permuted, broadcast])
def test_writes_to_what_hides_that_it_is_an_argument(function: Callable[..., Any]) -> None:
    module = Calling(function)
    agrees(module, read(module, "float32[batch,4]", examples={0: noise(3, 4)}), noise(5, 4))


@pytest.mark.parametrize("kind", [Residual, Aliased, Stale, Early])
def test_writes_in_place_are_seen_where_pytorch_sees_them(kind: type[nn.Module]) -> None:
    torch.manual_seed(0)
    module = kind()
    agrees(module, read(module, "x:float32[batch,4]"), noise(3, 4))


def test_regions_without_gradients_are_inlined() -> None:
    class Mixed(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            with torch.enable_grad():
                y = x * 2
            return y + 1

    agrees(Mixed(), read(Mixed(), "x:float32[batch,4]"), noise(3, 4))


# -- operators ---------------------------------------------------------------------------------------------------------


class Unruled(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = Erratic(), Erratic()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch._standard_gamma(self.second(self.first(x)))


class Erratic(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + torch.poisson(x)


def test_all_unsupported_operators_are_listed_with_module_and_line() -> None:
    with pytest.raises(Unsupported) as error:
        read(Unruled(), "x:float32[2,3]")  # up to 2.12 PyTorch has no shapes with other sizes for the second operator
    by_operator = {p.at.operator: p for p in error.value.problems}
    assert set(by_operator) == {"poisson", "_standard_gamma"}
    assert by_operator["poisson"].count == 2
    assert by_operator["poisson"].at.module == "first"
    assert "test_reader.py:" in by_operator["poisson"].at.source


def test_an_operator_without_a_rule_is_decomposed_and_the_others_are_not() -> None:
    class Plain(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.nn.functional.hardswish(torch.special.entr(x.abs() + 0.1))

    assert "special_entr" not in torch_op
    model = read(Plain(), "x:float32[batch,3]")
    assert "HardSwish" in {n.op_type for n in model.graph}
    agrees(Plain(), model, noise(2, 3))


@torch.library.custom_op("convert_test::double_plus", mutates_args=())
def double_plus(x: torch.Tensor, y: float) -> torch.Tensor:
    return x * 2 + y


@double_plus.register_fake
def _(x: torch.Tensor, y: float) -> torch.Tensor:
    return torch.empty_like(x)


def test_a_rule_of_the_user_lowers_a_custom_operator(monkeypatch: pytest.MonkeyPatch) -> None:
    class Custom(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.ops.convert_test.double_plus(x, 1.5)

    with pytest.raises(Unsupported, match="convert_test::double_plus"):
        read(Custom(), "x:float32[batch,3]")
    monkeypatch.setattr(torch_op, "entries", dict(torch_op.entries))

    @torch_op("convert_test::double_plus")
    def rule(g: Any, x: Any, y: float) -> Any:
        return g.Add(g.Mul(x, 2.0), y)

    agrees(Custom(), read(Custom(), "x:float32[batch,3]"), noise(2, 3))


@torch.library.custom_op("convert_test::scaled_rows", mutates_args=())
def scaled_rows(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return x * y[:, None]


@scaled_rows.register_fake
def _(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    torch._check(x.size(0) == y.size(0), lambda: "one number for each row")
    return torch.empty_like(x)


def test_what_the_shapes_of_a_custom_operator_require_is_no_decision(monkeypatch: pytest.MonkeyPatch) -> None:
    """torchvision's nms requires as many scores as boxes: it was captured twice, for one box and for more."""

    class Custom(nn.Module):
        def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            return torch.ops.convert_test.scaled_rows(x, y)

    monkeypatch.setattr(torch_op, "entries", dict(torch_op.entries))

    @torch_op("convert_test::scaled_rows")
    def rule(g: Any, x: Any, y: Any) -> Any:
        return g.Mul(x, g.Unsqueeze(y, [1]))

    report = Report("test")
    model = read(Custom(), "x:float32[n,3]", "y:float32[n]", report=report)
    assert [node.op_type for node in model.graph] == ["Unsqueeze", "Mul"]
    assert report.notes == []
    for rows in (1, 4):
        agrees(Custom(), model, noise(rows, 3), noise(rows))


@pytest.mark.parametrize("module", [
    nn.LSTM(3, 4, num_layers=2, bidirectional=True), nn.GRU(3, 4, batch_first=True), nn.RNN(3, 4, nonlinearity="relu"),
])  # fmt: skip
def test_recurrent_layers(module: nn.Module) -> None:
    class Last(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.rnn = module

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.rnn(x)[0]

    model = read(Last(), "x:float32[5,2,3]")
    agrees(Last(), model, noise(5, 2, 3))


def test_operators_lists_rules_and_gaps() -> None:
    rows = {row.name: row.gap for row in frontend.operators()}
    assert rows["conv2d"] == ""
    assert rows["poisson"]


# -- runner ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [*FILES, "mnist_cnn_traced.pt", "mnist_cnn_scripted.pt"])
def test_float64_is_the_network_widened(name: str, fixtures: Path) -> None:
    path = fixtures / name
    feed = {"input": noise(2, 1, 28, 28)}
    options = Options(model=FACTORY)
    (single,) = runner.run(Source(sniff(path), path), [feed], precision="float32", options=options)
    (double,) = runner.run(Source(sniff(path), path), [feed], precision="float64", options=options)
    module = frontend.load(Source("torch-module", fixtures / "mnist_cnn.pt"), options).double()
    want = module(torch.from_numpy(feed["input"]).double()).detach().numpy()
    assert double["output"].dtype == np.float64
    np.testing.assert_allclose(double["output"], want, rtol=1e-12)
    np.testing.assert_allclose(single["output"], want, rtol=1e-4, atol=1e-4)


def test_float64_reaches_what_forward_casts_and_makes() -> None:
    class Casts(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            third = torch.tensor([1, 2]) / 3
            return x.to(torch.float32) * third + torch.ones(2) / 7 + torch.arange(2, dtype=torch.float32) / 9

    x = noise(3, 2)
    source = Source("torch-module-object", model=Casts())
    (out,) = runner.run(source, [{"x": x}], precision="float64", options=Options())
    want = x.astype(np.float64) * (np.array([1, 2]) / 3) + 1 / 7 + np.arange(2) / 9
    np.testing.assert_allclose(out["output"], want, rtol=1e-15)
