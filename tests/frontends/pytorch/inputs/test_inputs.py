"""Inputs, outputs and sizes of PyTorch modules: names, dims, guesses."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir
import pytest
import torch
from convert.frontends.pytorch.inputs.examples import candidate_calls
from convert.frontends.pytorch.runner import runner
from torch import nn

import convert
from convert.errors import UsageError
from convert.outcome.report import Report
from convert.request.options import DimSpec, InputSpec, Options
from convert.request.source import Source
from tests.support.pytorch_tools import agrees, noise, read, run, shape_of

# -- inputs and outputs ------------------------------------------------------------------------------------------------


class Several(nn.Module):
    def forward(self, a: torch.Tensor, b: torch.Tensor, scale: float = 2.0) -> Any:
        return {"sum": a + b, "parts": (a * scale, None, b.shape[0])}


def test_outputs_are_named_by_their_keys_and_none_is_left_out() -> None:
    model = read(Several(), "a:float32[n,3]", "b:float32[n,3]")
    assert [v.name for v in model.graph.inputs] == ["a", "b"]
    assert [v.name for v in model.graph.outputs] == ["sum", "parts.0", "parts.2"]
    a, b = noise(4, 3), noise(4, 3, seed=1)
    total, twice, rows = run(model, a, b)
    np.testing.assert_allclose(total, a + b)
    np.testing.assert_allclose(twice, a * 2)
    assert rows == 4
    source = Source("torch-module-object", model=Several())
    (named,) = runner.run(source, [{"a": a, "b": b}], precision="float64", options=Options())
    assert list(named) == ["sum", "parts.0", "parts.2"]
    assert named["sum"].dtype == np.float64


class Sample(nn.Module):
    """diffusers' networks give an output the name of the input."""

    def forward(self, sample: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"sample": sample * 2, "other": sample + 1}


@pytest.mark.slow
@pytest.mark.parametrize("form", ["onnx", "caffe2"])
def test_an_output_of_an_input_s_name_is_another_value(form: str, tmp_path: Path) -> None:
    report = convert.convert(Sample(), form, tmp_path / f"m.{form}", inputs="sample:float32[n,3]")
    assert report.verdict is not None
    assert report.verdict.status == "PASS"
    assert report.renamed["outputs"] == {"sample": "sample_1"}
    proto = convert.to_onnx(Sample(), "sample:float32[n,3]")
    assert [v.name for v in proto.graph.output] == ["sample_1", "other"]


def test_a_tuple_is_numbered() -> None:
    class Pair(nn.Module):
        def forward(self, x: torch.Tensor) -> Any:
            return x, x + 1

    model = read(Pair(), "x:float32[batch,2]")
    assert [v.name for v in model.graph.outputs] == ["output_0", "output_1"]
    agrees(Pair(), model, noise(3, 2))


def test_variable_arguments_are_numbered() -> None:
    class Total(nn.Module):
        def forward(self, *parts: torch.Tensor) -> torch.Tensor:
            return torch.cat(parts, 1)

    model = read(Total(), "parts_0:float32[batch,2]", "parts_1:float32[batch,3]")
    assert [v.name for v in model.graph.inputs] == ["parts_0", "parts_1"]
    agrees(Total(), model, noise(4, 2), noise(4, 3))


class Pair(nn.Module):
    def forward(self, x: torch.Tensor, pair: Any, batch: Any = None) -> torch.Tensor:
        y = x + pair[0] * pair[1][0]
        return y if batch is None else y * batch["mask"] - batch["b"]


NESTED = {
    "x": torch.rand(2, 3),
    "pair": (torch.rand(2, 3), [torch.rand(2, 3)]),
    "batch": {"mask": torch.rand(2, 3), "b": torch.rand(2, 3)},
}


@pytest.mark.slow
def test_nested_inputs_are_named_by_their_places(tmp_path: Path) -> None:
    names = ["x", "pair_0", "pair_1_0", "batch_mask", "batch_b"]
    report = convert.convert(Pair(), "onnx", tmp_path / "m.onnx", inputs=NESTED)
    assert report.verdict is not None
    assert report.verdict.status == "PASS"
    assert [(t.name, t.shape) for t in report.inputs] == [(name, ("batch", 3)) for name in names]
    model = read(Pair(), *(f"{name}:float32[rows,3]" for name in names))
    arrays = [noise(5, 3, seed=i) for i in range(5)]
    x, a, b, mask, c = map(torch.from_numpy, arrays)
    want = Pair()(x, (a, [b]), {"mask": mask, "b": c})
    np.testing.assert_allclose(run(model, *arrays)[0], want.numpy(), rtol=1e-6, atol=1e-6)
    assert [v.name for v in read(Pair(), *(f"{n}:float32[2,3]" for n in names[:3])).graph.inputs] == names[:3]


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float64"])
def test_the_dtype_of_the_weights_is_that_of_a_guessed_input(dtype: str) -> None:
    torch.manual_seed(0)
    module = nn.Linear(3, 2).to(getattr(torch, dtype))
    model = read(module)
    assert model.graph.inputs[0].dtype == ir.DataType[dtype.upper().replace("FLOAT64", "DOUBLE")]
    array = noise(4, 3).astype(model.graph.inputs[0].dtype.numpy())
    source = Source("torch-module-object", model=module)
    (got,) = runner.run(source, [{"input": array}], precision="float32", options=Options())
    (wide,) = runner.run(source, [{"input": array}], precision="float64", options=Options())
    want = module(torch.from_numpy(array.astype(np.float64)).to(module.weight.dtype)).detach()
    assert got["output"].dtype == array.dtype
    torch.testing.assert_close(torch.from_numpy(got["output"].astype(np.float64)).to(want.dtype), want)
    assert wide["output"].dtype == np.float64
    exact = copy.deepcopy(module).double()(torch.from_numpy(array.astype(np.float64))).detach()
    np.testing.assert_allclose(wide["output"], exact.numpy(), rtol=1e-12)


class Scaled(nn.Module):
    def forward(self, x: torch.Tensor, shift: float = 1.0, scale: torch.Tensor | None = None) -> torch.Tensor:
        y = x + shift if scale is None else x * scale
        return y + 1 if y.sum() > 0 else y


def test_trace_records_inputs_by_name(tmp_path: Path) -> None:
    inputs = {"x": torch.rand(2, 3), "scale": torch.rand(2, 3)}
    model = read(Scaled(), examples={k: v.numpy() for k, v in inputs.items()}, trace=True)
    assert [v.name for v in model.graph.inputs] == ["x", "scale"]
    x, scale = np.abs(noise(4, 3)), np.abs(noise(4, 3, seed=1))
    np.testing.assert_allclose(run(model, x, scale)[0], x * scale + 1, rtol=1e-6)

    class Only(nn.Module):
        def forward(self, x: torch.Tensor, *, scale: torch.Tensor) -> torch.Tensor:
            return x * scale

    assert [v.name for v in read(Only(), "x:float32[n,3]", "scale:float32[n,3]").graph.inputs] == ["x", "scale"]
    with pytest.raises(UsageError, match="keyword only: scale"):
        read(Only(), "x:float32[2,3]", "scale:float32[2,3]", trace=True)


def test_bounds_and_shared_names_of_dims_are_kept() -> None:
    model = read(Several(), "a:float32[rows=3..8,3]", "b:float32[rows,3]")
    assert json.loads(model.metadata_props["convert.dims"]) == {"rows": [3, 8]}
    assert shape_of(model.graph.inputs[0]) == shape_of(model.graph.inputs[1]) == ["rows", 3]


def test_arrays_of_the_user_have_a_dynamic_batch_even_if_it_is_one() -> None:
    module = nn.Sequential(nn.Linear(3, 2), nn.ReLU())
    model = read(module, examples={0: noise(1, 3)})
    assert shape_of(model.graph.inputs[0]) == ["batch", 3]
    agrees(module, model, noise(5, 3))


def test_sizes_that_the_user_gives_are_fixed() -> None:
    model = read(nn.Linear(3, 2), "float32[4,3]")
    assert shape_of(model.graph.inputs[0]) == [4, 3]


@pytest.mark.slow
def test_a_batch_that_forward_ties_down_is_reported() -> None:
    class Fixed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc = nn.Linear(3, 2)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            rows = [self.fc(x[i]) for i in range(x.shape[0])]
            return torch.stack(rows)

    report = Report("convert")
    model = read(Fixed(), report=report)
    assert shape_of(model.graph.inputs[0]) == [1, 3]
    assert any("fixed at 1" in note for note in report.notes)


@pytest.mark.parametrize(("layers", "shape"), [
    ([nn.Conv2d(3, 4, 3), nn.Flatten(), nn.Linear(4 * 30 * 30, 2)], ["batch", 3, 32, 32]),
    ([nn.Conv2d(1, 4, 3, stride=2), nn.Flatten(), nn.Linear(4 * 47 * 47, 2)], ["batch", 1, 96, 96]),
    ([nn.Linear(5, 2)], ["batch", 5]),
    ([nn.Embedding(9, 4), nn.Linear(4, 2)], ["batch", "sequence"]),
    ([nn.Conv1d(2, 4, 3), nn.AdaptiveAvgPool1d(1)], ["batch", 2, "length"]),
    ([nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)], ["batch", "sequence", 8]),
])  # fmt: skip
def test_inputs_are_inferred_from_the_first_layers(layers: list[nn.Module], shape: list[Any]) -> None:
    torch.manual_seed(0)
    module = nn.Sequential(*layers).eval()
    model = read(module)
    assert shape_of(model.graph.inputs[0]) == shape
    sizes = [d if isinstance(d, int) else 3 for d in shape]
    feed = noise(*sizes) if model.graph.inputs[0].dtype == ir.DataType.FLOAT else np.ones(sizes, np.int64)
    agrees(module, model, feed)


def test_inputs_that_nothing_tells_have_to_be_described() -> None:
    with pytest.raises(UsageError, match="cannot be inferred"):
        read(nn.ReLU())
    with pytest.raises(UsageError, match="not described"):
        read(Several())
    with pytest.raises(UsageError, match="no input 'z'"):
        read(nn.Linear(3, 2), "z:float32[1,3]")


def test_the_module_is_left_as_it_was() -> None:
    module = nn.Sequential(nn.Linear(3, 2), nn.Dropout(0.5)).train()
    module[1].eval()
    fast = torch.backends.mha.get_fastpath_enabled()
    model = read(module)
    runner.run(
        Source("torch-module-object", model=module), [{"input": noise(2, 3)}], precision="float64", options=Options()
    )
    assert [m.training for m in module.modules()] == [True, True, False]
    assert module[0].weight.dtype == torch.float32
    assert torch.backends.mha.get_fastpath_enabled() == fast
    assert torch.get_default_dtype() == torch.float32
    agrees(module.eval(), model, noise(2, 3))


# -- sizes -------------------------------------------------------------------------------------------------------------


class Sizes(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        b, c, h, w = x.shape
        y = x.reshape(b, c, h * w).transpose(1, 2).reshape(b * h, w, c)
        y = y.view(b, h, w, c).permute(0, 3, 1, 2)
        half = y[:, :, : h // 2, 1:]
        grid = torch.arange(w, dtype=x.dtype).expand(h, w) / max(h, w)
        padded = torch.nn.functional.pad(half, (0, 1, 0, h - h // 2))
        return padded * grid + y.mean() + torch.ones(h, 1) * h


@pytest.mark.slow
@pytest.mark.parametrize("size", [(1, 3, 6, 5), (2, 3, 5, 9), (3, 3, 8, 8)])
def test_arithmetic_on_sizes_is_done_at_run_time(size: tuple[int, ...]) -> None:
    agrees(Sizes(), read(Sizes(), "x:float32[b,3,h,w]"), noise(*size))


@pytest.mark.slow
def test_windows_and_heads_reshape_with_a_dynamic_batch() -> None:
    module = nn.MultiheadAttention(8, 2, batch_first=True).eval()

    class Wrapped(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.attention = module

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.attention(x, x, x)[0]

    model = read(Wrapped(), "x:float32[batch,length,8]")
    for size in ((1, 5, 8), (3, 9, 8)):
        agrees(Wrapped(), model, noise(*size))


def test_an_example_has_the_rank_that_it_has_whatever_a_configuration_says() -> None:
    wrong = InputSpec("input", "float32", (DimSpec(name="batch"), DimSpec(name="samples")), assumed=True)
    options = Options(inputs=(wrong,), examples={"input": np.zeros((2, 1, 8), np.float32)})
    call, _ = next(candidate_calls(nn.Conv1d(1, 2, 3), options))
    assert call["input"].tensor.shape == (2, 1, 8)
    assert [dynamic_dim.name for dynamic_dim in call["input"].dynamic_dims.values()] == ["batch"]
