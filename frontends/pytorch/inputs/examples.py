"""The inputs that a module is captured with: the user's arrays, tensors for the user's specs, or guesses."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Any

import torch
from torch import nn

from convert.errors import UsageError
from convert.outcome.report import Report
from convert.request.nearest import names_hint
from convert.request.options import InputSpec, Options

from .guess import BATCH, Guess, guesses, parameters_of, required_names
from .trial_runs import STEP, failure_without_content, first_that_runs, free_places, has_rows, with_different_lengths


@dataclass(frozen=True)
class DynamicDim:
    """A dim that should be dynamic: its name, its bounds, and whether the user asked for it.

    `fixed` is the length to use if forward turns out to be written for one; None keeps the example's. `assumed`: a
    configuration asks for it, not the user.
    """

    name: str | None
    low: int | None = None
    high: int | None = None
    asked: bool = False
    fixed: int | None = None
    assumed: bool = False

    @property
    def required(self) -> bool:
        """Return whether the user asked for the dim; a dim that a configuration names may become static."""
        return self.asked and not self.assumed


@dataclass(frozen=True)
class Example:
    """One input: a tensor to capture with and the dims that should be dynamic."""

    tensor: torch.Tensor
    dynamic_dims: dict[int, DynamicDim] = field(default_factory=dict)


Call = dict[str, Example]
"""Inputs by the name of forward's parameter, in order."""

# Sizes for open dims, one row per attempt: for images (three or more dims after the batch), and for other inputs.
_PICTURES = (
    (224, 256, 288),
    (64, 96, 128),
    (32, 48, 64),
    (128, 160, 192),
    (256, 320, 384),
    (512, 576, 640),
    (28, 36, 44),
)
_OTHERS = (
    (7, 11, 13),
    (16, 24, 32),
    (64, 96, 128),
    (256, 320, 384),
    (1024, 1280, 1536),
    (16000, 16640, 17280),
    (2, 3, 5),
)


def dtype_named(name: str) -> torch.dtype:
    """Return PyTorch's dtype of that name. Raises `UsageError` if its tensors do not have it."""
    found = getattr(torch, name, None)
    if not isinstance(found, torch.dtype):
        raise UsageError(f"PyTorch has no tensors of {name}", hint="describe the input with the dtype that it has")
    return found


def candidate_calls(module: nn.Module, options: Options) -> Iterator[tuple[Call, str | None]]:
    """Yield calls to try, the likeliest first, each with what was assumed for it; None if the user described
    everything.

    A forward without parameters, or one that the user declares to have no inputs, is called with nothing. Raises
    `UsageError` if inputs are not described and cannot be inferred, or a description fits no input.
    """
    names = [] if options.no_inputs else given_names(module, options)
    if not names:
        yield {}, None
        return
    specs = {names[i] if s.name is None else s.name: s for i, s in enumerate(options.inputs)}
    arrays = {names[k] if isinstance(k, int) else k: a for k, a in options.examples.items()}
    # A configuration may be wrong about the rank of an input; an example cannot be.
    specs = {
        n: s for n, s in specs.items() if not (s.assumed and s.shape and n in arrays and len(s.shape) != arrays[n].ndim)
    }
    left = [n for n in names if n not in arrays and (n not in specs or specs[n].shape is None)]
    if left and len(names) > 1:
        raise UsageError(
            f"the inputs {', '.join(left)} of this {type(module).__name__} are not described",
            hint=f"give --input for each of {', '.join(names)}, or example arrays",
        )
    if left:
        yield from _guessed_calls(module, left[0], specs.get(left[0]))
    elif arrays and not specs:
        tensors = {n: _as_tensor(arrays[n]) for n in names}
        yield _batched_call(module, tensors), None
    else:
        yield from _described_calls(names, specs, {n: _as_tensor(a) for n, a in arrays.items()})


def given_names(module: nn.Module, options: Options) -> list[str]:
    """Return the inputs that are used, in the order of forward: those it requires and those the user named.

    Elements of `*args` are called `args_0`, `args_1` …. A part of a tuple, list or dict has the input's name followed
    by its own: `pair_0`, `batch_mask`.
    """
    parameters = parameters_of(module)
    known = [p.name for p in parameters if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
    variadic = next((p.name for p in parameters if p.kind is p.VAR_POSITIONAL), None)
    named = [s.name for s in options.inputs if s.name] + [k for k in options.examples if isinstance(k, str)]
    nested = {n: [m for m in named if m not in known and m.startswith(f"{n}_")] for n in known}
    inside = {m for leaves in nested.values() for m in leaves}
    unknown = [
        n for n in named if n not in known and n not in inside and not (variadic and n.startswith(f"{variadic}_"))
    ]
    if unknown:
        raise UsageError(f"forward has no input {unknown[0]!r}", hint=names_hint(str(unknown[0]), known))
    places = [i for i, s in enumerate(options.inputs) if s.name is None] + [
        k for k in options.examples if isinstance(k, int)
    ]
    count = max(places, default=-1) + 1
    wanted = set(required_names(module)) | set(named) | set(known[:count])
    names = [m for n in known for m in nested[n] or ([n] if n in wanted else [])]
    if variadic:
        more = max(count - len(known), len([n for n in named if n not in known]), 0 if names else 1)
        names += [f"{variadic}_{i}" for i in range(more)]
    if count > len(names):
        raise UsageError(
            f"forward takes {len(names)} inputs, but {count} are described", hint=f"its inputs are {', '.join(known)}"
        )
    return names


def _guessed_calls(module: nn.Module, name: str, spec: InputSpec | None) -> Iterator[tuple[Call, str | None]]:
    for guess in _likely_guesses(module, name):
        dtype = dtype_named(spec.dtype) if spec is not None and spec.dtype else guess.dtype
        tensor = example_tensor(guess.shape, dtype)
        free = free_places(module, {name: tensor}, name, guess.made_up)
        taken = replace(guess, dynamic={**guess.dynamic, **{place: guess.made_up[place] for place in free}})
        dynamic_dims = {
            place: DynamicDim(label, fixed=guess.shape[place] if place or guess.dynamic.get(0) is None else 1)
            for place, label in taken.dynamic.items()
        }
        remark = f"assuming {name}: {taken} (from {guess.why}; set it with --input)"
        remark += _fixed_lengths(name, taken, [place for place in guess.made_up if place not in free])
        yield {name: Example(with_different_lengths(tensor, free), dynamic_dims)}, remark


def _likely_guesses(module: nn.Module, name: str) -> Iterator[Guess]:
    """Yield the guesses for which forward runs on tensors without content; all guesses if it runs for none.

    If forward fails in the same way at the smallest and the largest of the usual sizes, the size is not the reason,
    and no other is tried.
    """
    known: dict[tuple[Any, ...], str | None] = {}

    def failure(guess: Guess) -> str | None:
        key = guess.shape, guess.dtype
        if key not in known:
            tensor = torch.empty(guess.shape, dtype=guess.dtype, device="meta")
            known[key] = failure_without_content(module, {name: tensor})
        return known[key]

    none = True
    for _, group in groupby(guesses(module), lambda guess: (guess.why, len(guess.shape))):
        usual = list(group)
        by_size = sorted(usual, key=lambda guess: math.prod(guess.shape))
        if failure(usual[0]) is not None and failure(by_size[0]) == failure(by_size[-1]) is not None:
            continue
        for guess in usual:
            if failure(guess) is None:
                none = False
                yield guess
        if none and (other := _other_size(usual[0], failure)) is not None:
            none = False
            yield other
    if none:
        yield from guesses(module)


def _other_size(guess: Guess, failure: Callable[[Guess], str | None]) -> Guess | None:
    """Return the guess with the smallest of its other sizes at which forward runs, or None."""
    size = first_that_runs(lambda size: failure(guess.with_size(size)), guess.other_sizes)
    return None if size is None else guess.with_size(size)


def _fixed_lengths(name: str, guess: Guess, places: Sequence[int]) -> str:
    """Return the end of a note that says which guessed lengths are fixed, and which option sets others; "" for none.

    An image or volume whose whole size is fixed has a head for that size, as most have; its shape in the note says so.
    """
    if not places or (len(places) > 1 and len(places) == len(guess.made_up)):
        return ""
    labels = " and ".join(guess.made_up[place] for place in places)
    letters = {place: guess.made_up[place][0].upper() for place in places}
    others = replace(guess, dynamic={**guess.dynamic, **letters})
    return (
        f"; {labels} {'is' if len(places) == 1 else 'are'} fixed at {guess.shape[places[0]]}, because forward does not "
        f"run with other lengths: set others with --input {name}:{others}"
    )


def _as_tensor(array: Any) -> torch.Tensor:
    if isinstance(array, torch.Tensor):
        return array
    if array.dtype.kind in "biufc":
        return torch.as_tensor(array)
    # numpy has no bfloat16 and no float8; float32 holds all of their numbers.
    return torch.from_numpy(array.astype("float32")).to(getattr(torch, array.dtype.name))


def _batched_call(module: nn.Module, tensors: Mapping[str, torch.Tensor]) -> Call:
    """Return a call with the user's arrays and dynamic dims; a common first dim of length 1 is doubled, because 1 would
    be fixed.

    If the inputs have different first dims, the first input's is the batch. Another input may have the batch at another
    place: the state of a recurrent layer has it second. Lists of integers may have any length, and so may inputs with a
    row per item of such a list: the edges of a graph, and their weights. Integers of two rows are two texts or a list
    of edges, which runs distinguish.
    """
    lists_at = {name: _list_place(tensor) for name, tensor in tensors.items()}
    firsts = {t.shape[0] for t in tensors.values() if t.dim() > 1}
    texts = [n for n, place in lists_at.items() if place == 1 and len(firsts) > 1 and has_rows(module, tensors, n)]
    length = tensors[texts[0]].shape[0] if texts else _batch_length(tensors)
    with_rows = [t for t in tensors.values() if t.dim() > 1]
    # The state of a recurrent layer has its batch at another position, even a batch of 1.
    alone = any(t.shape[0] == 1 for t in with_rows) and all(t.shape[0] == 1 or 1 not in t.shape for t in with_rows)
    lists = {t.shape[p] for n, t in tensors.items() if (p := lists_at[n]) is not None and n not in texts} - {0, 1}
    call = {}
    for name, tensor in tensors.items():
        dynamic_dims: dict[int, DynamicDim] = {}
        place = lists_at[name]
        # A vector of one integer is a length or a label of the only row; a vector of one float may also be a factor for
        # all rows.
        rows = tensor.dim() > 1 or not (tensor.is_floating_point() or tensor.is_complex())
        if tensor.dim() > 0 and tensor.shape[0] == length and (length > 1 or (alone and rows)):
            dynamic_dims = {0: DynamicDim("batch", fixed=length)}
            if name in texts and tensor.shape[1] > 1:
                dynamic_dims[1] = DynamicDim(None, fixed=tensor.shape[1])
            if length == 1:
                tensor = tensor.repeat(BATCH, *[1] * (tensor.dim() - 1))
        elif length > 1 and length in tensor.shape[1:]:
            dynamic_dims = {tuple(tensor.shape).index(length): DynamicDim(None, fixed=length)}
        elif place is not None and tensor.shape[place] > 1:
            dynamic_dims = {place: DynamicDim(None, fixed=tensor.shape[place])}
        elif tensor.dim() > 0 and tensor.shape[0] in lists:
            dynamic_dims = {0: DynamicDim(None, fixed=tensor.shape[0])}
        call[name] = Example(tensor, dynamic_dims)
    return call


def _batch_length(tensors: Mapping[str, torch.Tensor]) -> int:
    """Return the common first dim of the inputs that are no vectors, else that of the first input; 0 if there is
    none.
    """
    with_rows = [t for t in tensors.values() if t.dim() > 1]
    if len({t.shape[0] for t in with_rows}) > 1:
        with_rows = [t for t in with_rows if _list_place(t) != 1] or with_rows
    vectors = [t for t in tensors.values() if t.dim() == 1]
    first = next(iter(with_rows or vectors), None)
    return 0 if first is None else first.shape[0]


def _list_place(tensor: torch.Tensor) -> int | None:
    """Return the dim along which integers form a list: 1 for [2, n], the indices of sparse tensors, else 0."""
    if tensor.dtype.is_floating_point or tensor.dtype.is_complex or tensor.dtype is torch.bool or tensor.dim() == 0:
        return None
    return int(tensor.dim() == 2 and tensor.shape[0] == 2)


def note_fixed_dims(call: Call, options: Options, report: Report) -> None:
    """Note which example inputs have a fixed first dim, unless another note says it."""
    names = list(call)
    given = {names[k] if isinstance(k, int) else k for k in options.examples}
    described = {names[i] if s.name is None else s.name for i, s in enumerate(options.inputs) if s.shape is not None}
    for name in names:
        tensor = call[name].tensor
        if name not in given or name in described or tensor.dim() == 0 or 0 in call[name].dynamic_dims:
            continue
        if call[name].dynamic_dims:
            why = f"it is taken to be a list along its dim {next(iter(call[name].dynamic_dims))}"
        elif tensor.shape[0] == 1:
            why = "a length of 1 is built in; an example that is longer, or --input, makes it dynamic"
        else:
            why = "another input has the batch; --input for each of them makes it dynamic"
        report.note(f"the dim 0 of {name} is fixed at {tensor.shape[0]}: {why}", code="fixed-dim")


def _described_calls(
    names: Sequence[str], specs: Mapping[str, InputSpec], arrays: Mapping[str, torch.Tensor]
) -> Iterator[tuple[Call, str | None]]:
    """Yield calls for the specs: one if sizes are given or there are arrays, several attempts for open sizes."""
    dynamic_dims = {
        n: {
            i: DynamicDim(d.name, d.low, d.high, True, d.usual, s.assumed and (n in arrays or d.usual is not None))
            for i, d in enumerate(s.shape or ())
            if d.dynamic
        }
        for n, s in specs.items()
    }
    for name, array in arrays.items():
        shape = specs[name].shape if name in specs else None
        if shape is not None and len(shape) != array.dim():
            raise UsageError(f"the example for {name} has {array.dim()} dims, its description {len(shape)}")
    tries = len(_OTHERS) if any(dynamic_dims.get(n) for n in names if n not in arrays) else 1
    for turn in range(tries):
        sizes: dict[str, int] = {}
        made = dict(arrays)
        for name in sorted(names, key=lambda n: n in specs and _has_sum(specs[n])):
            if name not in made:
                made[name] = _tensor_from_spec(specs[name], turn, sizes)
        call = {name: Example(made[name], dynamic_dims.get(name, {})) for name in names}
        yield _without_ones(call), "" if tries > 1 and turn < tries - 1 else None


def _has_sum(spec: InputSpec) -> bool:
    return any(_is_sum(dim.name) for dim in spec.shape or ())


def _is_sum(name: str | None) -> bool:
    return "+" in (name or "")


def _sum(name: str, lengths: Mapping[str, int], where: str) -> int:
    """Return the length of `past+new` from its terms. Raises `UsageError` for a term that no input has."""
    parts = name.split("+")
    if missing := [part for part in parts if not part.isdigit() and part not in lengths]:
        raise UsageError(f"{where} is a sum with {missing[0]}, which is no dim of an input")
    return sum(int(part) if part.isdigit() else lengths[part] for part in parts)


def _without_ones(call: Call) -> Call:
    """Return the call with examples repeated along dynamic dims of length 1, which torch.export would fix.

    Dims of one name get the same length, others different ones, so that capture does not treat them as equal.
    """
    lengths: dict[str, int] = {}
    made = {}
    for name, example in call.items():
        tensor = example.tensor
        for place, dynamic_dim in example.dynamic_dims.items():
            if tensor.shape[place] != 1 or dynamic_dim.high == 1:
                continue
            key = dynamic_dim.name or f"{name}.{place}"
            length = lengths.setdefault(key, BATCH + len(lengths))
            length = length if dynamic_dim.high is None else min(length, dynamic_dim.high)
            tensor = tensor.repeat(*[length if i == place else 1 for i in range(tensor.dim())])
        dynamic_dims = {
            p: replace(w, fixed=w.fixed or example.tensor.shape[p]) for p, w in example.dynamic_dims.items()
        }
        made[name] = replace(example, tensor=tensor, dynamic_dims=dynamic_dims)
    return made


def _tensor_from_spec(spec: InputSpec, turn: int, sizes: dict[str, int]) -> torch.Tensor:
    assert spec.shape is not None
    dtype = dtype_named(spec.dtype or "float32")
    rows = _PICTURES if len(spec.shape) >= 4 and dtype.is_floating_point else _OTHERS
    row = rows[min(turn, len(rows) - 1)]
    shape = []
    used = 0
    for place, dim in enumerate(spec.shape):
        if dim.size is not None:
            shape.append(dim.size)
            continue
        if dim.name not in sizes or dim.name is None:
            size = BATCH if place == 0 else row[min(used, len(row) - 1)]
            if dim.usual is not None and rows is _PICTURES:
                size = dim.usual + used * STEP  # different ones, which a capture does not treat as one
            used += place > 0
            if _is_sum(dim.name):
                size = _sum(str(dim.name), sizes, f"the dim {dim} of {spec.name}")
            size = max(size, dim.low or 1)
            size = size if dim.high is None else min(size, dim.high)
            if dim.name is None:
                shape.append(size)
                continue
            sizes[dim.name] = size
        shape.append(sizes[dim.name])
    return example_tensor(shape, dtype)


def lengthened_call(call: Call, every: bool = False) -> Call | None:
    """Return the same call with the shortest user-requested dynamic dims made longer; None if there are none.

    every: also those that are dynamic without the user's request.
    """

    def is_short(example: Example, place: int, dynamic_dim: DynamicDim) -> bool:
        return (dynamic_dim.asked or every) and example.tensor.shape[place] == BATCH

    dynamic_dims = [w for e in call.values() for i, w in e.dynamic_dims.items() if is_short(e, i, w)]
    if not dynamic_dims or any((w.high or _LONGER) < _LONGER for w in dynamic_dims):
        return None
    return _with_sizes(call, lambda name, *dim: _LONGER if is_short(*dim) else None)


_LONGER = 24
"""A length that can be split into many numbers of equal pieces."""


def long_call(call: Call) -> Call | None:
    """Return the same call with every user-requested dynamic dim several times as long; None if impossible.

    Strided layers reduce a short one to length 1, which torch.export fixes. Dims of one name keep a common length.
    """
    dynamic_dims = [(e.tensor.shape[i], w) for e in call.values() for i, w in e.dynamic_dims.items() if w.asked]
    if not dynamic_dims or any(w.high is not None and w.high < _long(size) for size, w in dynamic_dims):
        return None
    return _with_sizes(
        call, lambda name, e, place, dynamic_dim: _long(e.tensor.shape[place]) if dynamic_dim.asked else None
    )


def resized_call(call: Call, sizes: Mapping[tuple[str, int], int], fixed: Collection[tuple[str, int]]) -> Call:
    """Return the same call with dims of these sizes, by input and position; those at `fixed` become static."""
    made = _with_sizes(call, lambda name, example, place, dynamic_dim: sizes.get((name, place)))
    return {
        name: replace(e, dynamic_dims={p: w for p, w in e.dynamic_dims.items() if (name, p) not in fixed})
        for name, e in made.items()
    }


def _with_sizes(call: Call, size_of: Callable[[str, Example, int, DynamicDim], int | None]) -> Call:
    """Return the same call with other sizes; None keeps a size, and an example without changes keeps its numbers.

    A dim named as a sum of others (`past+new`) gets the sum of the new sizes.
    """
    made, lengths = dict(call), dict[str, int]()
    dims = [(n, e, place, dynamic_dim) for n, e in call.items() for place, dynamic_dim in e.dynamic_dims.items()]
    shapes = {name: list(example.tensor.shape) for name, example in call.items()}
    for name, example, place, dynamic_dim in sorted(dims, key=lambda dim: _is_sum(dim[3].name)):
        if _is_sum(dynamic_dim.name):
            shapes[name][place] = _sum(str(dynamic_dim.name), lengths, f"the dim {dynamic_dim.name} of {name}")
        else:
            shapes[name][place] = size_of(name, example, place, dynamic_dim) or shapes[name][place]
            lengths[dynamic_dim.name or ""] = shapes[name][place]
    for name, shape in shapes.items():
        if shape != list(call[name].tensor.shape):
            made[name] = replace(call[name], tensor=example_tensor(shape, call[name].tensor.dtype))
    return made


def _long(size: int) -> int:
    return size * (8 if size < _LONG else 2)


_LONG = 64
"""A length that strided layers do not reduce to one."""


def example_tensor(shape: Sequence[int], dtype: torch.dtype) -> torch.Tensor:
    """Return uniform numbers in 0…1, or zeros for integers and booleans, the same each time."""
    if dtype.is_floating_point or dtype.is_complex:
        return torch.rand(tuple(shape), generator=torch.Generator().manual_seed(0), dtype=torch.float32).to(dtype)
    return torch.zeros(tuple(shape), dtype=dtype)
