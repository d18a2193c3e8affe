"""Buffers that forward changes: inputs and outputs of the graph, which repeated calls pass on."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from convert.frontends import pytorch as frontend
from convert.frontends.pytorch.runner import runner
from torch import nn

import convert.api
from convert.errors import Unsupported
from convert.outcome.report import Report
from convert.request.options import Options
from convert.request.source import Source
from tests.support.pytorch_tools import noise, read, run


class Counter(nn.Module):
    """Writes in place to a tensor and a number of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("total", torch.zeros(3))
        self.register_buffer("calls", torch.tensor(0))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        self.total.add_(x.sum(0))
        return x + self.total / self.calls


class Recent(nn.Module):
    """Replaces its buffer, in a submodule, by a new one."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Module()
        self.inner.register_buffer("last", torch.ones(2, 3))

    def forward(self, x: torch.Tensor) -> Any:
        before = self.inner.last
        self.inner.last = torch.cat([before[1:], x.mean(0, keepdim=True)])
        return {"moved": x - before.mean(0), "kept": before}


class Assigned(nn.Module):
    """Assigns to the data of its buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mean", torch.ones(1, 3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        before = self.mean.clone()
        self.mean.data = x.mean(0, keepdim=True)
        return x - before


class Cache(nn.Module):
    """Keys and values of earlier steps, written at the step's position."""

    def __init__(self) -> None:
        super().__init__()
        self.project = nn.Linear(4, 8)
        self.register_buffer("keys", torch.zeros(6, 4))
        self.register_buffer("values", torch.zeros(6, 4))

    def forward(self, x: torch.Tensor, position: torch.Tensor) -> torch.Tensor:
        k, v = self.project(x).chunk(2, -1)
        self.keys.index_copy_(0, position, k)
        self.values.index_copy_(0, position, v)
        return torch.softmax(x @ self.keys.T, -1) @ self.values


def calls(kind: type[nn.Module]) -> list[tuple[np.ndarray, ...]]:
    """Inputs of three calls in a row."""
    if kind is Cache:
        return [(noise(1, 4, seed=i), np.array([i])) for i in range(3)]
    return [(noise(rows, 3, seed=rows),) for rows in (2, 1, 5)]


SPECS = {
    **{kind: ["x:float32[rows,3]"] for kind in (Counter, Recent, Assigned)},
    Cache: ["x:float32[1,4]", "position:int64[1]"],
}
STATES = {Counter: ["total", "calls"], Recent: ["inner_last"], Assigned: ["mean"], Cache: ["keys", "values"]}


# torch.export itself drops buffers that are replaced, so no program holds Recent's or Assigned's.
FORMS = [
    *((kind, "module") for kind in (Counter, Recent, Assigned, Cache)),
    *((kind, "program") for kind in (Counter, Cache)),
]


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "form"), FORMS)
def test_state_is_passed_on_from_call_to_call(kind: type[nn.Module], form: str) -> None:
    torch.manual_seed(0)
    module = kind().eval()
    examples = tuple(map(torch.from_numpy, calls(kind)[0]))
    thing = module if form == "module" else torch.export.export(copy.deepcopy(module), examples, strict=False)
    report = Report("convert")
    rows = calls(kind) if form == "module" or kind is Cache else calls(kind)[:1] * 3
    model = read(thing, *(SPECS[kind] if form == "module" else []), report=report)
    first = len(model.graph.inputs) - len(STATES[kind])
    assert sorted(v.name for v in list(model.graph.inputs)[first:]) == sorted(STATES[kind])
    assert any(note.code == "state-inputs" for note in report.notes)
    names = [str(v.name) for v in model.graph.inputs]
    paths = {path.replace(".", "_"): buffer for path, buffer in module.named_buffers()}
    state = {name: paths[name].numpy().copy() for name in names[first:]}
    outputs = [str(v.name) for v in model.graph.outputs]
    source = Source(str(frontend.claims(thing)), model=thing)
    for arrays in rows:
        feed = {**dict(zip(names, arrays, strict=False)), **state}
        (theirs,) = runner.run(source, [feed], precision="float32", options=Options())
        ours = dict(zip(outputs, run(model, *feed.values()), strict=True))
        with torch.no_grad():
            want = module(*map(torch.from_numpy, arrays))
        want = want if isinstance(want, dict) else {"output": want}
        assert list(theirs) == outputs
        for name in outputs:
            np.testing.assert_allclose(ours[name], theirs[name], rtol=1e-6, atol=1e-6)
        for name, tensor in want.items():
            np.testing.assert_allclose(ours[name], tensor.numpy(), rtol=1e-5, atol=1e-6)
        state = {name: ours[f"{name}_next"] for name in state}
    for name, array in state.items():
        after = dict(module.named_buffers())
        np.testing.assert_allclose(array, {k.replace(".", "_"): v for k, v in after.items()}[name].numpy(), rtol=1e-5)


def test_state_is_verified_and_the_module_left_as_it_was(tmp_path: Path) -> None:
    module = Counter()
    before = module.total
    report = convert.api.convert(module, "onnx", tmp_path / "m.onnx", inputs="x:float32[rows,3]")
    assert report.verdict is not None
    assert report.verdict.status == "PASS"
    assert {row.name for row in report.verdict.outputs} == {"output", "total_next", "calls_next"}
    assert module.total is before
    assert not before.any()
    assert module.calls == 0


def test_a_buffer_named_as_an_input_is_another_input() -> None:
    class Same(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("x", torch.zeros(3))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.x += x[0]
            return x * self.x

    model = read(Same(), "x:float32[rows,3]")
    assert [v.name for v in model.graph.inputs] == ["x", "x_state"]
    assert [v.name for v in model.graph.outputs] == ["output", "x_state_next"]
    source = Source("torch-module-object", model=Same())
    feed = {"x": noise(2, 3), "x_state": noise(3)}
    (theirs,) = runner.run(source, [feed], precision="float32", options=Options())
    for ours, want in zip(run(model, *feed.values()), theirs.values(), strict=True):
        np.testing.assert_allclose(ours, want, rtol=1e-6)


def test_a_parameter_that_forward_changes_is_refused() -> None:
    class Learns(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.w = nn.Parameter(torch.zeros(3))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            with torch.no_grad():
                self.w += x[0]
            return x * self.w

    with pytest.raises(Unsupported, match="parameter w") as error:
        read(Learns(), "x:float32[rows,3]")
    assert "buffer" in error.value.hint


class Assigned(nn.Module):
    """State that is no buffer, in the ways in which it may be written."""

    def __init__(self, way: str) -> None:
        super().__init__()
        self.way, self.t, self.calls = way, torch.zeros(3), 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.way == "replaced":
            self.t = self.t + x[0]
            return x + self.t
        if self.way == "written":
            self.t.add_(x[0])
            return x + self.t
        self.t = x[0]
        self.calls += 1
        return x * 2


@pytest.mark.parametrize("way", ["replaced", "written"])
def test_a_tensor_that_is_no_buffer_and_carries_state_is_refused(way: str) -> None:
    module = Assigned(way)
    with pytest.raises(Unsupported, match="the tensor t, which is no buffer") as error:
        read(module, "x:float32[rows,3]")
    assert "register_buffer" in error.value.hint
    assert type(module.t) is torch.Tensor


def test_what_forward_only_leaves_behind_is_no_state() -> None:
    module, report = Assigned("kept"), Report("convert")
    before = module.t
    model = read(module, "x:float32[rows,3]", report=report)
    assert [v.name for v in model.graph.inputs] == ["x"]
    assert any("the number calls" in note for note in report.notes)
    assert module.calls == 0
    assert module.t is before


class Held(nn.Module):
    """State in a list or a dict of a submodule, in the ways in which it may be written."""

    def __init__(self, way: str) -> None:
        super().__init__()
        self.way = way
        self.kept: list[Any] = [torch.zeros(3), [torch.ones(3)]]
        self.named: dict[str, Any] = {"sum": torch.zeros(3), "calls": 0}

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.way == "item":
            self.kept[0] = self.kept[0] + x[0]
            return x + self.kept[0]
        if self.way == "deeper":
            self.kept[1][0] = self.kept[1][0] * 2
            return x + self.kept[1][0]
        if self.way == "key":
            self.named["sum"] = self.named["sum"] + x[0]
            return x + self.named["sum"]
        if self.way == "list":
            self.kept = [self.kept[0] + x[0]]
            return x + self.kept[0]
        self.named["last"] = x
        self.named["calls"] += 1
        self.kept.append(x)
        return x * 2


@pytest.mark.parametrize(
    ("way", "path"), [("item", "0.kept.0"), ("deeper", "0.kept.1.0"), ("key", "0.named.sum"), ("list", "0.kept.0")]
)
def test_state_in_a_list_or_dict_is_refused(way: str, path: str) -> None:
    part = Held(way)
    kept, named = part.kept, part.named
    before = (list(kept), dict(named))
    with pytest.raises(Unsupported, match=f"the tensor {path}, which is no buffer"):
        read(nn.Sequential(part), "float32[rows,3]")
    assert (part.kept is kept, part.named is named) == (True, True)
    assert all(a is b for a, b in zip([*kept, *named.values()], [*before[0], *before[1].values()], strict=True))


def test_what_forward_only_leaves_in_a_list_is_told() -> None:
    module, report = Held("left"), Report("convert")
    model = read(module, "x:float32[rows,3]", report=report)
    assert [v.name for v in model.graph.inputs] == ["x"]
    assert (len(module.kept), list(module.named), module.named["calls"]) == (2, ["sum", "calls"], 0)
    assert any("the number named.calls" in note for note in report.notes)
    assert {"kept", "named"} == {
        note.split()[5].rstrip(";") for note in report.notes if note.startswith("forward puts a tensor into")
    }


class Leaves(nn.Module):
    """State that does not exist before the first call, in the ways in which it may be created."""

    def __init__(self, way: str) -> None:
        super().__init__()
        self.way = way
        if way == "none":
            self.h = None
        if way == "buffer":
            self.register_buffer("h", None)
        self.cache: dict[str, torch.Tensor] = {}
        self.steps: list[torch.Tensor] = []

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.way == "dict":
            self.cache["h"] = self.cache.get("h", torch.zeros_like(x)) + x
            return self.cache["h"] * 1
        if self.way == "list":
            self.steps.append(x * 2)
            return torch.stack(self.steps).sum(0)
        if getattr(self, "h", None) is None:
            self.h = torch.zeros_like(x)
        if self.way == "registered":
            h = self.h
            del self.h
            self.register_buffer("h", h, persistent=False)
        self.h = self.h * 0.5 + x
        return self.h * 1


LEFT = {"none": "h", "absent": "h", "buffer": "h", "registered": "h", "dict": "cache", "list": "steps"}


@pytest.mark.parametrize("way", LEFT)
def test_what_is_not_there_before_the_first_call_is_told_and_taken_away(way: str) -> None:
    module, report = Leaves(way).eval(), Report("convert")
    model = read(module, "x:float32[3]", report=report)
    said = f"forward {'puts' if way in ('dict', 'list') else 'stores'} a tensor in"
    assert any(note.startswith(said) and LEFT[way] in note and "first" in note for note in report.notes)
    np.testing.assert_array_equal(run(model, noise(3))[0], Leaves(way)(torch.from_numpy(noise(3))).numpy())
    assert getattr(module, "h", None) is None
    assert hasattr(module, "h") == (way in ("none", "buffer"))
    assert list(module._buffers) == (["h"] if way == "buffer" else [])
    assert not module.cache
    assert not module.steps
    want = Leaves(way)(torch.from_numpy(noise(3)))
    np.testing.assert_array_equal(module(torch.from_numpy(noise(3))).numpy(), want.numpy())


class Reshaped(nn.Module):
    def __init__(self, change: Any) -> None:
        super().__init__()
        self.change = change
        self.register_buffer("n", torch.zeros(2, dtype=torch.int64))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.n = self.change(self.n)
        return x * self.n.sum()


@pytest.mark.parametrize(
    ("change", "form"),
    [(lambda n: n + 0.5, "float32[2]"), (lambda n: n[:1] + 1, "int64[1]"), (lambda n: n.sum() + 1, "int64[]")],
)
def test_a_buffer_that_gets_another_form_is_refused(change: Any, form: str) -> None:
    with pytest.raises(Unsupported) as error:
        read(Reshaped(change), "x:float32[3]")
    assert f"forward puts {form} in the buffer n, a int64[2]" in str(error.value)


class Registers(nn.Module):
    """A module whose forward registers a buffer again: with the same shape, or one that is too short."""

    def __init__(self, rows: int) -> None:
        super().__init__()
        self.register_buffer("table", torch.ones(rows, 3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.table.shape[0] < 4:
            self.register_buffer("table", torch.arange(12.0).view(4, 3), persistent=False)
        else:
            self.register_buffer("table", self.table * 2)
        return x + self.table.sum(0)


def test_a_buffer_that_is_registered_anew_is_state_where_it_is_read() -> None:
    module, report = Registers(4), Report("convert")
    model = read(module, "x:float32[rows,3]", report=report)
    assert [v.name for v in model.graph.outputs] == ["output", "table_next"]
    x, table = noise(2, 3), noise(4, 3)
    np.testing.assert_allclose(run(model, x, table)[0], x + 2 * table.sum(0), rtol=1e-6, atol=1e-6)
    assert module.table.equal(torch.ones(4, 3))

    module, report = Registers(2), Report("convert")
    model = read(module, "x:float32[rows,3]", report=report)
    np.testing.assert_array_equal(run(model, x)[0], x + np.arange(12, dtype=np.float32).reshape(4, 3).sum(0))
    assert any("in the buffer table" in note and "first call" in note for note in report.notes)
    assert module.table.equal(torch.ones(2, 3))


@pytest.mark.slow
def test_places_in_a_cache_are_verified_in_their_range(tmp_path: Path) -> None:
    """PyTorch refuses to write behind the end of a buffer."""
    torch.manual_seed(0)
    report = convert.api.convert(Cache().eval(), "onnx", tmp_path / "m.onnx", inputs=SPECS[Cache])
    assert report.verdict is not None
    assert report.verdict.status == "PASS"
    assert {row.name for row in report.verdict.outputs} == {"output", "keys_next", "values_next"}


@pytest.mark.slow
def test_a_buffer_named_as_an_output_is_another_input() -> None:
    class Same(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("output", torch.zeros(3))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.output += x[0]
            return x * self.output

    model = read(Same(), "x:float32[rows,3]")
    assert [v.name for v in model.graph.inputs] == ["x", "output_state"]
    assert [v.name for v in model.graph.outputs] == ["output", "output_state_next"]


class Scratch(nn.Module):
    """Overwrites a buffer before it reads it, or the first of its rows alone."""

    def __init__(self, persistent: bool, rows: int) -> None:
        super().__init__()
        self.rows = rows
        self.register_buffer("scales", torch.ones(2, 3), persistent=persistent)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        new = x.amax(0).expand(self.rows, 3)
        self.scales[:1].copy_(new) if self.rows == 1 else self.scales.copy_(new)
        return x * self.scales.sum(0)


@pytest.mark.parametrize(
    ("persistent", "rows", "state"),
    [(False, 2, []), (True, 2, ["scales"]), (False, 1, ["scales"])],
    ids=["overwritten", "saved", "overwritten in part"],
)
def test_a_buffer_that_no_call_takes_from_an_earlier_one_is_no_state(
    persistent: bool, rows: int, state: list[str]
) -> None:
    module = Scratch(persistent, rows).eval()
    model = read(module, "x:float32[batch,3]")
    assert [v.name for v in model.graph.inputs] == ["x", *state]
    x = noise(4, 3)
    found = run(model, x, *(np.ones((2, 3), np.float32) for _ in state))
    np.testing.assert_allclose(found[0], module(torch.from_numpy(x)).numpy(), rtol=1e-5, atol=1e-6)


class Copied(nn.Module):
    """Its last write to a buffer is a copy that broadcasts or casts, and its result depends on that."""

    def __init__(self, kept: torch.Tensor) -> None:
        super().__init__()
        self.register_buffer("kept", kept)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.kept.copy_(x.mean(0))
        return x + self.kept.sum() / 3


@pytest.mark.parametrize(
    "kept",
    [torch.zeros(2, 3), torch.zeros(4, 1, 3), torch.zeros(3, dtype=torch.int64), torch.zeros(3, dtype=torch.float16)],
    ids=["broadcast", "broadcast twice", "truncated", "rounded"],
)
def test_a_copy_to_a_buffer_has_the_shape_and_dtype_of_the_buffer(kept: torch.Tensor) -> None:
    """PyTorch's run_decompositions puts the copied tensor in the place of the buffer."""
    module = Copied(kept).eval()
    model = read(module, "x:float32[batch,3]")
    assert [v.name for v in model.graph.outputs] == ["output", "kept_next"]
    x = noise(4, 3) * 10
    output, after = run(model, x, kept.numpy())
    np.testing.assert_allclose(output, module(torch.from_numpy(x)).numpy(), rtol=1e-5, atol=1e-6)
    assert after.dtype == module.kept.numpy().dtype
    np.testing.assert_allclose(after, module.kept.numpy(), rtol=1e-5, atol=1e-6)
