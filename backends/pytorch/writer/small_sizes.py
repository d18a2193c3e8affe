"""Settles by running it for which small sizes a captured program is right: its guards take those, and no others.

PyTorch takes no size of the example for 0 or 1. Where it asks, as for the layout of what broadcasts, the answer is a
guard of the program, such as `x.size()[0] != 1`, also if nothing that is computed depends on it; and where it captures
with sizes from 2 on, what follows from that, as a length of `x[-2:]`, is no guard, and wrong for a size of 1.
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
    """What was captured: the module as it runs, the program, and the graph's inputs with the sizes of the example."""

    module: torch.nn.Module
    program: ExportedProgram
    model: ir.Model
    inputs: Sequence[ir.Value]
    sizes: Sizes

    def meets(self, guard: str, sizes: Sizes) -> bool:
        """Whether the inputs at these sizes meet a guard, which is arithmetic on `_place`s."""
        dims = complete_sizes(self.model, sizes)
        shapes = [fed_shape(v, dims) for v in self.inputs]
        return not broken_guards([guard], {f"_{i}_{a}": n for i, s in enumerate(shapes) for a, n in enumerate(s)})

    def by_place(self, guard: str) -> str:
        """A guard with the places of its sizes instead of PyTorch's expressions of those: input and axis."""
        places = {str(v.name): i for i, v in enumerate(self.inputs)}

        def place(found: re.Match[str]) -> str:
            index = found["index"] or places.get(found["name"], found["name"])
            return f"_{index}_{found['axis']}"

        return _SIZE.sub(place, guard)

    def keeps_out_only(self, guard: str, tried: Sequence[Sizes]) -> bool:
        """Whether some of these sizes do not meet a guard, and the example does, and all larger ones."""
        draw = random.Random(0)
        large = [{name: int(_LARGEST ** draw.uniform(0.2, 1)) for name in self.sizes} for _ in range(_DRAWS)]
        usual = [self.sizes, *filter(self.exist, large)]
        return not all(self.meets(guard, s) for s in tried) and all(self.meets(guard, s) for s in usual)

    def few(self) -> list[dict[str, int]]:
        """Sizes from 2 to 9: of each dim beside the example's, and drawn ones."""
        draw = random.Random(1)
        alone = [{**self.sizes, name: n} for name in self.dims() for n in _FEW]
        drawn = [{name: draw.choice(_FEW) for name in self.sizes} for _ in range(_DRAWS)]
        return [*filter(self.exist, [*alone, *drawn])]

    def dims(self) -> list[str]:
        """Those of `sizes` that inputs have as they are."""
        found = {_name_of(v, a) for v in self.inputs for a in range(len(v.shape or ()))}
        return [name for name in self.sizes if name in found]

    def other_than(self, name: str, size: int) -> str:
        """The guard, as PyTorch writes it, that keeps a size out of a dim."""
        named = ((v, a) for v in self.inputs for a in range(len(v.shape or ())) if _name_of(v, a) == name)
        value, axis = next(named)
        return f"L['{value.name}'].size()[{axis}] != {size}"

    def exist(self, sizes: Sizes) -> bool:
        """Whether inputs can have these sizes, of which others may follow, such as a third of one."""
        try:
            dims = complete_sizes(self.model, sizes)
        except ValueError:
            return False
        return all(n >= 0 for v in self.inputs for n in fed_shape(v, dims))

    def is_right(self, sizes: Sizes) -> bool:
        """Whether the program gives what the module gives, and refuses what it refuses."""
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
    """Drop the guards that only keep sizes of 0, 1 and few out, if the program is right for those.

    sizes: by dim, those of the example. What is right is what `module` computes where a dim or several are 1, or one is
    0; of more than four dims not every choice is tried; and at some of those from 2 to 9 that a guard does not meet. A
    guard that such sizes do not meet, and large ones do, goes if the program is right for all of these that were tried,
    or is right but for nothing: then it keeps a size of 0 out.
    from_two: the program was captured with sizes from 2 on, and gets a guard for each dim that may not be 1, or 0.
    Returns the dims that may not be 1 for this reason.
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
    """Make the lower bounds that PyTorch drew from guards, and checks besides, guards themselves."""
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
    """What `sizes` call a dim of an input; None for one of known size."""
    assert value.shape is not None
    dim = value.shape[axis]
    return None if isinstance(dim, int) else dim.value or f"{value.name}.{axis}"


def _outputs(forward: torch.nn.Module, tensors: Sequence[torch.Tensor]) -> dict[str, torch.Tensor] | None:
    """What a call gives, or None where an operator does not take such sizes; buffers are as before."""
    stored = [*forward.buffers()]
    before = [b.clone() for b in stored]
    with torch.no_grad(), torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        try:
            outputs: dict[str, torch.Tensor] | None = forward(*tensors)
        except Exception:  # PyTorch's operators raise what they like of sizes that they do not take
            outputs = None
        for buffer, content in zip(stored, before, strict=True):
            buffer.copy_(content)
    return outputs


def _small_sizes(sizes: Sizes, dims: Sequence[str]) -> Iterator[dict[str, int]]:
    """The example with each choice of its dims at 1, those of few before others, and with each at 0."""
    counts = range(1, len(dims) + 1) if len(dims) <= _MOST_DIMS else (1, 2, len(dims))
    for count in counts:
        yield from ({**sizes, **dict.fromkeys(ones, 1)} for ones in itertools.combinations(dims, count))
    yield from ({**sizes, name: 0} for name in dims)


def _is_same(wanted: torch.Tensor, found: torch.Tensor) -> bool:
    """To rounding: both call the same operators, but the layout of what they read, and so their order, may differ.

    What differs by more leaves the guard.
    """
    if wanted.shape != found.shape or wanted.dtype != found.dtype:
        return False
    if wanted.dtype in FLOAT8:
        wanted, found = wanted.float(), found.float()
    return torch.allclose(wanted, found, rtol=1e-5, atol=1e-6, equal_nan=True)
