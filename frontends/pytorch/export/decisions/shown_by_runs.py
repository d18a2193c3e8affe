"""Finds decisions on sizes that capture does not record, by running the module and its capture at other sizes.

A capture holds under guards, and for lengths of 2 and more. Most guards are requirements of operators: for other sizes
forward raises an exception, and so does the target's operator. Others are not:

- a slice beyond the end of a dim is shorter
- forward may catch the exception
- a tensor with a dim of length 1 is contiguous, and a write to the result of `contiguous()` or `flatten()` reaches the
  tensor itself

If runs at such sizes differ, the guard becomes a decision like those that forward makes in Python. If those at sizes
for which the capture should hold differ, forward sees that it is captured, and the capture is refused. Runs take time,
so these are made only where module and capture call other operators (`called_operators.py`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import combinations
from typing import Any

import sympy
import torch
from torch import nn

from convert.errors import Unsupported
from convert.parity.inputs.size_guards import broken_guards, sizes_meeting

from ...common.locate import source_of
from ...inputs.examples import example_tensor
from ...torch_internals import OpOverload, schema_of
from ..capture.captured import Capture, gives_same, holds_for, is_small, other_numbers, places_of_symbols
from ..capture.dims import is_fixed
from ..capture.prepare import with_explicit_writes
from .branches import Branch
from .called_operators import calls_the_same
from .size_conditions import printed

_MOST_GUARDS, _MOST_PAIRED = 24, 4
"""Maximum number of guards that are tried, and of dims that are tried in pairs at length 1."""
_ENOUGH = 2
"""Number of runs at other sizes that have to agree."""
_BEYOND = 1
"""How far beyond a bound sizes are tried."""
_ROUGHLY = 0.05
"""Difference, relative to the largest element, that no other order of the same operations makes."""
_MOST_TIMES, _SMALL = 4, 2**16
"""Maximum size of an input in a run, as a multiple of the example's elements, and a minimum that is always allowed."""

Sizes = dict[Any, int]
"""Lengths by symbol."""


def with_what_runs_show(module: nn.Module, done: Capture) -> Capture:
    """Return the capture with a decision for each guard, and each length of 1, that changes results in actual runs."""
    trial = _Trial(module, done)
    if not trial.symbols:
        return done
    trial.try_guards()
    trial.try_short_lengths()
    trial.refuse_another_program()
    return replace(done, branches=tuple(trial.branches)) if len(trial.branches) > len(done.branches) else done


class _Trial:
    """Runs of a module and its capture; `branches` collects what they show."""

    def __init__(self, module: nn.Module, done: Capture) -> None:
        self.module, self.done, self.branches = module, done, list(done.branches)
        places = places_of_symbols(done)
        self.symbols = list(places)
        self.sizes: Sizes = {s: done.call[found[0][0]].tensor.shape[found[0][1]] for s, found in places.items()}
        self.bounds: dict[str, Sequence[int | None]] = {}
        for symbol, found in places.items():
            dynamic_dims = [w for name, place in found if (w := done.call[name].dynamic_dims.get(place)) is not None]
            lows, highs = [w.low for w in dynamic_dims if w.low], [w.high for w in dynamic_dims if w.high]
            self.bounds[str(symbol)] = [max(lows, default=1), min(highs, default=None)]
        self.agreed: dict[tuple[int, ...], bool | None] = {}
        self.called: dict[tuple[int, ...], bool | None] = {}

    # -- guards -------------------------------------------------------------------------------------------------------

    def try_guards(self) -> None:
        """Try sizes that break guards: small ones, which are fast, and those around the example's if forward fails.

        Different paths may agree at one set of sizes by chance: `x.view(n, -1, 4).sum(-1)` is `x.sum(-1)` if the last
        dim is 4. So several sets are tried.
        """
        for guard, line in list(self._open_guards())[:_MOST_GUARDS]:
            if isinstance(guard, sympy.Eq) and any(side.is_Float for side in guard.args):
                # An operator used the fraction as a number: `eps=1 / n`.
                self.branches.append(Branch(guard, True, line, number=True))
                continue
            differing, ran, is_bound = False, 0, True
            for start in (self._small_sizes(), self._small_sizes(2), self.sizes):
                for sizes in self._sizes_without(guard, start):
                    same = self._agree(sizes)
                    ran += same is not None
                    if same is False:
                        differing = True
                        is_bound = is_bound and bool(self._run(sizes, self.explicit.unbounded))
                if ran >= _ENOUGH or not is_bound:
                    break
            if differing:
                self.branches.append(Branch(guard, True, line, bound=is_bound))

    def _open_guards(self) -> Iterator[tuple[sympy.Basic, str]]:
        """Yield the guards that PyTorch's own code made, each with the line that called it.

        The guard that an intermediate length is not 1, which it makes for every tensor, matters only for views and for
        forward.
        """
        environment = self._environment()
        asked = {b.path_condition for b in self.branches}
        for guard, line in self.done.decided.guarded_at.items():
            condition = environment.replace(guard)
            is_told = bool(condition.free_symbols) and condition.free_symbols <= set(self.symbols)
            if is_told and condition not in asked and (self.decides or not _is_about_one(condition)):
                asked.add(condition)
                yield condition, line

    def _environment(self) -> Any:
        for node in self.done.program.graph.nodes:
            fake = node.meta.get("val")
            sizes: tuple[Any, ...] = fake.shape if isinstance(fake, torch.Tensor) else ()
            for dim in sizes:
                if isinstance(dim, torch.SymInt):
                    return dim.node.shape_env
        raise AssertionError("a capture with symbols has a dim with one")

    def _sizes_without(self, guard: sympy.Basic, start: Sizes) -> list[Sizes]:
        """Return sizes near `start` with the example's decisions that break the guard, and some beyond its bound.

        At a bound itself the results may still agree: `x[:, :n]` of n rows.
        """
        known = [printed(b.path_condition) for b in self.branches if not b.ties]
        broken = [f"not ({printed(guard)})"]
        if isinstance(guard, (sympy.Ge, sympy.Gt, sympy.Le, sympy.Lt)):
            broken.append(f"{printed(guard.lts)} >= {printed(guard.gts)} + {_BEYOND}")
        lows = {n: 1 if high == 1 else 2 for n, (_, high) in self.bounds.items()}
        bounds = {n: [max(low or 1, lows[n]), high] for n, (low, high) in self.bounds.items()}
        found: list[Sizes] = []
        for text in broken:
            met = sizes_meeting({str(s): n for s, n in start.items()}, [text, *known], bounds)
            if met is not None and (sizes := {s: met[str(s)] for s in start}) not in found:
                found.append(sizes)
        return found

    def _small_sizes(self, times: int = 1) -> Sizes:
        """Return small sizes within the bounds, all different: 2, 3, 4 …; with `times` 2 they are 5, 7, 9 …."""
        found = {}
        for i, symbol in enumerate(self.symbols):
            low, high = self.bounds[str(symbol)]
            size = max(low or 1, (2 + i) * times + times - 1)
            found[symbol] = size if high is None else min(size, high)
        return found

    # -- lengths of 1 -------------------------------------------------------------------------------------------------

    def try_short_lengths(self) -> None:
        """Try lengths of 1, which PyTorch assumes that dynamic dims do not have.

        If forward neither decides on sizes nor writes, all of them are tried together first.
        """
        short = self._short_symbols()
        if not self.decides and not self._differ_at_ones():
            return
        count = len(short)
        sizes = (1, 2, count) if count <= _MOST_PAIRED else (1, count)
        found: list[set[Any]] = []
        for group in (set(g) for n in dict.fromkeys(sizes) if 0 < n <= count for g in combinations(short, n)):
            if not any(known <= group for known in found) and self._differ_when_short(group):
                found.append(group)
                self.branches.append(Branch(_longer(group), True, self._writing_line(), guarded=False))

    def _short_symbols(self) -> list[Any]:
        """Return the symbols whose length may be 1."""
        return [s for s in self.symbols if (self.bounds[str(s)][0] or 1) == 1]

    def _ones(self) -> Sizes:
        return self._small_sizes() | dict.fromkeys(self._short_symbols(), 1)

    def _differ_at_ones(self) -> bool:
        """Return whether runs differ with all lengths at 1, where module and capture call other operators."""
        if self.done.of_some_data or self._call_the_same(self._ones()):
            return False
        return self._run(self._ones(), self.explicit.unbounded) is False

    def _differ_when_short(self, group: set[Any]) -> bool:
        """Return whether runs with these lengths at 1 differ; if forward writes, with other lengths both odd and
        even.
        """
        small = self._small_sizes()
        for others in (small, {s: n + 1 for s, n in small.items()}, self.sizes):
            sizes = {**others, **dict.fromkeys(group, 1)}
            named = {str(s): n for s, n in sizes.items()}
            if broken_guards([printed(b.path_condition) for b in self.branches if not b.ties], named):
                continue
            agreed = self._agree(sizes)
            if agreed is False or (agreed and not self.writes):
                return not agreed
        return False

    def refuse_another_program(self) -> None:
        """Raise `Unsupported` if the capture gives other results than forward at sizes for which it should hold.

        Python can ask symbolic sizes things that the capture does not see: `case int():`, `n.__class__`, `n is m`.
        For a large module, one set of small sizes has to do.
        """
        if self.done.of_some_data:
            return
        rising = self._small_sizes(2)
        falling = dict(zip(rising, reversed(rising.values()), strict=True))
        equal = dict.fromkeys(rising, max(rising.values()))
        tried = [equal, rising, falling] if len(rising) > 1 else [rising]
        if not is_small(self.module):
            small = dict.fromkeys(rising, min(rising.values()))
            tried = [] if self._call_the_same(self._ones()) else [small if self._should_hold(small) else equal]
        for sizes in tried:
            if self._should_hold(sizes) and not self._call_the_same(sizes):
                self._refuse_other_results(sizes)

    def _should_hold(self, sizes: Sizes) -> bool:
        """Return whether these sizes are within the bounds, and meet the guards and the decisions of the capture."""
        named = {str(s): n for s, n in sizes.items()}
        shapes = {place: sizes[s] for s, found in places_of_symbols(self.done).items() for place in found}
        return (
            all((low or 1) <= named[name] <= (high or named[name]) for name, (low, high) in self.bounds.items())
            and holds_for(self.done, shapes)
            and not broken_guards([printed(b.path_condition) for b in self.branches], named)
        )

    def _refuse_other_results(self, sizes: Sizes) -> None:
        if self._run(sizes, self.done.callable, _ROUGHLY) is not False:
            return
        if self._run(sizes, self.module, _ROUGHLY) is False:  # results of forward are random
            return
        shown = ", ".join(f"{name} {shape}" for name, shape in self._shapes(sizes).items())
        raise Unsupported(
            f"forward gives other results when torch.export captures it, for inputs of {shown}: it asks for "
            "the type or the identity of a size (`n is m`), or whether it is captured",
            hint="give numbers for all dims in --input, or let forward treat torch.SymInt as int, and compare sizes "
            "with ==; --trace records the operators of one run instead",
        )

    def _writing_line(self) -> str:
        """Return the source line of forward's last decision, or of its last write."""
        lines = [*(b.line for b in self.done.branches), *self.done.decided.settled]
        for node in self.done.program.graph.nodes:
            if isinstance(node.target, OpOverload) and schema_of(node.target).is_mutable:
                lines.append(source_of(node.meta.get("stack_trace") or ""))
        return lines[-1] if lines else ""

    # -- runs ---------------------------------------------------------------------------------------------------------

    @cached_property
    def explicit(self) -> Capture:
        """The capture with explicit writes, as it is lowered; without them, PyTorch's operators write in place."""
        try:
            return replace(self.done, program=with_explicit_writes(self.done.program))
        except Unsupported:  # lowering reports this error
            return self.done

    @property
    def writes(self) -> bool:
        return self.explicit.program is not self.done.program

    @property
    def decides(self) -> bool:
        """Return whether forward decides on sizes in Python, or writes to what may be a view or a copy."""
        return bool(self.branches or self.done.decided.answered) or self.writes

    def _agree(self, sizes: Sizes) -> bool | None:
        """Return whether module and capture agree at these sizes; None if forward does not run."""
        key = tuple(sizes[s] for s in self.symbols)
        if key not in self.agreed:
            self.agreed[key] = self._run(sizes, self.explicit.callable)
        return self.agreed[key]

    def _run(self, sizes: Sizes, program: Callable[..., Any], tolerance: float | None = None) -> bool | None:
        tensors = self._tensors(sizes)
        if tensors is None:
            return None
        agreed = gives_same(self.module, program, tensors, tolerance)
        if not agreed or tolerance is not None:
            return agreed
        return all(gives_same(self.module, program, other) is not False for other in other_numbers(tensors))

    def _call_the_same(self, sizes: Sizes) -> bool | None:
        """Return whether module and capture call the same operators at these sizes; None if that is not known."""
        key = tuple(sizes[s] for s in self.symbols)
        if key not in self.called:
            tensors = self._tensors(sizes)
            self.called[key] = None if tensors is None else calls_the_same(self.module, self.done.unbounded, tensors)
        return self.called[key]

    def _tensors(self, sizes: Sizes) -> dict[str, torch.Tensor] | None:
        """Return inputs of these sizes; None if they are too large, or a dim that others determine gets no length."""
        shapes, given = self._shapes(sizes), {name: example.tensor for name, example in self.done.call.items()}
        if any(n < 1 <= given[name].shape[i] for name, shape in shapes.items() for i, n in enumerate(shape)):
            return None
        if any(math.prod(s) > max(_MOST_TIMES * given[name].numel(), _SMALL) for name, s in shapes.items()):
            return None
        return {
            name: given[name] if list(given[name].shape) == shape else example_tensor(shape, given[name].dtype)
            for name, shape in shapes.items()
        }

    def _shapes(self, sizes: Sizes) -> dict[str, list[int]]:
        """Return the shape of each input at these sizes."""
        return {
            node.name: [int(d) if is_fixed(d) else int(d.node.expr.xreplace(sizes)) for d in node.meta["val"].shape]
            for node in self.done.program.graph.nodes
            if node.op == "placeholder" and node.name in self.done.call
        }


def _is_about_one(condition: sympy.Basic) -> bool:
    return isinstance(condition, sympy.Ne) and sympy.S.One in condition.args


def _longer(group: set[Any]) -> Any:
    """Return the condition that not all of these lengths are 1."""
    return sympy.Or(*(sympy.Ne(symbol, 1) for symbol in sorted(group, key=str)))
