"""Names of dynamic dims during lowering: a name stands for one number, and a shape of names can be computed.

Computed shapes rely on names, so two dims have the same name only if they are always equal. The broadcast of two dims
has both names, "batch|y_batch", and a product is "16*batch".
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx_ir as ir

from convert import limits
from convert.graph import Dim, Graph, Operand
from convert.graph.values import known_dims
from convert.passes.layout.table import ELEMENTWISE

BETWEEN, TIMES = "|", "*"
BROADCASTING = frozenset(ELEMENTWISE)


class NamingGraph(Graph):
    """A graph builder that keeps dim names through broadcasts, and knows where each named dim is."""

    def __init__(self, name: str = "main", *, parent: Graph | None = None) -> None:
        super().__init__(name, parent=parent)
        self.places: dict[str, tuple[ir.Value, int]] = {}
        self.sizes: dict[str, ir.Value] = {}
        self.equal: dict[str, str] = parent.equal if isinstance(parent, NamingGraph) else {}

    def input(self, name: str, dtype: ir.DataType, shape: Sequence[Dim] | None) -> ir.Value:
        """Do the same as `Graph.input`."""
        value = super().input(name, dtype, shape)
        self._note(value)
        return value

    def node(
        self,
        operator: str,
        inputs: Sequence[Operand],
        attributes: Mapping[str, Any] | None = None,
        *,
        outputs: int = 1,
        domain: str = "",
    ) -> Any:
        """Do the same as `Graph.node`."""
        made = super().node(operator, inputs, attributes, outputs=outputs, domain=domain)
        if outputs == 1 and not domain and (operator in BROADCASTING or operator == "MatMul"):
            _name_broadcast(made)
        for value in made if isinstance(made, list) else [made]:
            self._note(value)
        return made

    def facts(self, value: ir.Value, dtype: ir.DataType | None = None, shape: Sequence[Dim] | None = None) -> ir.Value:
        """Do the same as `Graph.facts`."""
        super().facts(value, dtype, shape)
        self._note(value)
        return value

    def body(self, name: str = "body") -> NamingGraph:
        """Do the same as `Graph.body`."""
        return NamingGraph(name, parent=self)

    def place(self, name: str) -> tuple[ir.Value, int] | None:
        """Return an available value and its axis with the named dim, else None."""
        found = self.places.get(name)
        return self.parent.place(name) if found is None and isinstance(self.parent, NamingGraph) else found

    def size(self, name: str) -> ir.Value | None:
        """Return the named dim as an int64 tensor of one element, else None."""
        place = self.place(name)
        if name not in self.sizes and place is not None:
            self.sizes[name] = self.Shape(place[0], start=place[1], end=place[1] + 1)
        return self.sizes.get(name)

    def _note(self, value: ir.Value) -> None:
        for axis, dim in enumerate(value.shape or ()):
            if isinstance(dim, ir.SymbolicDim) and dim.value is not None and value.graph is self.graph:
                self.places.setdefault(dim.value, (value, axis))


def sizes_tensor(g: Graph, items: Sequence[Any]) -> ir.Value | None:
    """Return sizes (ints and names of dims) as an int64 tensor; None if one of them is not available."""
    if not isinstance(g, NamingGraph):
        return None
    parts: list[ir.Value | list[int]] = []
    for item in items:
        size = g.size(item) if isinstance(item, str) else None
        if size is not None:
            parts.append(size)
        elif not isinstance(item, int):
            return None
        elif parts and isinstance(parts[-1], list):
            parts[-1].append(item)
        else:
            parts.append([item])
    values = [g.const(np.array(p, np.int64)) if isinstance(p, list) else p for p in parts]
    return g.Concat(*values, axis=0) if len(values) > 1 else values[0]


def equate_dims(g: Graph, one: Any, other: Any) -> None:
    """Record that two dims are always equal, because TensorFlow accepts no others."""
    plain_names = isinstance(one, str) and isinstance(other, str) and not set(one + other) & {BETWEEN, TIMES}
    if isinstance(g, NamingGraph) and plain_names and _representative(g, one) != _representative(g, other):
        g.equal[_representative(g, other)] = _representative(g, one)


def are_equal_dims(g: Graph, dims: Sequence[Any], others: Sequence[Any]) -> bool:
    """Return whether dims are known to be equal."""
    return len(dims) == len(others) and all(
        a is not None and _representative(g, a) == _representative(g, b) for a, b in zip(dims, others, strict=True)
    )


def _representative(g: Graph, dim: Any) -> Any:
    while isinstance(g, NamingGraph) and dim in g.equal:
        dim = g.equal[dim]
    return dim


# -- names of what is computed of dims --------------------------------------------------------------------------------


def broadcast_name(a: str, b: str) -> str | None:
    """Return the name of the broadcast of two named dims, else None."""
    if a == b:
        return a
    return None if TIMES in a + b else BETWEEN.join(sorted({*a.split(BETWEEN), *b.split(BETWEEN)}))


def dim_factors(dims: Sequence[int | str]) -> tuple[int, list[str]]:
    """Return the number and the names whose product these dims are."""
    parts = [part for dim in dims for part in str(dim).split(TIMES)]
    numbers = [int(part) for part in parts if part.lstrip("-").isdecimal()]
    return math.prod(numbers), [part for part in parts if not part.lstrip("-").isdecimal()]


def dim_product(dims: Sequence[Any]) -> Any:
    """Return the product of dims, as an int or a name; None if a dim is unknown, or for too many names."""
    numbers = [d for d in dims if isinstance(d, int)]
    if 0 in numbers:
        return 0
    if None in dims:
        return None
    number, names = dim_factors(dims)
    if len(names) > limits.TENSOR_DIMS:  # repeated squaring would create any number of names
        return None
    # a canonical order that is as close as possible to the order of the dims
    names.sort(key=lambda name: (not name.endswith("batch"), name))
    return TIMES.join([str(number)] * (number != 1) + names) if names else number


def dim_quotient(dims: Sequence[Any], others: Sequence[Any]) -> Any:
    """Return the factor by which the product of `others` must be multiplied to give the product of `dims`; None if
    unknown.
    """
    if None in dims or None in others:
        return None
    (above, names), (below, gone) = dim_factors(dims), dim_factors(others)
    for name in gone:
        if name not in names:
            return None
        names.remove(name)
    return dim_product([above // below, *names]) if below and above % below == 0 else None


def new_dim_name(g: Graph, value: ir.Value, axis: int) -> str:
    """Return a name for an unnamed dim."""
    return g.unique(sanitize_name(f"{value.name}_d{axis}"))


def sanitize_name(name: str) -> str:
    """Return `name` without the separators of names; never a number."""
    return "d" + name if name.isdecimal() else name.replace(BETWEEN, "_").replace(TIMES, "_")


def dims_of(value: ir.Value) -> list[Dim]:
    """Return the dims of `value` as ints, names or None; empty for an unknown rank."""
    return list(known_dims(value) or ())


def _name_broadcast(value: ir.Value) -> None:
    """Name the dims of `value` that inference leaves open because dims of several names are broadcast."""
    node, dims = value.producer(), dims_of(value)
    if node is None or None not in dims or any(v is not None and v.shape is None for v in node.inputs):
        return
    operands = [dims_of(v) for v in node.inputs if v is not None]
    inner = 2 if node.op_type == "MatMul" else 0  # the last two dims are not broadcast
    if any(len(o) < inner for o in operands):
        return
    for place in range(inner + 1, len(dims) + 1):
        met = [o[-place] for o in operands if len(o) >= place and o[-place] != 1]
        if dims[-place] is None and met and all(isinstance(d, str) for d in met):
            dims[-place] = _broadcast_all_names([str(d) for d in met])
    value.shape = ir.Shape(dims)


def _broadcast_all_names(names: Sequence[str]) -> str | None:
    whole: str | None = names[0]
    for name in names[1:]:
        whole = None if whole is None else broadcast_name(whole, name)
    return whole
