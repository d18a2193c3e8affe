"""Determines what a capture holds for: how many sizes, and whether its decisions on short lengths matter."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stderr
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache, partial
from io import StringIO
from typing import Any

import sympy
import torch
from torch import nn
from torch.export import ExportedProgram

from convert.parity.inputs.size_guards import evaluate

from ...common.state import kept_buffers, track_assignments
from ...inputs.arguments import arrange_arguments
from ...inputs.examples import Call, example_tensor, resized_call
from ...inputs.output_names import plain_containers
from ...torch_internals import pytree
from ..decisions.branches import Branch, Decided, short_lengths
from ..patch_table import patched
from ..patches.patch import Stage
from .dims import finite_bound, is_fixed
from .guards import sized_guards

_SHORT, _AROUND = 64, 32


@dataclass(frozen=True)
class Capture:
    """A captured module, the call that it was captured with, and forward's decisions on sizes."""

    program: ExportedProgram
    call: Call
    branches: Sequence[Branch] = ()
    decided: Decided = field(default_factory=Decided, compare=False, repr=False)
    of_some_data: bool = False
    """Whether forward decides on data, or catches exceptions: the capture has one of the ways."""
    admitted: dict[Any, list[int]] = field(default_factory=dict, compare=False, repr=False)
    """The cached result of `admitted_sizes`: a decoder with a cache has its three symbols in two inputs per layer."""
    runnable: dict[ExportedProgram, Any] = field(default_factory=dict, compare=False, repr=False)
    """The cached result of `_module`, which captures share that `replace` makes of this one."""

    @cached_property
    def callable(self) -> Callable[..., Any]:
        """The program as a module that accepts sizes within the bounds of its dims, ignoring other guards."""
        return partial(_run, self._module(), True)

    @cached_property
    def unbounded(self) -> Callable[..., Any]:
        """The program as a module that accepts any sizes."""
        return partial(_run, self._module(), False)

    def _module(self) -> Any:
        """Return the program as a module, which is made once: PyTorch copies the graph and compiles its code."""
        if self.program not in self.runnable:
            with patched(Stage.RUNNABLE):
                self.runnable[self.program] = self.program.module(check_guards=False)
        return self.runnable[self.program]


def _run(module: Any, bounded: bool, /, *args: Any, **kwargs: Any) -> Any:
    """Call a module of a capture; if `bounded`, PyTorch compares the inputs with the bounds of their dims."""
    module.validate_inputs = bounded
    return module(*args, **kwargs)


def short_branches(done: Capture) -> list[Branch]:
    """Return the decisions that differ for lengths of 0 or 1 only, for which PyTorch makes no guard."""
    return [b for b in done.branches if not b.guarded and short_lengths(b)]


def count_admitted(done: Capture) -> int:
    """Return how many of the tried sizes the dims allow that the user wants dynamic; the minimum over dims."""
    counts = [
        len(admitted_sizes(done, name, place))
        for name, example in done.call.items()
        for place, dynamic_dim in example.dynamic_dims.items()
        if dynamic_dim.asked
    ]
    return min(counts, default=0)


def admitted_sizes(done: Capture, name: str, place: int) -> list[int]:
    """Return the sizes of a dim and its equal dims at which the guards hold; all other sizes are the example's.

    Short sizes are tried, and those around the example's, because a text in blocks that is 96 long may allow no short
    one.
    """
    node = next((n for n in done.program.graph.nodes if n.op == "placeholder" and n.name == name), None)
    if node is None:
        return []
    dim = node.meta["val"].shape[place]
    if is_fixed(dim):
        return [int(dim)]
    key = dim.node.expr if dim.node.expr.is_symbol else (name, place)
    if key not in done.admitted:
        done.admitted[key] = _admitted_sizes(done, dim, (name, place))
    return done.admitted[key]


def _admitted_sizes(done: Capture, dim: Any, at: tuple[str, int]) -> list[int]:
    known = done.program.range_constraints.get(dim.node.expr)
    low, high = (None, None) if known is None else (finite_bound(known.lower), finite_bound(known.upper))
    low = 1 if low is None or low <= 2 else low
    sizes = {(n, p): size for n, e in done.call.items() for p, size in enumerate(e.tensor.shape)}
    same = places_of_symbols(done).get(dim.node.expr, [at])
    around = range(max(sizes[at] - _AROUND, _SHORT + 1), sizes[at] + _AROUND + 1)
    return [
        size
        for size in (*range(1, _SHORT + 1), *around)
        if low <= size <= (size if high is None else high) and holds_for(done, {**sizes, **dict.fromkeys(same, size)})
    ]


def holds_for(done: Capture, sizes: dict[tuple[str, int], int]) -> bool:
    """Return whether the guards hold for these sizes of dims of inputs."""
    return all(_is_met(text) for text in sized_guards(done.program, sizes))


@lru_cache(1 << 14)
def _is_met(text: str) -> bool:
    """Return whether a guard on numbers is met; True for other guards."""
    try:
        return bool(evaluate(text, {}))
    except ValueError:
        return True


def without_immaterial(module: nn.Module, done: Capture, again: Callable[[Call], Sequence[Branch]]) -> Capture:
    """Return the capture without decisions on short lengths that change nothing, as runs of both for such lengths show.

    Models take a shortcut for one row or one step (such as no mask) that gives the same result. If a capture for such a
    length decides on other sizes too, runs for the example's sizes prove nothing for others; `again` returns its
    decisions.
    """
    places = places_of_symbols(done)
    open_ = {symbol for symbol, found in places.items() if all(1 in admitted_sizes(done, *p) for p in found)}
    short = [b for b in short_branches(done) if b.condition.free_symbols <= open_]
    symbols = {s for b in short for s in b.condition.free_symbols}
    groups = [places[s] for s in symbols] + ([[p for s in symbols for p in places[s]]] if len(symbols) > 1 else [])
    lengths = sorted({length for b in short for length in short_lengths(b)})
    if not short or not all(_agree_for(module, done, group, length) for length in lengths for group in groups):
        return done
    if any(_decides_more(done, group, again) for group in groups):
        return done
    return replace(done, branches=tuple(b for b in done.branches if b not in short))


def _decides_more(done: Capture, short: list[tuple[str, int]], again: Callable[[Call], Sequence[Branch]]) -> bool:
    """Return whether a capture with length 1 at the positions `short` decides on sizes on which `done` does not
    decide.
    """
    try:
        others = again(resized_call(done.call, dict.fromkeys(short, 1), short))
    except Exception:  # whatever torch.export raises: forward itself has run
        return False
    ones = {s: sympy.Integer(1) for s, found in places_of_symbols(done).items() if set(found) <= set(short)}
    known = {b.path_condition.xreplace(ones) for b in done.branches}
    return any(b.path_condition not in known for b in others if b.guarded or short_lengths(b))


def places_of_symbols(done: Capture) -> dict[Any, list[tuple[str, int]]]:
    """Return the dims of inputs by symbol; dims that are expressions are left out."""
    found: dict[Any, list[tuple[str, int]]] = {}
    for node in done.program.graph.nodes:
        if node.op == "placeholder" and node.name in done.call:
            for place, dim in enumerate(node.meta["val"].shape):
                if not is_fixed(dim) and dim.node.expr.is_symbol:
                    found.setdefault(dim.node.expr, []).append((node.name, place))
    return found


def _agree_for(module: nn.Module, done: Capture, short: list[tuple[str, int]], length: int) -> bool:
    """Return whether module and program agree with the size `length`, 0 or 1, at the positions `short`.

    The other sizes are the example's, or 2 if forward does not run for these: a cache plus a new token may exceed the
    number of positions. Inputs that hide differences (zeros as offsets and in masks, positive floats before a relu) are
    replaced by others as well. A length of 0 that forward rejects is not compared.
    """
    dynamic = {place for found in places_of_symbols(done).values() for place in found}
    for small in (False, True):
        tensors = {}
        for name, example in done.call.items():
            shape = [
                length if (name, p) in short else 2 if small and (name, p) in dynamic else size
                for p, size in enumerate(example.tensor.shape)
            ]
            tensors[name] = example_tensor(shape, example.tensor.dtype)
        agreed = gives_same(module, done.callable, tensors)
        if agreed is not None:
            others = other_numbers(tensors)
            return agreed and all(gives_same(module, done.callable, other) is not False for other in others)
    return length == 0


def other_numbers(tensors: dict[str, torch.Tensor]) -> Iterator[dict[str, torch.Tensor]]:
    """Yield ones, floats on both sides of zero, and both True and False if there are booleans."""
    flags = (True, False) if any(t.dtype == torch.bool for t in tensors.values()) else (True,)
    for flag in flags:
        yield {
            name: t * 2 - 1 if t.is_floating_point() else torch.full_like(t, flag if t.dtype == torch.bool else 1)
            for name, t in tensors.items()
        }


def gives_same(
    module: nn.Module, program: Callable[..., Any], tensors: dict[str, torch.Tensor], tolerance: float | None = None
) -> bool | None:
    """Return whether module and program agree on these inputs; None if forward does not run.

    tolerance: of floats, relative to the largest one, instead of some roundings; then other numbers are not compared,
    and a program that raises an exception agrees.
    """
    args, kwargs = _copied_arguments(module, tensors)
    try:
        with warnings.catch_warnings(), torch.random.fork_rng(devices=[]), kept_state(module):
            warnings.simplefilter("ignore")
            torch.manual_seed(0)
            want = pytree.tree_leaves(plain_containers(module(*args, **kwargs)))
    except Exception:
        return None
    args, kwargs = _copied_arguments(module, tensors)
    kept = kept_state if program is module else kept_content  # a capture has no attributes that it could change
    try:
        # torch.fx prints the source lines of a graph that raises an exception.
        with torch.random.fork_rng(devices=[]), kept(module), redirect_stderr(StringIO()):
            torch.manual_seed(0)
            got = pytree.tree_leaves(program(*args, **kwargs))
    except Exception:
        return tolerance is not None
    return len(want) == len(got) and all(_is_alike(a, b, tolerance) for a, b in zip(want, got, strict=True))


def _copied_arguments(module: nn.Module, tensors: dict[str, torch.Tensor]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return copies of forward's arguments, which it may write to."""
    return arrange_arguments(module, {name: tensor.clone() for name, tensor in tensors.items()})


@contextmanager
def kept_state(module: nn.Module) -> Iterator[None]:
    """Restore what `kept_content` restores, and attributes that forward changes inside the context."""
    with kept_content(module), track_assignments(module):
        yield


@contextmanager
def kept_content(module: nn.Module) -> Iterator[None]:
    """Restore buffers that are changed inside the context, by forward or by a capture with the same tensors.

    The parameters of a small module are restored too: functional.embedding scales them in place if it has a max_norm.
    """
    parameters = [(p, p.detach().clone()) for p in module.parameters()] if is_small(module) else []
    try:
        with kept_buffers(module):
            yield
    finally:
        with torch.no_grad():
            for parameter, content in parameters:
                parameter.copy_(content)


_SMALL = 2**16
"""Maximum number of parameters of a small module."""


def is_small(module: nn.Module) -> bool:
    """Return whether a module has so few parameters that copies and runs of it cost little beside its capture."""
    return sum(p.numel() for p in module.parameters()) <= _SMALL


_ROUNDINGS = 64
"""Tolerance between two ways of computing the same, in roundings of the largest element."""


def _is_alike(a: Any, b: Any, tolerance: float | None = None) -> bool:
    """Return whether two outputs agree: floats up to some roundings of the largest element, others exactly."""
    if not isinstance(a, torch.Tensor) or not isinstance(b, torch.Tensor):
        return bool(a == b)
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    a, b = (t if t.layout is torch.strided else t.to_dense() for t in (a, b))
    if not (a.is_floating_point() or a.is_complex()) or not a.numel():
        return tolerance is not None or torch.equal(a, b)
    sizes = a.abs()[torch.isfinite(a)]
    relative = _ROUNDINGS * torch.finfo(a.dtype).eps / 2 if tolerance is None else tolerance
    bound = relative * (sizes.max().item() if sizes.numel() else 0.0)
    return torch.allclose(a, b, rtol=0.0, atol=bound, equal_nan=True)
