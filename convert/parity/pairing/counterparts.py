"""Pair the inputs and outputs of two artefacts: by name, else by order, else as the user says.

Two artefacts of different origin may name their inputs and outputs differently. If names, dtypes and shapes do not
determine the pairs, the result is an error with both lists. The order is never chosen so that the outputs agree.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
import onnx_ir as ir

from convert.errors import UsageError
from convert.graph.claims import CLAIMS_KEY, Claims, narrows
from convert.graph.metadata import DIMS_KEY, GUARDS_KEY, RANGE_KEY
from convert.graph.tensors import dtype_name, numpy_dtype
from convert.graph.values import Dim, known_dims
from convert.outcome.notes import Note
from convert.passes.layout.boundary import Moves, boundary_permutations
from convert.request.naming import Names
from convert.request.nearest import did_you_mean

NONE = Names()


@dataclass(frozen=True)
class Counterparts:
    """The right side's name of each input and output of the left side.

    order: the names of the outputs on the right, in their order there. kept: indices of the outputs on the left that
    are compared. dtypes: the dtype on the right, for each input on the left with another dtype there. notes: pairs that
    are not obvious.
    """

    inputs: Mapping[str, str]
    outputs: Mapping[str, str]
    order: Sequence[str]
    kept: Sequence[int]
    dtypes: Mapping[str, np.dtype] = field(default_factory=dict)
    notes: Sequence[Note] = ()

    def feed(self, arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Return inputs of the left side with the names and dtypes of the right side."""
        return {self.inputs[n]: a.astype(self.dtypes.get(n, a.dtype)) for n, a in arrays.items()}

    def common_feed(self, arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Return inputs of the left side, rounded to numbers that the dtypes of the right side represent as well."""
        return {n: a.astype(self.dtypes.get(n, a.dtype)).astype(a.dtype) for n, a in arrays.items()}

    def name_outputs(self, found: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Return outputs of the right side under the names of the left side. Raises `UsageError` if their number is
        wrong.
        """
        if len(found) != len(self.order):
            raise UsageError(f"it has {len(self.order)} outputs, {', '.join(self.order)}, and gave {len(found)}")
        arrays = found if set(found) == set(self.order) else dict(zip(self.order, found.values(), strict=True))
        return {left: arrays[right] for left, right in self.outputs.items()}


def find_counterparts(
    left: ir.Model, right: ir.Model, given: Mapping[str, str], layout: str, names: tuple[str, str], made: Names = NONE
) -> Counterparts:
    """Pair the inputs and outputs of two graphs. Raises `UsageError` if a pair is ambiguous or the layouts differ.

    given: the user's pairs, left name to right name; an output with an empty right name is left out. names: how the two
    artefacts are called in messages. made: the names that convert would give to the inputs and outputs of the left in
    the format of the right; they are tried after the names of the left itself.
    """
    moved = boundary_permutations(left, layout)
    lists = _Lists(left, right, names)
    known = {str(v.name) for v in (*left.graph.inputs, *left.graph.outputs)}
    if unknown := sorted(set(given) - known):
        raise lists.unknown(unknown[0], 0)
    there = {str(v.name) for v in (*right.graph.inputs, *right.graph.outputs)} | {""}
    if unknown := sorted(set(given.values()) - there):
        raise lists.unknown(unknown[0], 1)
    inputs, notes = _pair("input", list(left.graph.inputs), list(right.graph.inputs), given, made.inputs, moved, lists)
    wanted = [v for v in left.graph.outputs if given.get(str(v.name)) != ""]
    outputs, more = _pair("output", wanted, list(right.graph.outputs), given, made.outputs, moved, lists)
    compared, paired = set(wanted), set(outputs.values())  # without outputs that have no counterpart
    skipped = [str(v.name) for v in left.graph.outputs if v not in compared]
    extra = [str(v.name) for v in right.graph.outputs if v.name not in paired]
    for which, rest in zip(names, (skipped, extra), strict=True):
        if rest:
            more.append(Note(f"not compared, of {which} only: {', '.join(rest)}", code="not-compared"))
    theirs = {str(v.name): v for v in right.graph.inputs}
    dtypes = {
        str(v.name): numpy_dtype(other.dtype)
        for v in left.graph.inputs
        if (other := theirs[inputs[str(v.name)]]).dtype not in (v.dtype, None) and v.dtype is not None
    }
    more += [
        Note(f"input {n!r} is {d} in {names[1]}: both are given numbers that either holds", code="paired-otherwise")
        for n, d in dtypes.items()
    ]
    kept = [i for i, v in enumerate(left.graph.outputs) if v in compared]
    return Counterparts(inputs, outputs, [str(v.name) for v in right.graph.outputs], kept, dtypes, [*notes, *more])


_MOST_CHOICES = 250_000
"""At most this many pairs are compared by dtype and shape if names and order do not pair the inputs or outputs."""


@dataclass(frozen=True)
class _Lists:
    """Inputs and outputs of both artefacts, for error messages."""

    left: ir.Model
    right: ir.Model
    names: tuple[str, str]

    def unknown(self, name: str, side: int) -> UsageError:
        """Return the error for a name of `--map` that does not exist on one side."""
        graph = (self.left, self.right)[side].graph
        known = [str(v.name) for v in (*graph.inputs, *graph.outputs)]
        near, label = did_you_mean(name, known), self.names[side]
        hint = f"{near}--map left=right takes names of both sides: {label} has {', '.join(known)}"
        return self.error(f"--map names {name!r}, which {label} does not have", hint)

    def error(self, reason: str, hint: str = "") -> UsageError:
        lists = [
            f"{name}: {_describe(model.graph.inputs)} → {_describe(model.graph.outputs)}"
            for name, model in zip(self.names, (self.left, self.right), strict=True)
        ]
        return UsageError(
            f"{reason}; {'; '.join(lists)}",
            hint=hint
            or "say what belongs together with --map left=right (repeatable; an output left out: --map left=)",
        )


def _describe(values: Sequence[ir.Value]) -> str:
    return ", ".join(f"{v.name}: {dtype_name(v.dtype)}{_shape_text(known_dims(v))}" for v in values) or "nothing"


def _shape_text(dims: Sequence[Dim] | None) -> str:
    return "[…]" if dims is None else f"[{','.join('?' if d is None else str(d) for d in dims)}]"


def _pair(
    what: str,
    left: list[ir.Value],
    right: list[ir.Value],
    given: Mapping[str, str],
    made: Mapping[str, str],
    moved: Moves,
    lists: _Lists,
) -> tuple[dict[str, str], list[Note]]:
    """Return left name to right name in the order of the left, and notes on pairs with different names."""
    found: dict[str, str] = {}
    theirs = {str(v.name): v for v in right}
    for value in left:
        name = str(value.name)
        if given.get(name) in theirs:
            found[name] = given[name]
    if len(set(found.values())) < len(found):
        raise lists.error(f"--map gives one {what} of {lists.names[1]} to two of {lists.names[0]}")
    for same in (str, _plain_name):
        ours, others = _by_name(_rest(left, found), same), _by_name(_rest(right, found.values()), same)
        found |= {str(ours[n].name): str(others[n].name) for n in ours.keys() & others.keys()}
        written = {str(v.name): made.get(str(v.name), "") for v in _rest(left, found)}
        if set(written.values()) <= {str(v.name) for v in _rest(right, found.values())}:
            found |= written
    for value in left:
        if str(value.name) in found:
            _check_pair(what, value, theirs[found[str(value.name)]], moved, lists)
    rest, others_left = _rest(left, found), _rest(right, found.values())
    if len(rest) > len(others_left) or (what == "input" and len(rest) < len(others_left)):
        raise lists.error(f"the {what}s cannot be paired")
    notes = [
        Note(f"{what} {a!r} is paired with {b!r}", code="paired-otherwise")
        for a, b in found.items()
        if a != b and given.get(a) != b
    ]
    if rest:
        placed, how = _by_place(rest, others_left, moved)
        if not placed:
            raise lists.error(f"the {what}s cannot be paired without doubt")
        pairs = ", ".join(f"{a} = {b}" for a, b in placed.items())
        notes.append(
            Note(
                f"{what}s paired by {how}, because the names differ: {pairs} (--map left=right says otherwise)",
                code="paired-by-place",
            )
        )
        found |= placed
    return {str(v.name): found[str(v.name)] for v in left}, notes


T = TypeVar("T")


def _rest(values: Sequence[ir.Value], taken: Iterable[str]) -> list[ir.Value]:
    names = set(taken)
    return [v for v in values if str(v.name) not in names]


def _by_name(values: Sequence[ir.Value], key: Callable[[str], str]) -> dict[str, ir.Value]:
    """Return values by a form of their name; values that share a form are left out."""
    found: dict[str, list[ir.Value]] = {}
    for value in values:
        found.setdefault(key(str(value.name)), []).append(value)
    return {name: same[0] for name, same in found.items() if len(same) == 1}


def _plain_name(name: str) -> str:
    """Return a name without TensorFlow's changes: the prefix, the output number, and characters that it replaces."""
    return re.sub(r"\W", "_", re.sub(r":0$", "", name.removeprefix("serving_default_"))).lower()


def _by_place(left: Sequence[ir.Value], right: Sequence[ir.Value], moved: Moves) -> tuple[dict[str, str], str]:
    """Return pairs in order if dtypes and shapes allow it, else the only pairs that they allow, and how; or ({}, '').

    The second item is the method, as a phrase for a note.
    """
    ordered = list(zip(left, right, strict=False))
    if all(_fits(a, b, moved) for a, b in ordered):
        return {str(a.name): str(b.name) for a, b in ordered}, "place"
    if len(left) * len(right) > _MOST_CHOICES:  # among so many values, some share dtype and shape
        return {}, ""
    choices = [[b for b in right if _fits(a, b, moved)] for a in left]
    if all(len(c) == 1 for c in choices) and len({id(c[0]) for c in choices}) == len(left):
        return {str(a.name): str(c[0].name) for a, c in zip(left, choices, strict=True)}, "dtype and shape"
    return {}, ""


def _moved_dims(value: ir.Value, moved: Moves) -> tuple[Dim, ...] | None:
    dims, perm = known_dims(value), moved.get(str(value.name))
    return dims if dims is None or perm is None else tuple(dims[a] for a in perm)


def _fits(left: ir.Value, right: ir.Value, moved: Moves) -> bool:
    ours, theirs = _moved_dims(left, moved), known_dims(right)
    if _kind(left) != _kind(right) and "" not in (_kind(left), _kind(right)):
        return False
    return ours is None or theirs is None or _dims_fit(ours, theirs)


def _dims_fit(ours: Sequence[Dim], theirs: Sequence[Dim]) -> bool:
    pairs = zip(ours, theirs, strict=False)
    return len(ours) == len(theirs) and all(a == b for a, b in pairs if isinstance(a, int) and isinstance(b, int))


def _kind(value: ir.Value) -> str:
    """Return the kind of a value's dtype; numbers can be cast within one kind. '' if the dtype is not known."""
    if value.dtype is None:
        return ""
    if value.dtype.is_floating_point():
        return "f"
    return "i" if value.dtype.is_integer() else value.dtype.name


def _check_pair(what: str, left: ir.Value, right: ir.Value, moved: Moves, lists: _Lists) -> None:
    """Raise `UsageError` if a pair is impossible: the layouts differ, or an input has another kind or shape."""
    ours, theirs = _moved_dims(left, moved), known_dims(right)
    if ours is not None and theirs is not None and len(ours) == len(theirs) > 2 and not _dims_fit(ours, theirs):
        first, last = (ours[0], ours[-1], *ours[1:-1]), (ours[0], *ours[2:], ours[1])
        for layout, other in (("nchw", first), ("nhwc", last)):
            if _dims_fit(other, theirs):
                raise lists.error(
                    f"{what} {left.name!r} has another layout in {lists.names[1]}: {_shape_text(theirs)}, not "
                    f"{_shape_text(ours)}",
                    hint=f"--layout {layout} says that {lists.names[1]} has its inputs and outputs in that layout",
                )
    if what == "input" and not _fits(left, right, moved):
        raise lists.error(f"input {left.name!r} differs")


def narrow_dims(
    left: ir.Model, right: ir.Model, pairs: Counterparts, layout: str, names: tuple[str, str]
) -> list[Note]:
    """Restrict the dynamic input dims of the left to the sizes or bounds of the right; return notes on fixed sizes.

    Raises `UsageError` if no size suits both.
    """
    moved, theirs = boundary_permutations(left, layout), {str(v.name): v for v in right.graph.inputs}
    bounds = {m: json.loads(model.metadata_props.get(DIMS_KEY, "{}")) for m, model in (("l", left), ("r", right))}
    fixed: dict[str, int] = {}
    for value in left.graph.inputs:
        name = str(value.name)
        ours, other = known_dims(value), known_dims(theirs[pairs.inputs[name]])
        if ours is None or other is None:
            continue
        perm = moved.get(name, tuple(range(len(ours))))
        for axis, wanted in zip(perm, other, strict=True):
            mine = ours[axis]
            if isinstance(mine, int):
                continue
            if isinstance(wanted, int) and mine is None:
                shape = list(known_dims(value) or ())
                shape[axis] = wanted
                value.shape = ir.Shape(shape)
            elif isinstance(wanted, int) and fixed.setdefault(str(mine), wanted) != wanted:
                raise UsageError(f"{names[1]} takes {mine} = {fixed[str(mine)]} and {wanted}, which is one size in "
                                 f"{names[0]}")  # fmt: skip
            elif mine is not None and wanted in bounds["r"]:
                bounds["l"][mine] = _both(bounds["l"].get(mine, [None, None]), bounds["r"][wanted])
    for value in left.graph.inputs:
        dims = known_dims(value)
        if dims is not None:
            value.shape = ir.Shape([fixed.get(d, d) if isinstance(d, str) else d for d in dims])
    own, claimed = json.loads(left.metadata_props.get(DIMS_KEY, "{}")), bounds["l"]
    left.metadata_props[DIMS_KEY] = json.dumps(claimed)
    narrower = {n: pair for n, pair in claimed.items() if pair != own.get(n) and narrows(pair)}
    if narrower:
        target = Claims("the target", narrower, {n: own[n] for n in narrower if n in own})
        left.meta[CLAIMS_KEY] = [*left.meta.get(CLAIMS_KEY, []), target]
    return [
        Note(f"compared at {name} = {size} only, which {names[1]} is fixed to", code="limited-sizes")
        for name, size in fixed.items()
    ]


def narrow_calls(left: ir.Model, right: ir.Model, pairs: Counterparts, names: tuple[str, str]) -> list[Note]:
    """Restrict the inputs of the left to the integers and sizes that operators of the right take; return notes on them.

    Example: GroupQueryAttention reads no mask, so that a mask is all ones. Limits that a file only claims are left out.
    """
    claimed = [each for each in right.meta.get(CLAIMS_KEY, []) if isinstance(each, Claims)]
    theirs, dims, found = {str(v.name): v for v in right.graph.inputs}, dict[str, str](), list[str]()
    for value in left.graph.inputs:
        other = theirs[pairs.inputs[str(value.name)]]
        both = zip(known_dims(other) or (), known_dims(value) or (), strict=False)
        dims |= {b: a for b, a in both if isinstance(a, str) and isinstance(b, str) and b.isidentifier()}
    for value in left.graph.inputs:
        other = theirs[pairs.inputs[str(value.name)]]
        text, own = (side.metadata_props.get(RANGE_KEY) for side in (other, value))
        if text is None or any(str(other.name) in each.ranges for each in claimed):
            continue
        wanted = [_renamed(end, dims) if isinstance(end, str) else end for end in json.loads(text)]
        ends = wanted if own is None else _common_range(json.loads(own), wanted)
        if ends is not None and json.dumps(ends) != own:
            value.metadata_props[RANGE_KEY] = json.dumps(ends)
            found.append(f"{value.name} = {ends[0]}" if ends[0] == ends[1] else f"{value.name} in {ends}")
    known = json.loads(left.metadata_props.get(GUARDS_KEY, "[]"))
    guards = json.loads(right.metadata_props.get(GUARDS_KEY, "[]"))
    own_to_file = {guard for each in claimed for guard in each.guards}
    added = [_renamed(guard, dims) for guard in guards if guard not in own_to_file]
    added = [guard for guard in added if guard not in known]
    left.metadata_props[GUARDS_KEY] = json.dumps([*known, *added])
    limits = ", ".join([*found, *added])
    text = f"compared at {limits} only, because operators of {names[1]} take nothing else"
    return [Note(text, code="limited-inputs")] if limits else []


def _common_range(one: Sequence[Any], other: Sequence[Any]) -> list[Any] | None:
    """Return the range of integers that two ranges share; None if they are empty or not known to share any."""
    if not all(isinstance(end, int) for end in (*one[:2], *other[:2])):
        return None
    low, high = max(one[0], other[0]), min(one[1], other[1])
    return [low, high, *one[2:]] if low <= high else None


def _renamed(text: str, names: Mapping[str, str]) -> str:
    """Return a condition on dims, or a sum of them, with the dims' other names."""
    return re.sub(r"[^\W\d]\w*", lambda found: names.get(found[0], found[0]), text)


def _both(one: Sequence[int | None], other: Sequence[int | None]) -> list[int | None]:
    low = max([b[0] for b in (one, other) if b[0] is not None], default=None)
    return [low, min([b[1] for b in (one, other) if b[1] is not None], default=None)]
