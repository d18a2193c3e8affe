"""Unifies the names of dynamic dims. At first each input has names of its own; at the end, dims that operators combine
share one name.

TensorFlow's signatures do not name dims. Two dims share a name after lowering if an operator requires that they are
equal, or that one of them is 1. Computed shapes do not rely on shared names.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence

import onnx_ir as ir

from convert.graph import Dim
from convert.graph.inputs import Bounds
from convert.outcome.report import Report
from convert.request.options import InputSpec

from .dims import BETWEEN, BROADCASTING, TIMES, dim_factors, dims_of, sanitize_name

_BATCH = "batch"
_RECURRENT = ("LSTM", "GRU", "RNN")
_MOST = 8  # operands of a Sum or Max, which are compared with each other


def name_input_dims(
    shapes: Mapping[str, Sequence[int | None] | None], specs: Mapping[str, InputSpec], *, one_batch: bool = False
) -> dict[str, list[Dim] | None]:
    """Return the dims of every input by name; open ones get their own names, and the first leading dim is "batch".

    one_batch: all leading dims are the batch, as in a Keras model, whose inputs have one row per example.
    """
    given = {d.name for s in specs.values() for d in s.shape or ()}
    named: dict[str, list[Dim] | None] = {}
    free = _BATCH not in given
    for name, shape in shapes.items():
        own = sanitize_name(name)
        dims: list[Dim] = [f"{own}_d{i}" if d is None else d for i, d in enumerate(shape or ())]
        spec = specs.get(name)
        if shape and shape[0] is None and not (spec and spec.shape and (spec.shape[0].name or spec.shape[0].size)):
            dims[0], free = (_BATCH if free or one_batch else f"{own}_{_BATCH}"), False
        named[name] = None if shape is None else dims
    return named


def share_names(model: ir.Model, specs: Mapping[str, InputSpec], bounds: Bounds, report: Report) -> None:
    """Give dims that meet in an operator one name, everywhere in `model` and `bounds`; the report lists those of
    inputs.

    Names that the user gave are kept, and two of them stay different.
    """
    fixed = {d.name for s in specs.values() for d in s.shape or () if d.name}
    classes = _EquivalenceClasses(fixed)
    for node in model.graph.all_nodes():
        for a, b in _equal_name_pairs(node):
            classes.join(a, b)
    before = {str(v.name): dims_of(v) for v in model.graph.inputs}
    names = classes.names([d for dims in before.values() for d in dims if isinstance(d, str)])
    for value in _all_values(model):
        if value.shape is not None and any(isinstance(d, ir.SymbolicDim) and d.value for d in value.shape):
            value.shape = ir.Shape([_renamed_dim(d, names) for d in dims_of(value)])
    for name in [n for n in bounds if names.get(n, n) != n]:
        low, high = bounds.pop(name)
        other = bounds.setdefault(names[name], [low, high])
        other[0] = max(other[0] or 1, low or 1)
        other[1] = high if other[1] is None else other[1] if high is None else min(other[1], high)
    _report_shared_names(before, names, report)


def _report_shared_names(before: Mapping[str, Sequence[Dim]], names: Mapping[str, str], report: Report) -> None:
    """Report which inputs with a dynamic leading dim share a batch, and which do not."""
    shared: dict[str, list[str]] = {}
    for name, dims in before.items():
        if dims and isinstance(dims[0], str):
            shared.setdefault(names.get(dims[0], dims[0]), []).append(name)
    for dim, inputs in shared.items():
        if len(inputs) > 1 and len({before[i][0] for i in inputs}) > 1:
            report.note(
                f"the first dims of {', '.join(inputs)} meet in the graph and are both called {dim}; "
                f"--input {inputs[-1]}:[n,…] says that one is another",
                code="shared-dim",
            )
    if len(shared) > 1:
        apart = ", ".join(f"{dim} ({', '.join(inputs)})" for dim, inputs in shared.items())
        report.note(
            f"nothing in the graph says that the first dims of its inputs are the same: {apart}", code="shared-dim"
        )


# -- which dims meet --------------------------------------------------------------------------------------------------


def _equal_name_pairs(node: ir.Node) -> Iterator[tuple[str, str]]:
    """Yield pairs of names of dims that `node` requires to be equal, unless one of them is 1."""
    for a, b in _equal_dim_pairs(node):
        if isinstance(a, str) and isinstance(b, str) and a != b:
            yield a, b


def _equal_dim_pairs(node: ir.Node) -> Iterator[tuple[Dim, Dim]]:
    operands = [dims_of(v) for v in node.inputs if v is not None and v.shape is not None]
    if node.domain or len(operands) < 2:
        return
    if node.op_type in BROADCASTING:
        for one, other in itertools.combinations(operands[:_MOST], 2):
            yield from _broadcast_dim_pairs(one, other)
    elif any(v is None or v.shape is None for v in node.inputs[:2]):
        return
    elif node.op_type == "Concat":
        axis = node.attributes["axis"].as_int() % (len(operands[0]) or 1)
        for other in operands[1:]:
            yield from ((a, b) for i, (a, b) in enumerate(zip(operands[0], other, strict=False)) if i != axis)
    elif node.op_type == "MatMul" and operands[0] and operands[1]:
        a, b = operands
        yield a[-1], b[-2 if len(b) > 1 else -1]
        yield from _broadcast_dim_pairs(a[:-2], b[:-2])
    elif node.op_type in _RECURRENT and node.inputs[0] is not None and len(operands[0]) == 3:
        for place, axis in ((4, 0), (5, 1), (6, 1)):
            value = node.inputs[place] if place < len(node.inputs) else None
            if value is not None and value.shape is not None:
                yield operands[0][1], dims_of(value)[axis]
    elif node.op_type == "Reshape" and node.outputs[0].shape is not None:
        yield from _reshape_dim_pairs(operands[0], dims_of(node.outputs[0]))
    elif node.op_type == "ReverseSequence":
        yield operands[0][node.attributes.get_int("batch_axis", 1)], operands[1][0]


def _reshape_dim_pairs(before: Sequence[Dim], after: Sequence[Dim]) -> Iterator[tuple[Dim, Dim]]:
    """Yield pairs of dims of a Reshape that remain after removing equal ones: one on each side, or as many in order."""
    if None in (*before, *after):
        return
    (above, names), (below, others) = (dim_factors([d for d in side if d is not None]) for side in (before, after))
    for name in [n for n in names if n in others]:
        names.remove(name)
        others.remove(name)
    if above == below and len(names) == len(others):
        yield from zip(names, others, strict=True)


def _broadcast_dim_pairs(a: Sequence[Dim], b: Sequence[Dim]) -> Iterator[tuple[Dim, Dim]]:
    return zip(reversed(a), reversed(b), strict=False)


class _EquivalenceClasses:
    """Sets of dim names that mean the same dim, with at most one of `fixed` per set."""

    def __init__(self, fixed: set[str]) -> None:
        self.fixed = fixed
        self.parent: dict[str, str] = {}

    def root(self, name: str) -> str:
        while (above := self.parent.setdefault(name, name)) != name:
            name = above
        return name

    def join(self, a: str, b: str) -> None:
        first, *others = [*a.split(BETWEEN), *b.split(BETWEEN)]
        for other in others:
            one, two = self.root(first), self.root(other)
            if one != two and not {one, two} <= self.fixed:
                kept, gone = (two, one) if two in self.fixed else (one, two)
                self.parent[gone] = kept

    def names(self, inputs: Iterable[str]) -> dict[str, str]:
        """Return the new name of each name: the user's, else that of the first input in its set."""
        chosen: dict[str, str] = {}
        for name in inputs:
            root = self.root(name)
            chosen.setdefault(root, root if root in self.fixed else name)
        return {name: chosen.get(self.root(name), self.root(name)) for name in list(self.parent)}


def _renamed_dim(dim: Dim, names: Mapping[str, str]) -> Dim:
    """Return the renamed dim; a broadcast whose dims keep different names has no known size."""
    if not isinstance(dim, str):
        return dim
    found = {names.get(part, part) for part in dim.split(BETWEEN)} if TIMES not in dim else {"", dim}
    return found.pop() if len(found) == 1 else None


def _all_values(model: ir.Model) -> Iterator[ir.Value]:
    for graph in model.graphs():
        yield from graph.inputs
        for node in graph:
            yield from node.outputs
