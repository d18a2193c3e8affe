"""Graph modules that are compiled when they are read compute what those compute that PyTorch compiles at once."""

from __future__ import annotations

import inspect
import operator
import pickle
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
import torch
from convert.frontends.pytorch.export.capture.captured import Capture
from convert.frontends.pytorch.export.patch_table import TABLE
from convert.frontends.pytorch.export.patches.patch import in_place
from torch import fx, nn

ROW = next(row for row in TABLE if row.targets == ("torch.fx.GraphModule.recompile",))


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[fx.GraphModule]]:
    """Delay compilation, and return the modules that were compiled, in order."""
    found: list[fx.GraphModule] = []
    original = fx.GraphModule.recompile

    def recompile(self: fx.GraphModule) -> object:
        found.append(self)
        return original(self)

    monkeypatch.setattr(fx.GraphModule, "recompile", recompile)
    with in_place([ROW]):
        yield found


def added(number: int) -> fx.GraphModule:
    """Return a graph module that adds a number to its input."""
    graph = fx.Graph()
    graph.output(graph.call_function(operator.add, (graph.placeholder("x"), number)))
    return fx.GraphModule(nn.Module(), graph)


def change(module: fx.GraphModule, number: int) -> None:
    """Let a module of `added` add another number."""
    node = next(n for n in module.graph.nodes if n.op == "call_function")
    node.args = (node.args[0], number)
    module.recompile()


def test_only_graphs_that_are_read_are_compiled(compiled: list[fx.GraphModule]) -> None:
    module = added(1)
    for number in (2, 3, 4):
        change(module, number)
    assert compiled == []
    assert [module(1), module(2)] == [5, 6]
    assert compiled == [module]
    change(module, 5)
    assert module(1) == 6
    assert compiled == [module, module]


@pytest.mark.usefixtures("compiled")
def test_modules_do_not_share_code() -> None:
    one, other = added(1), added(2)
    assert (one(1), other(1), one(1)) == (2, 3, 2)


@pytest.mark.usefixtures("compiled")
def test_code_and_signature_are_those_of_the_graph() -> None:
    module = added(1)
    assert "x + 1" in module.code
    change(module, 2)
    assert list(inspect.signature(module.forward).parameters) == ["x"]
    assert "x + 2" in module.code
    assert "x + 2" in str(module)


def test_a_module_outlives_the_patch() -> None:
    with in_place([ROW]), in_place([ROW]):
        early, late = added(1), added(2)
        assert early(1) == 2
    assert late(1) == 3
    assert pickle.loads(pickle.dumps(late))(1) == 3
    change(late, 5)
    assert late(1) == 6


def test_what_is_missing_is_missing_as_before(compiled: list[fx.GraphModule]) -> None:
    module = added(1)  # PyTorch sets specs for graphs with containers only
    assert not hasattr(module, "_in_spec")
    assert not hasattr(module, "_out_spec")
    assert compiled == [module]


def test_programs_run_bounded_and_unbounded_from_one_module() -> None:
    dim = torch.export.Dim("n", min=2, max=8)
    program = torch.export.export(nn.ReLU(), (torch.ones(4),), dynamic_shapes=({0: dim},))
    done = Capture(program, {})
    one: Any = done.unbounded
    other: Any = done.callable
    for _ in range(2):
        assert one(-torch.ones(9)).tolist() == [0] * 9
        with pytest.raises(Exception, match="<= 8"):
            other(torch.ones(9))
    same: Any = replace(done, branches=()).callable
    assert same.args[0] is one.args[0]
    again = torch.export.export(nn.Tanh(), (torch.ones(4),), dynamic_shapes=({0: dim},))
    assert replace(done, program=again).callable(torch.zeros(2)).tolist() == [0, 0]
    assert replace(done, program=again).callable(-torch.ones(2)).max() < 0
