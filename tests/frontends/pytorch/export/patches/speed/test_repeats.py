"""Repeated blocks are captured once: the program equals that of a full capture, and blocks that only look alike are
captured.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from convert.frontends.pytorch.export.capture import export_module
from convert.frontends.pytorch.export.patches.speed import repeats
from convert.frontends.pytorch.inputs.examples import DynamicDim, Example
from torch import Tensor, nn
from torch.export import Dim, ExportedProgram

from convert.outcome.report import Report

COUNT, SIZE = 8, 6
CAPTURED: list[int] = []
"""Positions of the blocks whose forward ran, in a list that no capture sees."""
LATER: list[Tensor] = []


class Block(nn.Module):
    """A layer that records that it runs, with its position in the stack, which it does not use otherwise."""

    def __init__(self, place: int) -> None:
        super().__init__()
        self.place = place
        self.norm, self.inner, self.outer = nn.LayerNorm(SIZE), nn.Linear(SIZE, 2 * SIZE), nn.Linear(2 * SIZE, SIZE)

    def forward(self, x: Tensor, *args: Any, **kwargs: Any) -> Any:
        CAPTURED.append(vars(self)["place"])
        return self.compute(x, *args, **kwargs)

    def compute(self, x: Tensor) -> Any:
        return x + self.outer(torch.relu(self.inner(self.norm(x))))


class Network(nn.Module):
    """Calls the blocks one after another."""

    def __init__(self, block: Callable[[int], nn.Module], count: int = COUNT) -> None:
        super().__init__()
        self.layers = nn.ModuleList([block(i) for i in range(count)])

    def forward(self, x: Tensor) -> Any:
        CAPTURED.clear()
        LATER.clear()
        for layer in self.layers:
            x = layer(x)
        return x


def exported(module: nn.Module, x: Tensor) -> tuple[ExportedProgram, list[int]]:
    """Return the program, and the positions of the blocks that were run for it."""
    CAPTURED.clear()
    with torch.no_grad():
        program = export_module.export_program(module, (x,), None, ({0: Dim.AUTO, 1: Dim.AUTO},))
    return program, list(CAPTURED)


@contextmanager
def in_full() -> Iterator[None]:
    """Context manager: every block is captured inside."""
    fewest, repeats.MIN_BLOCKS = repeats.MIN_BLOCKS, 1000
    try:
        yield
    finally:
        repeats.MIN_BLOCKS = fewest


def described(program: ExportedProgram) -> list[Any]:
    """Return operators, their inputs, their results and their modules; names may be numbered differently."""
    found = []
    places = {node: place for place, node in enumerate(program.graph.nodes)}
    for node in places:
        args, kwargs = torch.fx.node.map_arg((node.args, node.kwargs), lambda n: f"%{places[n]}")
        value = node.meta.get("val")
        shape = [str(d) for d in value.shape] if isinstance(value, Tensor) else str(value)
        modules = dict(node.meta.get("nn_module_stack") or {})
        found.append((node.op, str(node.target), str(args), str(kwargs), shape, modules))
    return found


def check(module: nn.Module, captured: list[int] | None) -> None:
    """Assert that the program computes the module's results at other sizes too, and equals that of a full capture.

    captured: the positions of the blocks that should be run, None for all of them and more.
    """
    module.eval()
    for p in module.parameters():
        nn.init.normal_(p, std=0.4)
    x = torch.randn(3, 5, SIZE)
    program, ran = exported(module, x)
    with in_full():
        whole, every = exported(module, x)
    assert described(program) == described(whole)
    if captured is not None:
        assert ran == captured
    else:
        assert ran == every
    for size in (3, 5), (2, 7), (4, 1):
        other = torch.randn(*size, SIZE)
        with torch.no_grad():
            want = module(other)
            got = program.module()(other)
        torch.testing.assert_close(got, want)


# -- stacks whose blocks are written again ----------------------------------------------------------------------------


class Masked(Network):
    def forward(self, x: Tensor) -> Any:
        CAPTURED.clear()
        mask = x.sum(-1, keepdim=True) > 0
        states = [x]
        for layer in self.layers:
            x, more = layer(x, mask=mask, scale=0.5)
            states.append(more)
        return x, states


class MaskedBlock(Block):
    def compute(self, x: Tensor, mask: Tensor, scale: float) -> Any:
        y = torch.where(mask, super().compute(x), x * scale)
        return y, y.mean(1)


class TiedBlock(Block):
    """All blocks share one weight."""

    shared = nn.Parameter(torch.randn(SIZE, SIZE))

    def __init__(self, place: int) -> None:
        super().__init__(place)
        self.common = TiedBlock.shared

    def compute(self, x: Tensor) -> Any:
        return super().compute(x @ self.common).flatten(1).unflatten(1, (-1, SIZE))


class Dropping(Block):
    def compute(self, x: Tensor) -> Any:
        return super().compute(nn.functional.dropout(x, 0.5, self.training))


class Asking(Block):
    """One block queries a size without using it, as PyTorch does when a cache is empty."""

    def compute(self, x: Tensor) -> Any:
        y = super().compute(x)
        if vars(self)["place"] == 1:
            torch.sym_max(y.shape[0] * 3, y.numel() + 1)
        return y


@pytest.mark.slow
@pytest.mark.parametrize(
    "network",
    [
        lambda: Network(Block),
        lambda: Masked(MaskedBlock),
        lambda: Network(TiedBlock),
        lambda: Network(Dropping),
        lambda: Network(Asking),
    ],
    ids=["plain", "masked", "tied", "dropout", "asking"],
)
def test_the_first_two_and_the_last_are_captured(network: Callable[[], nn.Module]) -> None:
    module = network()
    check(module, [0, 1, COUNT - 1])


@pytest.mark.slow
def test_attention_of_pytorch() -> None:
    """Sizes that only the first blocks query are captured with these blocks."""

    class Encoder(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            layer = nn.TransformerEncoderLayer(SIZE, 2, 12, activation="gelu", batch_first=True)
            self.encoder = nn.TransformerEncoder(layer, COUNT, enable_nested_tensor=False)

        def forward(self, x: Tensor) -> Any:
            return self.encoder(x)

    torch.backends.mha.set_fastpath_enabled(False)
    try:
        check(Encoder(), [])
    finally:
        torch.backends.mha.set_fastpath_enabled(True)


# -- stacks that only look so -----------------------------------------------------------------------------------------


class ReadsPlace(Block):
    def compute(self, x: Tensor) -> Any:
        return super().compute(x) * (2.0 if self.place == 5 else 1.0)


class Growing(Block):
    """Blocks that differ by a number that is no integer."""

    def __init__(self, place: int) -> None:
        super().__init__(place)
        self.scale = 0.5 + place

    def compute(self, x: Tensor) -> Any:
        return super().compute(x) * self.scale


class Collecting(Block):
    """Passes values on through a global list."""

    def compute(self, x: Tensor) -> Any:
        y = self.inner(x)
        LATER.append(y)
        return x + self.outer(torch.relu(y))


class Collected(Network):
    def forward(self, x: Tensor) -> Any:
        y = super().forward(x)
        return y, torch.stack(LATER).sum(0)


class Counter:
    def __init__(self) -> None:
        self.calls = 0

    def next(self) -> int:
        self.calls += 1
        return self.calls


class Counting(Block):
    """Queries an object that all blocks share."""

    counter = Counter()

    def __init__(self, place: int) -> None:
        super().__init__(place)
        self.shared = Counting.counter

    def compute(self, x: Tensor) -> Any:
        return super().compute(x) * (2.0 if self.shared.next() % COUNT == 5 else 1.0)


class LastIsOther(Block):
    """Differs in the last block only by the content of a global list."""

    def compute(self, x: Tensor) -> Any:
        return super().compute(x) * (2.0 if CAPTURED[-1] == COUNT - 1 else 1.0)


class Taking(Block):
    """Changes a dict that is passed to it."""

    def compute(self, x: Tensor, state: dict[str, Tensor]) -> Any:
        y = self.inner(x)
        state["hidden"] = y
        return x + self.outer(y)


class Handing(Network):
    def forward(self, x: Tensor) -> Any:
        CAPTURED.clear()
        state = {"hidden": x}
        total = x.sum()
        for layer in self.layers:
            x = layer(x, state)
            total = total + state["hidden"].sum()
        return x, total


class Writing(Block):
    """Writes to a tensor that is passed to it."""

    def compute(self, x: Tensor) -> Any:
        y = x.clone()
        y.add_(super().compute(x))
        return y


class Hooked(Block):
    def __init__(self, place: int) -> None:
        super().__init__(place)
        self.inner.register_forward_hook(lambda module, args, result: LATER.append(result))


class Constant(Block):
    """A module with a tensor that is neither parameter nor buffer."""

    def __init__(self, place: int) -> None:
        super().__init__(place)
        self.table = torch.full((SIZE,), float(place))

    def compute(self, x: Tensor) -> Any:
        return super().compute(x) + self.table


class Called(Network):
    """Calls its blocks in two ways."""

    def forward(self, x: Tensor) -> Any:
        CAPTURED.clear()
        one, other = x > 0, x > 0.5
        for n, layer in enumerate(self.layers):
            x, _ = layer(x, mask=other if n == 5 else one, scale=0.25 if n == 4 else 0.5)
        return x


@pytest.mark.slow
@pytest.mark.parametrize(
    "network",
    [
        lambda: Network(ReadsPlace),
        lambda: Network(Growing),
        lambda: Collected(Collecting),
        lambda: Network(Counting),
        lambda: Network(LastIsOther),
        lambda: Handing(Taking),
        lambda: Network(Writing),
        lambda: Collected(Hooked),
        lambda: Network(Constant),
        lambda: Network(Block, 3),
    ],
    ids=["reads place", "other numbers", "global list", "shared counter", "last", "dict", "in place", "hook",
         "constant", "three"],
)  # fmt: skip
def test_what_only_looks_alike_is_captured_in_full(network: Callable[[], nn.Module]) -> None:
    check(network(), None)


@pytest.mark.slow
def test_a_block_that_is_called_otherwise_is_captured() -> None:
    check(Called(MaskedBlock), [0, 1, 4, 5, COUNT - 1])


# -- decisions alone --------------------------------------------------------------------------------------------------


class Deciding(Block):
    """Decides on the other size if there is one row."""

    def compute(self, x: Tensor) -> Any:
        y = super().compute(x)
        return y * 2 if x.shape[0] > 3 and x.shape[1] > 4 else y


class DecidingLast(Block):
    def compute(self, x: Tensor) -> Any:
        y = super().compute(x)
        return y * 2 if vars(self)["place"] == COUNT - 1 and x.shape[1] > 4 else y


class DecidingByPlace(Block):
    def compute(self, x: Tensor) -> Any:
        y = super().compute(x)
        return y * 2 if self.place == 5 and x.shape[1] > 4 else y


@pytest.mark.slow
@pytest.mark.parametrize(
    ("block", "captured"),
    [
        (Block, [0, COUNT - 1]),
        (Deciding, [0, COUNT - 1]),
        (DecidingLast, [0, COUNT - 1]),
        (DecidingByPlace, list(range(COUNT))),
        (Counting, list(range(COUNT))),
    ],
)
def test_decisions_are_those_of_a_whole_capture(block: type[Block], captured: list[int]) -> None:
    dims = {0: DynamicDim("rows", asked=True), 1: DynamicDim("columns", asked=True)}
    module, call = Network(block).eval(), {"x": Example(torch.randn(4, 5, SIZE), dims)}
    with torch.no_grad():
        found = export_module.decisions_of(module, call)
        ran = list(CAPTURED)
        with in_full():
            whole = export_module.capture_sizes(module, call, Report("whole")).branches
    assert [b.path_condition for b in found] == [b.path_condition for b in whole]
    assert bool(found) == (block in (Deciding, DecidingLast, DecidingByPlace))
    assert ran == captured


def test_numbers_are_plain_attributes_again_afterwards() -> None:
    module = Network(Block)
    exported(module.eval(), torch.randn(3, 5, SIZE))
    assert "place" not in vars(Block)
    assert [layer.place for layer in module.layers] == list(range(COUNT))
