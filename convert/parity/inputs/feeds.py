"""Generate the inputs that a pair is compared on: the user's, or seeded ones in ranges and sizes the graph implies."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
import onnx_ir as ir

from convert.errors import ResourceLimit, UsageError
from convert.graph.metadata import DIMS_KEY, GUARDS_KEY, RANGE_KEY
from convert.graph.tensors import dtype_name, numpy_dtype
from convert.graph.values import constant
from convert.parity.inputs.boundary_values import mix_boundary_values, uses_of_content
from convert.parity.inputs.noted_integers import noted_integers
from convert.parity.inputs.size_guards import broken_guards, declared_size, evaluate, fit_sizes
from convert.parity.inputs.special import reaches_shapes, special_array, special_rows
from convert.parity.inputs.word_inputs import drawn_words
from convert.request.given_arrays import with_pairs
from convert.request.nearest import saving_hint

# Limit of integers of 32 bits and more without an implied range, and sizes of dynamic dims without a hint.
_INTEGERS = 10
WITHOUT_ZERO = (1, _INTEGERS - 1)
_BATCH, _SPATIAL, _OF_MANY = 2, 16, 4  # used if an input has so many dynamic dims that 16 of each would fill the memory
_ELEMENTS = 1 << 48  # NumPy cannot address larger arrays, and its own error is unclear
_MOST = 64  # largest upper bound that is used as a size
GIVEN = "given inputs"
"""Label of a feed from the user."""
NO_SPANS: Mapping[str, tuple[int, int]] = {}

RANK = "number of dims"
"""Key among the sizes of dynamic dims for the rank of inputs of unknown rank, which is the same for all of them."""

_OPEN_DIMS = (2, 3, 8, 4)
_RANKS = (2, 1, 3)


@dataclass(frozen=True)
class Feed:
    """One set of inputs by name, and its label in the report.

    edge: the source may reject the set, because dynamic dims have their smallest sizes or the numbers are unusual.
    special: the numbers include NaN and infinities.
    """

    label: str
    arrays: Mapping[str, np.ndarray]
    edge: bool = False
    special: bool = False
    uneven: bool = False
    """Beyond the usual sizes or numbers (`uneven.py`); if the source rejects the set, later runs leave it out."""


def given_feed(model: ir.Model, arrays: Mapping[Any, np.ndarray]) -> Feed:
    """Return the user's arrays, by name or index, as a feed.

    Raises `UsageError` for names, dtypes or ranks that the model does not have.
    """
    names = [str(v.name) for v in model.graph.inputs]
    arrays = {names[k] if isinstance(k, int) and k < len(names) else str(k): a for k, a in arrays.items()}
    if set(arrays) != set(names):
        raise UsageError(f"the inputs given are {sorted(arrays)}, the model's are {names}", hint=saving_hint(names))
    arrays = {str(v.name): with_pairs(arrays[str(v.name)], v) for v in model.graph.inputs}
    for value in model.graph.inputs:
        array = arrays[str(value.name)]
        if value.dtype is not None and array.dtype != numpy_dtype(value.dtype):
            wanted = dtype_name(value.dtype)
            raise UsageError(
                f"input {value.name!r} is {array.dtype}, the model takes {wanted}",
                hint=f"save it as {wanted}: numpy.savez('data.npz', {value.name}=array.astype('{wanted}'))",
            )
        if value.shape is not None and not _shape_fits(array.shape, value.shape):
            raise UsageError(
                f"input {value.name!r} has shape {list(array.shape)}, the model takes {value.shape}",
                hint="save it with these dims; those with names may have any size",
            )
    return Feed(GIVEN, arrays)


Spans: TypeAlias = Mapping[str, tuple[int, int]]
"""The smallest and the largest integer of inputs, by name."""


def generate_feeds(
    model: ir.Model,
    seeds: int = 3,
    sizes: Sequence[Mapping[str, int]] = (),
    spans: Spans = NO_SPANS,
    alike: bool = False,
) -> list[Feed]:
    """Return seeded feeds, normal and uniform in turn, at several sizes of every dynamic dim, including batch size 1.

    Integers stay in the range that their reader noted, or that their consumers imply: rows of a Gather, depth of a
    OneHot, indices into a cache. sizes: sizes to use in turn instead of the usual ones. spans: narrower limits of
    integers. alike: whether the spatial dims have one size.
    """
    if sizes:
        return [sized_feed(model, seed, sizes[seed % len(sizes)], spans) for seed in range(seeds)]
    return [sized_feed(model, seed, dims, spans) for seed, dims in enumerate(feed_sizes(model, seeds, alike))]


def closer_spans(model: ir.Model, examples: Mapping[Any, np.ndarray]) -> list[dict[str, tuple[int, int]]]:
    """Return limits to try in turn for integer inputs without a noted range; [] if there are no such inputs.

    The limits are those of the user's example. Without one, the first limits exclude 0, which is no divisor. The second
    allow 1 alone, which is also a valid index into anything with two elements.
    """
    names = [str(v.name) for v in model.graph.inputs]
    given = {names[k] if isinstance(k, int) and k < len(names) else str(k): np.asarray(a) for k, a in examples.items()}
    wide, close = {}, {}
    for value in model.graph.inputs:
        name = str(value.name)
        if value.dtype is None or numpy_dtype(value.dtype).kind not in "iu" or RANGE_KEY in value.metadata_props:
            continue
        example = given.get(name, np.zeros(0))
        own = (int(example.min()), int(example.max())) if example.size else None
        wide[name], close[name] = own or WITHOUT_ZERO, own or (1, 1)
    return [spans for spans in ([wide] if wide == close else [wide, close]) if spans]


def smallest_feed(model: ir.Model, seed: int) -> Feed | None:
    """Return a feed with each dynamic dim at its smallest size: 0 if its bounds say so, 1 if nothing is known.

    Returns None if `generate_feeds` covers these sizes. The source may reject the feed, because a reader gives 1 for
    dims whose minimum it does not know.
    """
    free, usual = free_dims(model), list(feed_sizes(model, 3))
    sizes = possible_sizes(model, dict.fromkeys(free, 0))
    if sizes is None or all(any(tried[name] <= sizes[name] for tried in usual) for name in free):
        return None
    return replace(sized_feed(model, seed, sizes), edge=True)


def special_feed(model: ir.Model, seed: int, denormals: bool = True, large: bool = False) -> Feed | None:
    """Return a feed with NaN, infinities, zeros, denormals and limits of integers; None if no input takes any.

    The leading dims have a size that gives each row of `special_rows` its place, if they may. denormals, large: as
    there.
    """
    sizes, rows = next(iter(feed_sizes(model, 1))), special_rows(denormals=denormals, large=large)
    wanted = {n: len(rows) if leading else sizes[n] for n, leading in free_dims(model).items()}
    dims = possible_sizes(model, wanted) or sizes
    plain = sized_feed(model, seed, dims).arrays
    arrays = {
        str(v.name): special_array(v, plain[str(v.name)], bool(implied_limits(v)), rows) for v in model.graph.inputs
    }
    if all(np.array_equal(arrays[n], plain[n]) for n in arrays):
        return None
    size_text = "".join(f", {k}={n}" for k, n in dims.items())
    kinds = [*(kind for row in rows for kind in row), "limits of integers"]
    label = f"special values ({', '.join(kinds)}){size_text}"
    return Feed(label, arrays, edge=True, special=True)


def sized_feed(model: ir.Model, seed: int, dims: Mapping[str, int], spans: Spans = NO_SPANS) -> Feed:
    """Return a feed for this seed at these sizes: normal numbers for even seeds, uniform ones for odd seeds."""
    rng = np.random.default_rng(seed)
    normal = seed % 2 == 0
    arrays = {}
    for place, value in enumerate(model.graph.inputs):
        limits, span = implied_limits(value), spans.get(str(value.name))
        array = _random_array(value, dims, rng, normal, limits, span)
        if array.dtype.kind == "b" and array.size == 1:  # by chance, all sets could have the same number
            array = np.full_like(array, (seed + place) % 2 == 0)
        elif not spans and RANGE_KEY not in value.metadata_props:
            known = _known_limits(limits, dims)
            array = mix_boundary_values(value, array, seed, min(known, default=None))
        arrays[str(value.name)] = array
    sizes = ", ".join(f"{k}={n}" for k, n in dims.items())
    return Feed(f"seed {seed}, {'normal' if normal else 'uniform'}" + (f", {sizes}" if sizes else ""), arrays)


Bounds: TypeAlias = dict[str, list[int | None]]


def size_facts(model: ir.Model) -> tuple[Bounds, list[str]]:
    """Return the bounds and the guards of the dynamic dims."""
    bounds = json.loads(model.metadata_props.get(DIMS_KEY, "{}"))
    if any(v.shape is None for v in model.graph.inputs):
        bounds[RANK] = [0, len(_OPEN_DIMS)]
    return bounds, json.loads(model.metadata_props.get(GUARDS_KEY, "[]"))


def _dynamic_dims(model: ir.Model) -> dict[str, bool]:
    """Return the dynamic dims of the inputs, each with whether it is a leading dim, like a batch."""
    names: dict[str, bool] = {RANK: False} if any(v.shape is None for v in model.graph.inputs) else {}
    for value in model.graph.inputs:
        for axis, dim in enumerate(value.shape or ()):
            if isinstance(dim, ir.SymbolicDim):
                key = dim.value if dim.value is not None else f"{value.name}.{axis}"
                names[key] = names.get(key, False) or axis == 0
    return names


def free_dims(model: ir.Model) -> dict[str, bool]:
    """Return the dynamic dims that do not depend on others, each with whether it is a leading dim."""
    names = _dynamic_dims(model)
    return {name: leading for name, leading in names.items() if not _is_derived(name, names)}


def complete_sizes(model: ir.Model, sizes: Mapping[str, int]) -> dict[str, int]:
    """Return the sizes together with the dims that depend on them, such as "2*height"."""
    return {**sizes, **{name: declared_size(name, sizes) for name in _dynamic_dims(model) if name not in sizes}}


def possible_sizes(model: ir.Model, wanted: Mapping[str, int]) -> dict[str, int] | None:
    """Return sizes of all dynamic dims; those of free dims are as near to `wanted` as bounds and guards allow.

    The smallest size without a known bound is 1. The result is None if no sizes meet the guards.
    """
    bounds, guards = size_facts(model)
    within = {}
    for name, size in wanted.items():
        low, high = (bounds.get(name) or [None, None])[:2]
        within[name] = max(1 if low is None else low, size if high is None else min(size, high))
    sizes = fit_sizes(within, guards, bounds)
    return None if broken_guards(guards, sizes) else complete_sizes(model, sizes)


def unlike_steps(model: ir.Model) -> dict[str, int]:
    """Return by how much each dim exceeds the first, so that spatial dims differ from each other, and batches too.

    Unnamed dims at the same axis of several inputs may have to be equal, so they get the same value.
    """
    unnamed = {f"{v.name}.{axis}": axis for v in model.graph.inputs for axis in range(len(v.shape or ()))}
    free = free_dims(model)
    inner = [name for name, leading in free.items() if not leading and name != RANK]
    keys = list(dict.fromkeys(unnamed.get(name, name) for name in inner))
    batches = [name for name, leading in free.items() if leading and name not in unnamed]
    steps = {name: place % 3 for place, name in enumerate(batches)}
    return {**steps, **{name: keys.index(unnamed.get(name, name)) % 3 for name in inner}}


def feed_sizes(model: ir.Model, count: int, alike: bool = False) -> Iterable[dict[str, int]]:
    """Yield sizes of the dynamic dims for each feed, adapted to the guards: usual sizes first, then edge cases.

    The third has spatial dims of different sizes, unless `alike`.
    """
    bounds, guards = size_facts(model)
    free = free_dims(model)
    steps = {} if alike else unlike_steps(model)
    many = any(sum(isinstance(d, ir.SymbolicDim) for d in v.shape or ()) > 6 for v in model.graph.inputs)
    for index in range(count):
        sizes = {}
        for name, leading in free.items():
            low, high = (bounds.get(name) or [1, None])[:2]
            low = 1 if low is None else low
            if name == RANK:
                sizes[name] = _RANKS[index % 3]
                continue
            usual = _BATCH if leading else _OF_MANY if many else _SPATIAL
            least = low if leading or low > 1 else usual
            most = high if high is not None and high <= _MOST else usual + 1 + steps.get(name, 0)
            size = [usual, least, most][index % 3]
            sizes[name] = max(low, size if high is None else min(high, size))
        yield complete_sizes(model, fit_sizes(sizes, guards, bounds))


def _is_derived(name: str, names: Iterable[str]) -> bool:
    """Return whether a dim depends on others: its name is an expression of their names."""
    if name.isidentifier():
        return False
    try:
        evaluate(name, dict.fromkeys(filter(str.isidentifier, names), 1))
    except ValueError:
        return False
    return True


def fed_shape(value: ir.Value, dims: Mapping[str, int]) -> list[int]:
    """Return the shape of an input at these sizes of the dynamic dims; inputs of unknown rank share one shape."""
    if value.shape is None:
        return list(_OPEN_DIMS[len(_OPEN_DIMS) - dims[RANK] :])
    return [
        d if isinstance(d, int) else dims[d.value if d.value is not None else f"{value.name}.{axis}"]
        for axis, d in enumerate(value.shape)
    ]


def _random_array(
    value: ir.Value,
    dims: Mapping[str, int],
    rng: np.random.Generator,
    normal: bool,
    limits: Sequence[Limit],
    span: tuple[int, int] | None,
) -> np.ndarray:
    if value.dtype is None:
        raise UsageError(f"the dtype of input {value.name!r} is not known", hint="give inputs with --inputs data.npz")
    shape = fed_shape(value, dims)
    if math.prod(shape) > _ELEMENTS:
        text = f"the input {value.name!r} has {math.prod(shape):,} elements, which no machine holds"
        raise ResourceLimit(text, hint="describe a smaller one with --input, or is the file damaged?")
    dtype = numpy_dtype(value.dtype)
    if value.dtype == ir.DataType.STRING:
        return drawn_words(value, shape, rng)
    if dtype.kind == "b":
        return np.asarray(rng.random(shape) < 0.5)  # NumPy returns a bool for shape (), which no runtime accepts
    if dtype.kind in "iu":
        return np.asarray(_random_integers(value, dims, rng, shape, limits, span)).astype(dtype)
    if (known := _known_limits(limits, dims)) and dtype.kind != "c":
        return np.asarray(rng.integers(0, max(min(known), 1), size=shape)).astype(dtype)
    array = rng.standard_normal(shape) if normal else rng.uniform(0.0, 1.0, shape)
    array = array + 1j * rng.standard_normal(shape) if dtype.kind == "c" else array
    return np.asarray(array).astype(dtype)


Limit: TypeAlias = int | str
"""A number of rows: an integer, or the name of a dynamic dim."""


def _random_integers(
    value: ir.Value,
    dims: Mapping[str, int],
    rng: np.random.Generator,
    shape: list[int],
    limits: Sequence[Limit],
    span: tuple[int, int] | None,
) -> np.ndarray:
    noted = json.loads(value.metadata_props.get(RANGE_KEY, "null"))
    if noted is not None:
        low, high = (integer_bound(bound, dims) for bound in noted[:2])
        return noted_integers(low, high, noted[2:], rng, shape)
    known = _known_limits(limits, dims)
    low, end = 0, max(min(known), 1) if known else _INTEGERS
    dtype = numpy_dtype(value.dtype or ir.DataType.INT64)
    if span is None and not known and dtype.itemsize < 4 and not reaches_shapes(value):
        ends = np.iinfo(dtype)  # images and audio
        low, end = int(ends.min), int(ends.max) + 1
    if span is not None:
        low, end = min(span[0], end - 1) if known else span[0], min(span[1] + 1, end) if known else span[1] + 1
    return rng.integers(low, end, size=shape)


def _known_limits(limits: Sequence[Limit], dims: Mapping[str, int]) -> list[int]:
    """Return the limits as integers, without those of dims that have no size here."""
    return [integer_bound(limit, dims) for limit in limits if isinstance(limit, int) or limit in dims]


def integer_bound(bound: Limit, dims: Mapping[str, int]) -> int:
    """Return a bound as an integer: itself, or the value of an expression of sizes."""
    return bound if isinstance(bound, int) else declared_size(bound, dims)


def implied_limits(value: ir.Value) -> list[Limit]:
    """Return the upper bounds of an input that Gather, OneHot, writes to rows and inverted masks imply."""
    if value.dtype is None or not (value.dtype.is_integer() or value.dtype.is_floating_point()):
        return []
    uses = list(uses_of_content(value))
    if value.dtype.is_floating_point():  # floats that a Cast turns into indices
        uses = [(node, index) for node, index in uses if node.op_type != "Sub"]
    return [limit for node, index in uses if (limit := _implied_bound(node, index)) is not None]


_BY_AXIS = frozenset({"Gather", "GatherElements", "ScatterElements"})
_BY_ROWS = frozenset({"GatherND", "ScatterND"})


_PICTURES = {"RoiAlign": 2, "MaxRoiPool": 1}
"""Index of the input with the image number of each region, by operator."""


def _implied_bound(node: ir.Node, index: int) -> Limit | None:
    data = node.inputs[0]
    if node.op_type == "Sub" and index == 1 and (one := constant(data)) is not None and one.size == 1:
        return 2 if float(one.numpy().reshape(())) == 1 else None  # 1 - mask: other numbers would undo the masking
    if node.op_type in _BY_AXIS and index == 1:
        return _axis_size(data, node.attributes.get_int("axis", 0))
    if node.op_type in _BY_ROWS and index == 1 and not node.attributes.get_int("batch_dims", 0):
        places = node.inputs[1]
        single = places is not None and places.shape is not None and places.shape[-1] == 1
        return _axis_size(data, 0) if single else None
    if index == _PICTURES.get(node.op_type):  # torchvision's kernels read out of bounds for any other image
        return _axis_size(data, 0)
    if node.op_type == "TensorScatter" and index == 2:
        return _axis_size(data, node.attributes.get_int("axis", -2))
    if node.op_type == "OneHot" and index == 0:
        depth = node.inputs[1]
        if depth is not None and depth.const_value is not None:
            return int(depth.const_value.numpy().reshape(-1)[0])
    return None


def _axis_size(data: ir.Value | None, axis: int) -> Limit | None:
    if data is None or data.shape is None:
        return None
    rows = data.shape[axis]
    return rows if isinstance(rows, int) else rows.value


_SETS = 3
"""Number of input sets that are made of samples if the batch size is fixed."""


def inputs_from_samples(model: ir.Model, samples: Mapping[str, np.ndarray], most: int = 32) -> dict[str, np.ndarray]:
    """Return inputs from calibration data: the first samples as one batch, or as `_SETS` sets of a fixed batch size.

    The sets are named as in a file of `save_feeds`: "x", "x@1", "x@2".
    """
    found = {str(v.name): _batches(np.asarray(samples[str(v.name)]), v.shape, most) for v in model.graph.inputs}
    sets = min(map(len, found.values()), default=0)
    return {
        f"{name}@{number}" if number else name: batch
        for name, batches in found.items()
        for number, batch in enumerate(batches[:sets])
    }


def _batches(array: np.ndarray, shape: ir.Shape | None, most: int) -> list[np.ndarray]:
    """Return samples in batches for an input of this shape: one of at most `most`, or several of a fixed size."""
    if shape is None or not array.ndim:
        return [array]
    if array.ndim == len(shape) + 1:
        return list(array[:_SETS])
    size = shape[0] if len(shape) else most
    if not isinstance(size, int) or not len(shape):
        return [array[:most]]
    whole = [array[n * size : (n + 1) * size] for n in range(_SETS) if (n + 1) * size <= len(array)]
    return whole if size and whole else [array]


def _shape_fits(shape: tuple[int, ...], expected: ir.Shape) -> bool:
    return len(shape) == len(expected) and all(
        not isinstance(e, int) or e == s for s, e in zip(shape, expected, strict=True)
    )
