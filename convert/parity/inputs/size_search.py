"""Find sizes of dynamic dims at which a source runs, by trial, if it rejects the default ones.

A file may declare a size as unknown and still work at one size only. Examples are a dense layer after a flattened map,
a table of positions, and halves that must be integers. Sizes that the graph's own constants suggest are tried first.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations, islice, product, takewhile
from math import isqrt, prod
from time import monotonic

import onnx
import onnx_ir as ir

from convert.errors import ConvertError, ResourceLimit, Unsupported, UsageError
from convert.graph.shape_inference import infer_proto, weightless_proto
from convert.graph.tensors import dtype_name
from convert.graph.values import constant, known_dims
from convert.parity.inputs.feeds import (
    NO_SPANS,
    Spans,
    complete_sizes,
    fed_shape,
    feed_sizes,
    free_dims,
    size_facts,
    sized_feed,
)
from convert.parity.inputs.size_guards import broken_guards
from convert.processes.process import execute
from convert.processes.run_here import PROBE, PROBE_FIRST, Limits
from convert.request.options import Options
from convert.request.source import Source

Sizes = dict[str, int]

_COMMON = (32, 64, 224, 1, 128, 256, 8, 28, 299, 384, 512, 3, 4, 5, 77, 100)
_STRIDES = (1, 2, 4, 8, 16, 32)
# Most sizes suggested by a graph, most candidate sets of sizes, and most sets that the source is run with.
_MOST_OWN, _MOST_THOUGHT, _MOST_TRIED = 40, 2000, 60
# Time limit for shape inference on the candidate sets.
_SECONDS = 10.0
# Largest size of a dim, the size that remains after slices, and most elements in all inputs together.
_LARGEST, _LEFT_OVER, _MOST_ELEMENTS = 1024, 16, 1 << 21
# Smallest margin that the common sizes do not exceed anyway.
_WIDE_MARGIN = 64


def search_sizes(
    source: Source,
    graph: ir.Model,
    error: ConvertError,
    options: Options,
    limits: Limits,
    count: int,
    spans: Spans = NO_SPANS,
) -> list[Sizes]:
    """Return up to `count` sets of sizes at which the source runs, the first of them the nearest to the usual ones.

    error: the source's error at the usual sizes. It is raised again if there is nothing to try. If no set runs, an
    error of the same class lists the sizes that were tried, and its hint names `--input`. spans: limits of the
    integers.
    """
    free = free_dims(graph)
    if not free or isinstance(error, (Unsupported, ResourceLimit, UsageError)):
        raise error
    usual = next(iter(feed_sizes(graph, 1)))
    tried = list(islice(_that_fit(graph, _candidates(graph, usual)), _MOST_TRIED))
    runs = _probe(source, graph, tried, options, limits, PROBE_FIRST, spans)
    if True not in runs:
        tried = tried[: len(runs)]
        raise type(error)(_refusal(error, tried, free), hint=error.hint or _remedy(error, graph, free))
    first = tried[runs.index(True)]
    others = list(islice(_that_fit(graph, _variants(graph, first)), _MOST_TRIED))
    inner = [n for n in free if not free[n]]

    def running(asked: list[Sizes], how: str) -> list[Sizes]:
        ran = _probe(source, graph, asked, options, limits, how, spans)
        return [sizes for sizes, runs in zip(asked, ran, strict=False) if runs]

    taken: list[Sizes] = []
    if count == 2 or len(inner) < 2:  # one set that changes every dim is enough: long inputs take time
        taken = running([s for s in others if all(s[n] != first[n] for n in free)], PROBE_FIRST)
    taken = taken or running(others, PROBE)
    return _spread_choice(first, taken, count, inner)


def describe_search(graph: ir.Model, found: Sequence[Sizes]) -> str:
    """Return the result of the search as a sentence for the verdict's notes."""
    usual = next(iter(feed_sizes(graph, 1)))
    shown = " and ".join(dict.fromkeys(_size_text(s, free_dims(graph)) for s in found))
    where = "at the sizes that are usual" if usual != found[0] else "at every size near by"
    return f"the source does not run {where}: compared at {shown}, which were found by trial (--input names others)"


def _refusal(error: ConvertError, tried: Sequence[Sizes], free: Iterable[str]) -> str:
    sizes = "; ".join(_size_text(s, free) for s in tried[:12])
    more = f" and {len(tried) - 12} more" if len(tried) > 12 else ""
    return f"{error.sentence}; it runs at none of the sizes that were tried: {sizes}{more}"


OTHER_INPUTS = "give inputs that the model takes with --inputs data.npz"
_OUT_OF_RANGE = re.compile(
    r"out of (data )?(bounds|range)|out-of-bounds|is not in \[|indices? .*must be", re.IGNORECASE
)
"""Messages of runtimes about an index outside a table."""


def _remedy(error: ConvertError, graph: ir.Model, free: Iterable[str]) -> str:
    """Return a hint with the options that may make the source run, depending on its error."""
    integers = any(value.dtype is not None and value.dtype.is_integer() for value in graph.graph.inputs)
    if integers and _OUT_OF_RANGE.search(error.message):  # otherwise the numbers follow from the sizes
        return f"it looks up numbers that its tables do not have: {OTHER_INPUTS}"
    specs = []
    for value in graph.graph.inputs:
        dims = known_dims(value)
        if dims is not None and any(not isinstance(d, int) for d in dims) and value.dtype is not None:
            shape = ",".join(str(d) if isinstance(d, int) else "SIZE" for d in dims)
            specs.append(f"--input '{value.name}:{dtype_name(value.dtype)}[{shape}]'")
    return f"say the sizes that it takes: {' '.join(specs)}, or give inputs with --inputs data.npz"


def _size_text(sizes: Mapping[str, int], free: Iterable[str]) -> str:
    return ", ".join(f"{n}={sizes[n]}" for n in free)


def _probe(
    source: Source,
    graph: ir.Model,
    sizes: Sequence[Sizes],
    options: Options,
    limits: Limits,
    how: str,
    spans: Spans,
) -> list[bool]:
    """Return for each of these sizes whether the source runs, as far as time allows.

    All are False if the trial exceeds the limits of its process.
    """
    if not sizes:
        return []
    feeds = [sized_feed(graph, 0, s, spans).arrays for s in sizes]
    running = execute(source, feeds, (how,), options, limits)
    try:
        found = running.results()[how]
    except ConvertError:
        return [False] * len(sizes)
    finally:
        running.stop()
    return [False] * len(sizes) if isinstance(found, Unsupported) else [bool(o["runs"]) for o in found]


def _candidates(graph: ir.Model, usual: Mapping[str, int]) -> Iterator[Sizes]:
    """Yield sets of sizes: the usual ones, then one size for the inner dims, for pairs, all dims, and single dims."""
    free = free_dims(graph)
    leading, inner = [n for n in free if free[n]], [n for n in free if not free[n]]
    start = {n: usual[n] for n in free}
    own = suggested_sizes(graph)
    numbers = list(dict.fromkeys([*own, *_COMMON]))
    yield start
    for batch in ({}, dict.fromkeys(leading, 1)):
        yield {**start, **batch}
        for number in numbers:
            yield {**start, **dict.fromkeys(inner, number), **batch}
    for batch in ({}, dict.fromkeys(leading, 1)):
        for one, other in combinations(inner, 2):
            for a, b in product(own[:6], repeat=2):
                yield {**start, **batch, one: a, other: b}
    for number in numbers:
        yield dict.fromkeys(free, number)
    for batch in ({}, dict.fromkeys(leading, 1)):
        for name, number in product(free, numbers):
            yield {**start, **batch, name: number}


def _variants(graph: ir.Model, found: Mapping[str, int]) -> Iterator[Sizes]:
    """Yield sizes near those that run: changed for the leading dims, for all others together, and for each dim."""
    free = free_dims(graph)
    start = {n: found[n] for n in free}
    leading, inner = [n for n in free if free[n]], [n for n in free if not free[n]]
    if leading:
        yield {**start, **dict.fromkeys(leading, 1)}
    steps = (lambda n: n + 1, lambda n: 2 * n, lambda n: n + 8, lambda n: n + 32, lambda n: max(1, n // 2))
    groups = [g for g in (leading, inner, *([n] for n in free)) if g]
    for group in groups:
        for step in steps:
            yield {**start, **{n: step(start[n]) for n in group}}
    for step in steps[:4]:
        yield {n: step(size) for n, size in start.items()}


def _spread_choice(first: Sizes, taken: Sequence[Sizes], count: int, inner: Sequence[str] = ()) -> list[Sizes]:
    """Return `first` and up to `count` - 1 other sets, each of which changes other dims; sets with most changes come
    first.

    If the `inner` dims are equal within each of these sets, a set in which they differ is added.
    """
    chosen, changed = [first], set[str]()
    for sizes in sorted(taken, key=lambda s: -sum(s[n] != first[n] for n in s)):
        new = {n for n in sizes if sizes[n] != first[n]} - changed
        if new and len(chosen) < count:
            chosen.append(sizes)
            changed |= new
    unlike = [sizes for sizes in taken if len({sizes[n] for n in inner}) > 1]
    if len(chosen) < count and all(len({sizes[n] for n in inner}) < 2 for sizes in chosen):
        chosen += unlike[:1]
    return chosen


def _that_fit(graph: ir.Model, candidates: Iterable[Sizes]) -> Iterator[Sizes]:
    """Yield the distinct sets within bounds and guards whose shapes do not contradict each other in ONNX's inference.

    If shape inference rejects all sets, its result is ignored.
    """
    bounds, guards = size_facts(graph)
    allowed: list[Sizes] = []
    for sizes in islice(candidates, _MOST_THOUGHT):
        within = all(
            (low is None or sizes[n] >= low) and (high is None or sizes[n] <= high)
            for n, (low, high) in bounds.items()
            if n in sizes
        )
        whole = complete_sizes(graph, sizes)
        if (
            within
            and whole not in allowed
            and _elements(graph, whole) <= _MOST_ELEMENTS
            and not broken_guards(guards, whole)
        ):
            allowed.append(whole)
    proto = weightless_proto(graph, value_info=False)
    end = monotonic() + _SECONDS
    asked = takewhile(lambda sizes: monotonic() < end, allowed)
    fitting = list(islice((s for s in asked if _shapes_agree(graph, proto, s)), _MOST_TRIED))
    return iter(fitting or allowed)


def _elements(graph: ir.Model, sizes: Mapping[str, int]) -> int:
    shapes = [fed_shape(value, sizes) for value in graph.graph.inputs]
    return sum(prod(shape) for shape in shapes)


def _shapes_agree(graph: ir.Model, proto: onnx.ModelProto, sizes: Sizes) -> bool:
    inputs = {v.name: v for v in proto.graph.input}
    for value in graph.graph.inputs:
        shape = inputs[str(value.name)].type.tensor_type.shape
        shape.CopyFrom(onnx.TensorShapeProto(dim=[{"dim_value": size} for size in fed_shape(value, sizes)]))
    try:
        infer_proto(proto, strict=True)
    except (onnx.shape_inference.InferenceError, RuntimeError, ValueError):
        return False
    return True


def suggested_sizes(graph: ir.Model) -> list[int]:
    """Return sizes suggested by the graph's constants: table lengths, reshape targets, sides of flattened maps."""
    tables: list[int] = []
    flattened: list[int] = []
    channels: set[int] = {1}
    for node in graph.graph.all_nodes():
        shapes = [None if constant(v) is None else known_dims(v) for v in node.inputs if v is not None]
        if node.op_type in ("Conv", "ConvTranspose") and len(shapes) > 1 and shapes[1]:
            channels |= {d for d in shapes[1][:2] if isinstance(d, int)}
        elif node.op_type in ("MatMul", "Gemm") and len(shapes) > 1 and shapes[1] and len(shapes[1]) > 1:
            flattened += [d for d in shapes[1][-2:] if isinstance(d, int)]
        elif node.op_type in ("Reshape", "Expand") and len(node.inputs) > 1:
            target = constant(node.inputs[1])
            numbers = [] if target is None else [int(n) for n in target.numpy().ravel()]
            tables += [*numbers, prod(n for n in numbers if n > 0)]
            flattened += numbers
        elif node.op_type in ("Add", "Sub", "Mul", "Where", "Concat", "Gather"):
            tables += [d for shape in shapes if shape for d in shape if isinstance(d, int)]
    sides = [
        isqrt(number // c) * stride
        for stride in _STRIDES
        for number in dict.fromkeys(flattened)
        for c in sorted(channels, reverse=True)
        if number > 0 and number % c == 0 and isqrt(number // c) ** 2 == number // c > 1
    ]
    lines = [number // c * stride for stride in _STRIDES for number in dict.fromkeys(flattened) for c in channels
             if number > 0 and number % c == 0 and c > 1]  # fmt: skip
    every = [n for n in (*tables, *flattened, *sides, *lines) if 1 < n <= _LARGEST]
    return list(dict.fromkeys([*_sizes_with_margins(graph), *every]))[:_MOST_OWN]


def _sizes_with_margins(graph: ir.Model) -> list[int]:
    """Return sizes that remain positive behind slices whose margins are larger than the usual sizes.

    `x[:, 5000:-5000]` of a shorter sequence is rejected, or empty, whatever other inputs the model takes.
    """
    margins = []
    for node in graph.graph.all_nodes():
        if node.op_type == "Slice" and not node.domain:
            starts, ends = (constant(v) for v in node.inputs[1:3])
            if starts is not None and ends is not None:
                pairs = zip(starts.numpy().ravel(), ends.numpy().ravel(), strict=False)
                margins += [int(max(start, 0)) + int(max(-end, 0)) for start, end in pairs]
    wide = [m for m in margins if _WIDE_MARGIN < m <= _MOST_ELEMENTS]
    return [m + _LEFT_OVER for m in dict.fromkeys([*wide, sum(wide)]) if m]
