"""Runs a captured program at small sizes to learn where it is right, and adjusts its guards accordingly.

PyTorch assumes that no size of the example is 0 or 1. If it asks, for example for the layout of a broadcast, the answer
becomes a guard such as `x.size()[0] != 1`, even if no result depends on it. If it captures with sizes from 2 on,
consequences such as the length of `x[-2:]` become no guard, and are wrong for a size of 1.
"""

from __future__ import annotations

import itertools
import random
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import onnx_ir as ir
import torch
from torch.export import ExportedProgram

from convert.parity.inputs.feeds import complete_sizes, fed_shape, sized_feed
from convert.parity.inputs.size_guards import broken_guards

from ..dtypes import FLOAT8, tensor_from
from ..torch_internals import ValueRanges, guard_texts, set_guard_texts

_DRAWS = 40
_FEW = range(2, 10)
_TRIES = 8
_LARGEST = 1 << 20
_MOST_DIMS = 4
_SIZE = re.compile(r"L\['(?:flat_args'\]\[(?P<index>\d+)|(?P<name>[^']+)')\]\.size\(\)\[(?P<axis>\d+)\]")

Sizes = Mapping[str, int]


@dataclass(frozen=True)
class _Captured:
    """The captured module, its program, and the graph's inputs with the sizes of the example."""

    module: torch.nn.Module
    program: ExportedProgram
    model: ir.Model
    inputs: Sequence[ir.Value]
    sizes: Sizes

    def meets(self, guard: str, sizes: Sizes) -> bool:
        """Return whether the inputs at these sizes meet a guard, which is arithmetic on `_place`s."""
        dims = complete_sizes(self.model, sizes)
        shapes = [fed_shape(v, dims) for v in self.inputs]
        return not broken_guards([guard], {f"_{i}_{a}": n for i, s in enumerate(shapes) for a, n in enumerate(s)})

    def by_place(self, guard: str) -> str:
        """Return a guard with input and axis (`_place`) instead of PyTorch's expressions of sizes."""
        places = {str(v.name): i for i, v in enumerate(self.inputs)}

        def place(found: re.Match[str]) -> str:
            index = found["index"] or places.get(found["name"], found["name"])
            return f"_{index}_{found['axis']}"

        return _SIZE.sub(place, guard)

    def keeps_out_only(self, guard: str, tried: Sequence[Sizes]) -> bool:
        """Return whether some of these sizes break a guard, while the example and all larger sizes meet it."""
        draw = random.Random(0)
        large = [{name: int(_LARGEST ** draw.uniform(0.2, 1)) for name in self.sizes} for _ in range(_DRAWS)]
        usual = [self.sizes, *filter(self.exist, large)]
        return not all(self.meets(guard, s) for s in tried) and all(self.meets(guard, s) for s in usual)

    def few(self) -> list[dict[str, int]]:
        """Return sizes from 2 to 9: each dim varied separately, and random combinations."""
        draw = random.Random(1)
        alone = [{**self.sizes, name: n} for name in self.dims() for n in _FEW]
        drawn = [{name: draw.choice(_FEW) for name in self.sizes} for _ in range(_DRAWS)]
        return [*filter(self.exist, [*alone, *drawn])]

    def dims(self) -> list[str]:
        """The names in `sizes` that are dims of inputs."""
        found = {_name_of(v, a) for v in self.inputs for a in range(len(v.shape or ()))}
        return [name for name in self.sizes if name in found]

    def other_than(self, name: str, size: int) -> str:
        """Return the guard, as PyTorch writes it, that excludes a size of a dim."""
        named = ((v, a) for v in self.inputs for a in range(len(v.shape or ())) if _name_of(v, a) == name)
        value, axis = next(named)
        return f"L['{value.name}'].size()[{axis}] != {size}"

    def exist(self, sizes: Sizes) -> bool:
        """Return whether inputs can have these sizes; other sizes may follow from them, such as a third of one."""
        try:
            dims = complete_sizes(self.model, sizes)
        except ValueError:
            return False
        return all(n >= 0 for v in self.inputs for n in fed_shape(v, dims))

    def is_right(self, sizes: Sizes) -> bool:
        """Return whether the program returns what the module returns, and rejects what the module rejects."""
        arrays = sized_feed(self.model, 0, complete_sizes(self.model, sizes)).arrays
        wanted, found = (
            _outputs(forward, [tensor_from(arrays[str(v.name)]) for v in self.inputs])
            for forward in (self.module, self.program.module())
        )
        if wanted is None or found is None:
            return wanted is found
        return wanted.keys() == found.keys() and all(_is_same(wanted[k], found[k]) for k in wanted)


def settle_small_sizes(
    program: ExportedProgram,
    module: torch.nn.Module,
    model: ir.Model,
    inputs: Sequence[ir.Value],
    sizes: Sizes,
    *,
    from_two: bool = False,
) -> list[str]:
    """Drop guards that only exclude sizes of 0, 1 and a few others, if the program is right for those.

    sizes: the example's sizes, by dim. Returns the dims that must not be 1 because of `from_two`.

    The program is compared with `module` at three kinds of sizes: one or several dims are 1, one dim is 0, and sizes
    from 2 to 9 that break a guard. With more than four dims, not every combination is tried. If the program is right at
    all sizes that were tried, guards that only such sizes break are dropped. If it is wrong for 0 only, a guard that
    excludes 0 replaces them.

    from_two: the program was captured with sizes from 2 on; it gets a guard for each dim that must not be 1, or 0.
    """
    captured = _Captured(module, program, model, inputs, sizes)
    _bounds_to_guards(program, inputs)
    guards = {text: captured.by_place(text) for text in guard_texts(program)}
    tried = [small for small in _small_sizes(sizes, captured.dims()) if captured.exist(small)]
    few = captured.few() if guards else []
    doubtful = {text: guard for text, guard in guards.items() if captured.keeps_out_only(guard, [*tried, *few])}
    if not doubtful and not from_two:
        return []
    for guard in doubtful.values():
        kept_out = (sizes for sizes in few if sizes not in tried and not captured.meets(guard, sizes))
        tried += itertools.islice(kept_out, _TRIES)
    set_guard_texts(program, [t for t in guards if t not in doubtful])
    no_one: list[str] = []
    no_zero: list[str] = []
    for small in tried:
        if any(small[name] == 1 for name in no_one):
            continue
        unmet = [text for text, guard in doubtful.items() if not captured.meets(guard, small)]
        if (not unmet and not from_two) or captured.is_right(small):
            continue
        if 0 in small.values():
            no_zero += [name for name in captured.dims() if small[name] == 0]
        elif unmet:
            doubtful = {text: guard for text, guard in doubtful.items() if text not in unmet}
        else:
            no_one += [name for name in captured.dims() if small[name] == 1][:1]
    kept = [t for t in guards if t not in doubtful]
    kept += [captured.other_than(name, 1) for name in no_one]
    kept += [captured.other_than(name, 0) for name in no_zero]
    set_guard_texts(program, kept)
    return no_one


def _bounds_to_guards(program: ExportedProgram, inputs: Sequence[ir.Value]) -> None:
    """Turn the lower bounds that PyTorch derived from guards, and its extra checks, into guards."""
    arguments = [node for node in program.graph.nodes if node.name in program.graph_signature.user_inputs]
    for value, node in zip(inputs, arguments, strict=True):
        for axis, size in enumerate(node.meta["val"].shape):
            symbol = size.node.expr if isinstance(size, torch.SymInt) else None
            known = program.range_constraints.get(symbol)
            if known is not None and known.lower > 2:
                bound = f"L['{value.name}'].size()[{axis}] >= {known.lower}"
                set_guard_texts(program, [*guard_texts(program), bound])
                program.range_constraints[symbol] = ValueRanges(0, known.upper)


def _name_of(value: ir.Value, axis: int) -> str | None:
    """Return the name in `sizes` of an input's dim; None for a known size."""
    assert value.shape is not None
    dim = value.shape[axis]
    return None if isinstance(dim, int) else dim.value or f"{value.name}.{axis}"


def _outputs(forward: torch.nn.Module, tensors: Sequence[torch.Tensor]) -> dict[str, torch.Tensor] | None:
    """Return a call's outputs, or None if an operator rejects these sizes; buffers are restored."""
    stored = [*forward.buffers()]
    before = [b.clone() for b in stored]
    with torch.no_grad(), torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        try:
            outputs: dict[str, torch.Tensor] | None = forward(*tensors)
        except Exception:  # PyTorch's operators raise all kinds of errors for sizes that they reject
            outputs = None
        for buffer, content in zip(stored, before, strict=True):
            buffer.copy_(content)
    return outputs


def _small_sizes(sizes: Sizes, dims: Sequence[str]) -> Iterator[dict[str, int]]:
    """Yield the example's sizes with each subset of dims at 1, smaller subsets first, then with each dim at 0."""
    counts = range(1, len(dims) + 1) if len(dims) <= _MOST_DIMS else (1, 2, len(dims))
    for count in counts:
        yield from ({**sizes, **dict.fromkeys(ones, 1)} for ones in itertools.combinations(dims, count))
    yield from ({**sizes, name: 0} for name in dims)


def _is_same(wanted: torch.Tensor, found: torch.Tensor) -> bool:
    """Return whether results agree up to rounding.

    Both call the same operators, but layouts, and with them the order of summation, may differ. A larger difference
    keeps the guard.
    """
    if wanted.shape != found.shape or wanted.dtype != found.dtype:
        return False
    if wanted.dtype in FLOAT8:
        wanted, found = wanted.float(), found.float()
    return torch.allclose(wanted, found, rtol=1e-5, atol=1e-6, equal_nan=True)
