"""Layers whose shapes are inferred during capture: the same shapes as PyTorch finds by decomposing them."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from convert.frontends.pytorch.common.locate import source_of
from convert.frontends.pytorch.export import patch_table as table
from convert.frontends.pytorch.export.capture.export_module import export_program
from convert.frontends.pytorch.export.patches.speed import fast_shapes
from torch import Tensor, nn


class Batched(nn.Module):
    """Calls the layer on every row separately, under a transformation of functorch."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(5, 3)

    def forward(self, x: Tensor) -> Tensor:
        return torch.vmap(self.layer)(x)


class Looped(nn.Module):
    """Calls the same layer in the body of a loop, whose graph PyTorch traces separately."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Sequential(nn.Linear(5, 5), nn.LayerNorm(5))

    def forward(self, x: Tensor) -> Tensor:
        def step(i: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
            return i + 1, self.layer(y)

        return torch.while_loop(lambda i, y: i < 3, step, (torch.tensor(0), x))[1]


class Moved(nn.Module):
    """Layers on tensors that are not contiguous."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList((nn.Linear(4, 3), nn.LayerNorm(4), nn.BatchNorm1d(5)))

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        turned = x.transpose(1, 2)
        return self.layers[0](turned), self.layers[1](turned), self.layers[2](turned), self.layers[2](turned[..., 0])


CASES: dict[str, tuple[nn.Module, tuple[int, ...]]] = {
    "linear": (nn.Linear(5, 3), (2, 5)),
    "linear of rank 1": (nn.Linear(5, 3), (5,)),
    "linear of rank 4 without bias": (nn.Linear(5, 3, bias=False), (2, 3, 4, 5)),
    "layer norm": (nn.LayerNorm((4, 5)), (2, 3, 4, 5)),
    "layer norm without weights": (nn.LayerNorm(5, elementwise_affine=False), (2, 5)),
    "batch norm": (nn.BatchNorm2d(3), (2, 3, 4, 5)),
    "batch norm without weights": (nn.BatchNorm1d(3, affine=False), (2, 3)),
    "batch norm without statistics": (nn.BatchNorm1d(3, track_running_stats=False), (2, 3, 4)),
    "channels last": (nn.Sequential(nn.Conv2d(3, 4, 1), nn.BatchNorm2d(4)).to(memory_format=torch.channels_last),
                      (2, 3, 6, 6)),
    "not contiguous": (Moved(), (2, 4, 5)),
    "under vmap": (Batched(), (2, 5)),
    "in a loop": (Looped(), (2, 5)),
}  # fmt: skip


def facts(module: nn.Module, x: Tensor) -> list[Any]:
    """Return operator, shape, strides and dtype of every node, including those of regions, and the conditions on
    sizes.
    """
    with torch.no_grad():
        program = export_program(module.eval(), (x,), None, ({0: torch.export.Dim.AUTO},) if x.dim() > 1 else None)
    found: list[Any] = [sorted(getattr(program, "_guards_code", None) or [])]
    for graph in (m for m in program.graph_module.modules() if isinstance(m, torch.fx.GraphModule)):
        for node in graph.graph.nodes:
            values = node.meta.get("val")
            values = values if isinstance(values, (tuple, list)) else (values,)
            described = [
                (str(tuple(v.shape)), str(v.stride()), v.dtype, v.requires_grad) if isinstance(v, Tensor) else str(v)
                for v in values
            ]
            found.append((str(node.target), described))
    return found


@pytest.mark.parametrize("name", [n if n != "in a loop" else pytest.param(n, marks=pytest.mark.long) for n in CASES])
def test_inferred_as_decomposed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    module, shape = CASES[name]
    x = torch.randn(shape)
    if name == "channels last":
        x = x.to(memory_format=torch.channels_last)
    ours = facts(module, x)
    for rule in ("_linear", "_layer_norm", "_batch_norm"):
        monkeypatch.setattr(fast_shapes, rule, lambda *_, **__: None)
    assert facts(module, x) == ours


def test_ordinary_layers_are_inferred(monkeypatch: pytest.MonkeyPatch) -> None:
    """The three rules are used: if a change in PyTorch bypassed them, only the time would show it."""
    answered = []
    for rule in ("_linear", "_layer_norm", "_batch_norm"):
        before = getattr(fast_shapes, rule)

        def watched(*args: Any, before: Any = before, rule: str = rule, **kwargs: Any) -> Any:
            found = before(*args, **kwargs)
            answered.append((rule, found is not None))
            return found

        monkeypatch.setattr(fast_shapes, rule, watched)
    module = nn.Sequential(nn.BatchNorm1d(3), nn.Linear(5, 4), nn.LayerNorm(4)).eval()
    with torch.no_grad():
        export_program(module, (torch.randn(2, 3, 5),), None, ({0: torch.export.Dim.AUTO},))
    assert answered == [("_batch_norm", True), ("_linear", True), ("_layer_norm", True)]


def test_wrong_sizes_are_refused_as_before() -> None:
    for module, shape in ((nn.Linear(5, 3), (2, 4)), (nn.LayerNorm(5), (2, 4)), (nn.BatchNorm1d(3).eval(), (2, 4))):
        with pytest.raises(RuntimeError), torch.no_grad():
            export_program(module, (torch.randn(shape),))


@pytest.mark.parametrize("name", ["linear", "not contiguous", "under vmap"])
def test_short_stacks_name_the_same_lines(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    module, shape = CASES[name]

    def sources() -> list[str]:
        with torch.no_grad():
            program = export_program(module, (torch.randn(shape),))
        graphs = [m.graph for m in program.graph_module.modules() if isinstance(m, torch.fx.GraphModule)]
        return [source_of(n.meta.get("stack_trace") or "") for graph in graphs for n in graph.nodes]

    ours = sources()
    others = tuple(row for row in table.TABLE if not (row.targets and row.targets[0].startswith("torch.fx.proxy.")))
    assert len(others) == len(table.TABLE) - 2
    monkeypatch.setattr(table, "TABLE", others)
    assert sources() == ours
    assert any(ours)


def test_everything_is_put_back() -> None:
    operators = (torch.ops.aten.linear.default, torch.ops.aten.layer_norm.default, torch.ops.aten.batch_norm.default)
    before = [dict(o.py_kernels) for o in operators]
    with fast_shapes.infer_layer_shapes():
        assert [dict(o.py_kernels) for o in operators] != before
    assert [dict(o.py_kernels) for o in operators] == before
