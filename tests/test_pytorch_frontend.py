"""The PyTorch frontend on whole modules and files: capture, names, state, control flow, safety, errors."""

from __future__ import annotations

import json
import pickle
import re
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir
import onnxruntime
import pytest
import torch
from convert.frontends import pytorch as frontend
from convert.frontends.pytorch.rules import aten
from torch import nn

from convert.errors import BadInput, UnsafeInput, Unsupported, UsageError
from convert.options import Options, parse_input
from convert.report import Report
from convert.runners import pytorch as runner
from convert.sniff import sniff
from convert.source import Source

FACTORY = "fixtures.mnist_model:build"


def read(thing: Any, *specs: str, report: Report | None = None, **options: Any) -> ir.Model:
    """The shared graph of an object in memory or of a file."""
    source = (
        Source(sniff(thing), thing) if isinstance(thing, Path) else Source(str(frontend.claims(thing)), thing=thing)
    )
    chosen = Options(inputs=tuple(map(parse_input, specs)), **options)
    return frontend.read(source, chosen, report or Report("convert"))


def run(model: ir.Model, *arrays: Any) -> list[np.ndarray]:
    """What onnxruntime makes of the graph, given arrays in the order of its inputs."""
    session = onnxruntime.InferenceSession(ir.to_proto(model).SerializeToString())
    names = [i.name for i in session.get_inputs()]
    assert len(names) == len(arrays)
    return session.run(None, dict(zip(names, map(np.asarray, arrays), strict=True)))


def agrees(module: Callable[..., Any], model: ir.Model, *arrays: Any) -> None:
    """The graph gives what the module gives."""
    with torch.no_grad():
        want = module(*(torch.from_numpy(np.array(a)) for a in arrays))
    want = list(want.values()) if isinstance(want, dict) else list(want) if isinstance(want, (list, tuple)) else [want]
    got = run(model, *arrays)
    for g, w in zip(got, want, strict=True):
        assert g.dtype == w.numpy().dtype
        np.testing.assert_allclose(g, w.numpy(), rtol=1e-5, atol=1e-5)


def noise(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def shape_of(value: ir.Value) -> list[Any]:
    assert value.shape is not None
    return [d if isinstance(d, int) else d.value for d in value.shape]


# -- files ------------------------------------------------------------------------------------------------------------

FILES = ("mnist_cnn.pt", "mnist_cnn_state.pt", "mnist_cnn_checkpoint.pt", "mnist_cnn.safetensors", "mnist_cnn.pt2")


@pytest.mark.parametrize("name", FILES)
def test_every_file_of_the_mnist_network_gives_its_numbers(name: str, fixtures: Path) -> None:
    path = fixtures / name
    model = read(path, model=FACTORY)
    assert [shape_of(v) for v in model.graph.inputs] == [["batch", 1, 28, 28]]
    assert [(v.name, shape_of(v)) for v in model.graph.outputs] == [("output", ["batch", 10])]
    assert json.loads(model.metadata_props["convert.dims"]) == {"batch": [1, None]}
    for batch in (1, 3):
        feed = {"input": noise(batch, 1, 28, 28)}
        (want,) = runner.run(Source(sniff(path), path), [feed], precision="float32", options=Options(model=FACTORY))
        np.testing.assert_allclose(run(model, feed["input"])[0], want["output"], rtol=1e-5, atol=2e-5)


def test_what_was_assumed_is_said(fixtures: Path) -> None:
    report = Report("convert")
    read(fixtures / "mnist_cnn.pt", report=report)
    (note,) = report.notes
    assert "float32[batch,1,28,28]" in note
    assert "conv1" in note


@pytest.mark.parametrize("name", ["super_resolution.pt", "super_resolution.pt2"])
def test_a_fully_convolutional_network_takes_every_size(name: str, fixtures: Path) -> None:
    model = read(fixtures / name)
    assert shape_of(model.graph.inputs[0]) == ["batch", 1, "height", "width"]
    assert shape_of(model.graph.outputs[0]) == ["batch", 1, "3*height", "3*width"]
    module = frontend.load(Source("torch-module", fixtures / "super_resolution.pt"), Options())
    for size in ((1, 1, 5, 9), (2, 1, 31, 8)):
        agrees(module, model, noise(*size))


class Own(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(3, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.fc(x)


def test_a_pickle_of_own_classes_is_refused_and_names_them(tmp_path: Path) -> None:
    torch.save(Own(), tmp_path / "own.pt")
    with pytest.raises(UnsafeInput, match=r"Own.*execute code") as refused:
        read(tmp_path / "own.pt")
    assert "--trust" in refused.value.hint
    assert refused.value.exit_code == 5
    assert len(read(tmp_path / "own.pt", trust=True).graph.outputs) == 1


class Call:
    def __init__(self, function: Any, *args: Any) -> None:
        self.call = (function, args)

    def __reduce__(self) -> Any:
        return self.call


def test_a_pickle_that_calls_is_refused_before_it_runs(tmp_path: Path) -> None:
    mark = tmp_path / "executed"
    module = nn.Sequential(nn.Linear(2, 2))
    module.surprise = Call(open, str(mark), "w")
    torch.save(module, tmp_path / "evil.pt")
    with pytest.raises(UnsafeInput, match=r"open"):
        frontend.read(Source("torch-module", tmp_path / "evil.pt"), Options(), Report("convert"))
    assert not mark.exists()


def test_a_state_dict_that_calls_is_refused(tmp_path: Path) -> None:
    mark = tmp_path / "executed"
    torch.save({"w": torch.ones(2), "x": Call(open, str(mark), "w")}, tmp_path / "evil.pt")
    with pytest.raises(BadInput):
        frontend.read(Source("torch-state-dict", tmp_path / "evil.pt"), Options(model=FACTORY), Report("convert"))
    assert not mark.exists()


def test_weights_need_their_factory(fixtures: Path) -> None:
    with pytest.raises(UsageError, match="weights only") as error:
        read(fixtures / "mnist_cnn_state.pt")
    assert "--model" in error.value.hint


@pytest.mark.parametrize("model", ["nowhere.at_all:build", "fixtures.mnist_model:missing", "no_colon"])
def test_a_factory_that_is_not_there_is_a_usage_error(model: str, fixtures: Path) -> None:
    with pytest.raises(UsageError, match="--model"):
        read(fixtures / "mnist_cnn_state.pt", model=model)


def test_weights_of_another_network_list_what_does_not_fit(fixtures: Path, tmp_path: Path) -> None:
    state = torch.load(fixtures / "mnist_cnn_state.pt", weights_only=True)
    state["extra.weight"] = state.pop("fc2.weight")
    torch.save(state, tmp_path / "other.pt")
    with pytest.raises(BadInput, match=r"missing: fc2.weight; unexpected: extra.weight"):
        read(tmp_path / "other.pt", model=FACTORY)


def test_the_prefix_of_data_parallel_is_taken_off(fixtures: Path, tmp_path: Path) -> None:
    state = torch.load(fixtures / "mnist_cnn_state.pt", weights_only=True)
    torch.save({"state_dict": {f"module.{k}": v for k, v in state.items()}, "epoch": 3}, tmp_path / "parallel.pt")
    report = Report("convert")
    read(tmp_path / "parallel.pt", model=FACTORY, report=report)
    assert any("DataParallel" in note for note in report.notes)


def test_a_factory_may_be_a_file(fixtures: Path, tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text("from fixtures.mnist_model import build as make\n")
    read(fixtures / "mnist_cnn_state.pt", model=f"{tmp_path / 'net.py'}:make")


# -- .pt2 -------------------------------------------------------------------------------------------------------------


def rewritten(source: Path, target: Path, change: Callable[[str, bytes], bytes]) -> Path:
    """A copy of a zip archive with the content of its members changed."""
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(target, "w") as new:
        for name in old.namelist():
            new.writestr(name, change(name, old.read(name)))
    return target


@pytest.mark.parametrize("text", ["__import__('os').system('true')", "(lambda: 1)()", "[x for x in ().__class__.__bases__]",
                                  "9**9**9", "Symbol.__init__", "open('x')"])  # fmt: skip
def test_sizes_of_a_program_must_be_arithmetic(text: str, fixtures: Path, tmp_path: Path) -> None:
    def change(name: str, content: bytes) -> bytes:
        good = json.dumps("Symbol('s31', positive=True, integer=True)").encode()
        assert not name.endswith("model.json") or good in content
        return content.replace(good, json.dumps(text).encode())

    with pytest.raises(UnsafeInput, match="size"):
        read(rewritten(fixtures / "mnist_cnn.pt2", tmp_path / "evil.pt2", change))


def test_a_program_calls_operators_only(fixtures: Path, tmp_path: Path) -> None:
    path = rewritten(
        fixtures / "mnist_cnn.pt2",
        tmp_path / "evil.pt2",
        lambda name, content: content.replace(b"torch.ops.aten.relu.default", b"torch.os.system"),
    )
    with pytest.raises(UnsafeInput, match=r"torch.os.system"):
        read(path)


def test_pickles_inside_a_program_are_not_executed(fixtures: Path, tmp_path: Path) -> None:
    mark = tmp_path / "executed"
    evil = tmp_path / "evil.bin"
    torch.save((Call(open, str(mark), "w"),), evil)
    path = rewritten(
        fixtures / "mnist_cnn.pt2",
        tmp_path / "evil.pt2",
        lambda name, content: evil.read_bytes() if "sample_inputs" in name else content,
    )
    with pytest.raises(BadInput):
        read(path)
    assert not mark.exists()


def test_pickled_objects_inside_a_program_are_refused(fixtures: Path, tmp_path: Path) -> None:
    mark = tmp_path / "executed"
    config = {
        "config": {"evil": {"path_name": "opaque_obj_0", "is_param": False, "use_pickle": True, "tensor_meta": None}}
    }

    def change(name: str, content: bytes) -> bytes:
        return json.dumps(config).encode() if name.endswith("model_constants_config.json") else content

    path = rewritten(fixtures / "mnist_cnn.pt2", tmp_path / "evil.pt2", change)
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("mnist_cnn/data/constants/opaque_obj_0", pickle.dumps(Call(open, str(mark), "w")))
    with pytest.raises(UnsafeInput, match="pickled object"):
        read(path)
    assert not mark.exists()


# -- inputs and outputs -----------------------------------------------------------------------------------------------


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
    source = Source("torch-module-object", thing=Several())
    (named,) = runner.run(source, [{"a": a, "b": b}], precision="float64", options=Options())
    assert list(named) == ["sum", "parts.0", "parts.2"]
    assert named["sum"].dtype == np.float64


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
    ([nn.Conv1d(2, 4, 3), nn.AdaptiveAvgPool1d(1)], ["batch", 2, 256]),
    ([nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)], ["batch", 7, 8]),
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
        Source("torch-module-object", thing=module), [{"input": noise(2, 3)}], precision="float64", options=Options()
    )
    assert [m.training for m in module.modules()] == [True, True, False]
    assert module[0].weight.dtype == torch.float32
    assert torch.backends.mha.get_fastpath_enabled() == fast
    assert torch.get_default_dtype() == torch.float32
    agrees(module.eval(), model, noise(2, 3))


# -- weights ----------------------------------------------------------------------------------------------------------


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
    assert re.fullmatch(r"tests/test_pytorch_frontend.py:\d+", fc.metadata_props["convert.source"])
    assert nodes["0.1"].metadata_props["convert.source"].startswith("torch/nn/modules/activation.py:")


# -- writes -----------------------------------------------------------------------------------------------------------


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


@pytest.mark.parametrize("kind", [Residual, Aliased, Stale, Early])
def test_writes_in_place_are_seen_where_pytorch_sees_them(kind: type[nn.Module]) -> None:
    torch.manual_seed(0)
    module = kind()
    agrees(module, read(module, "x:float32[batch,4]"), noise(3, 4))


def test_writes_to_state_are_refused_by_name() -> None:
    class Counter(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("seen", torch.zeros(1))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.seen += 1
            return x + self.seen

    with pytest.raises(Unsupported, match="seen") as error:
        read(Counter(), "x:float32[batch,4]")
    assert "state" in error.value.hint


def test_regions_without_gradients_are_inlined() -> None:
    class Mixed(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            with torch.enable_grad():
                y = x * 2
            return y + 1

    agrees(Mixed(), read(Mixed(), "x:float32[batch,4]"), noise(3, 4))


# -- sizes ------------------------------------------------------------------------------------------------------------


class Sizes(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        b, c, h, w = x.shape
        y = x.reshape(b, c, h * w).transpose(1, 2).reshape(b * h, w, c)
        y = y.view(b, h, w, c).permute(0, 3, 1, 2)
        half = y[:, :, : h // 2, 1:]
        grid = torch.arange(w, dtype=x.dtype).expand(h, w) / max(h, w)
        padded = torch.nn.functional.pad(half, (0, 1, 0, h - h // 2))
        return padded * grid + y.mean() + torch.ones(h, 1) * h


@pytest.mark.parametrize("size", [(1, 3, 6, 5), (2, 3, 5, 9), (3, 3, 8, 8)])
def test_arithmetic_on_sizes_is_done_at_run_time(size: tuple[int, ...]) -> None:
    agrees(Sizes(), read(Sizes(), "x:float32[b,3,h,w]"), noise(*size))


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


# -- control flow -----------------------------------------------------------------------------------------------------


class Branch(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(3, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cond(x.sum() > 0, lambda x: self.fc(x), lambda x: x * 2 - 1, (x,))


class Loop(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        def again(i: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            return (i < 5) & (y.abs().max() < 10)

        def step(i: torch.Tensor, y: torch.Tensor) -> Any:
            return i + 1, y * 1.5 + x

        return torch._higher_order_ops.while_loop(again, step, (torch.zeros((), dtype=torch.int64), x.clone()))[1]


class Scanned(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.w = nn.Parameter(torch.tensor([0.5, -1.0, 2.0]))

    def forward(self, x: torch.Tensor) -> Any:
        from torch._higher_order_ops.scan import scan

        def step(carry: torch.Tensor, row: torch.Tensor) -> Any:
            new = carry * self.w + row
            return new, new.tanh()

        return scan(step, torch.zeros(3), x, dim=0)


class Mapped(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        from torch._higher_order_ops.map import map as torch_map

        return torch_map(lambda row, y: row * 2 + y, x, x.sum(0))


@pytest.mark.parametrize("kind", [Branch, Loop, Scanned, Mapped])
def test_control_flow_is_kept(kind: type[nn.Module]) -> None:
    torch.manual_seed(0)
    module = kind()
    model = read(module, "x:float32[rows,3]")
    assert {n.op_type for n in model.graph.all_nodes()} & {"If", "Loop", "Scan"}
    for seed, rows in ((0, 4), (1, 2), (2, 6)):
        for sign in (1, -1):
            agrees(module, model, sign * np.abs(noise(rows, 3, seed=seed)))


class Decides(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if x.sum() > 0:
            return x + 1
        return x - 1


def test_a_size_that_forward_ties_down_is_named() -> None:
    class Float(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x * float(x.shape[1])

    with pytest.raises(Unsupported, match=r"marked length as dynamic") as error:
        read(Float(), "x:float32[batch,length]")
    assert "--input" in error.value.hint


def test_python_control_flow_on_data_is_an_error_that_says_where() -> None:
    with pytest.raises(Unsupported, match=r"test_pytorch_frontend.py:\d+ \(if x.sum\(\) > 0:\)") as error:
        read(Decides(), "x:float32[batch,3]")
    assert "torch.cond" in error.value.hint
    assert "--trace" in error.value.hint
    assert error.value.exit_code == 4


def test_trace_converts_the_path_taken_and_says_so() -> None:
    report = Report("convert")
    model = read(Decides(), "x:float32[batch,3]", trace=True, report=report)
    assert any("--trace" in note for note in report.notes)
    agrees(Decides(), model, np.abs(noise(2, 3)))


# -- operators --------------------------------------------------------------------------------------------------------


class Unruled(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = Erratic(), Erratic()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.bernoulli(self.second(self.first(x)).sigmoid())


class Erratic(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + torch.randn_like(x)


def test_all_unsupported_operators_are_listed_with_module_and_line() -> None:
    with pytest.raises(Unsupported) as error:
        read(Unruled(), "x:float32[batch,3]")
    by_operator = {p.at.operator: p for p in error.value.problems}
    assert set(by_operator) == {"randn_like", "bernoulli"}
    assert by_operator["randn_like"].count == 2
    assert by_operator["randn_like"].at.module == "first"
    assert "test_pytorch_frontend.py:" in by_operator["randn_like"].at.source


def test_an_operator_without_a_rule_is_decomposed_and_the_others_are_not() -> None:
    class Plain(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.nn.functional.hardswish(torch.special.entr(x.abs() + 0.1))

    assert "special_entr" not in aten
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
    monkeypatch.setattr(aten, "entries", dict(aten.entries))

    @aten("convert_test::double_plus")
    def rule(g: Any, x: Any, y: float) -> Any:
        return g.Add(g.Mul(x, 2.0), y)

    agrees(Custom(), read(Custom(), "x:float32[batch,3]"), noise(2, 3))


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
    assert "random" in rows["randn"]


# -- runner -----------------------------------------------------------------------------------------------------------


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
    source = Source("torch-module-object", thing=Casts())
    (out,) = runner.run(source, [{"x": x}], precision="float64", options=Options())
    want = x.astype(np.float64) * (np.array([1, 2]) / 3) + 1 / 7 + np.arange(2) / 9
    np.testing.assert_allclose(out["output"], want, rtol=1e-15)
