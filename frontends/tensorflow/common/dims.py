"""Names of dynamic dims while a graph is lowered: one name is one number, and a shape made of names can be computed.

Computed shapes rely on names, so two dims have one name only where they are the same number whatever is fed. What dims
of two names broadcast to is called by both, "batch|y_batch", and a product "16*batch".
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
    """The builder of a graph whose dims keep a name where several are broadcast, and that knows where each name is."""

    def __init__(self, name: str = "main", *, parent: Graph | None = None) -> None:
        super().__init__(name, parent=parent)
        self.places: dict[str, tuple[ir.Value, int]] = {}
        self.sizes: dict[str, ir.Value] = {}
        self.equal: dict[str, str] = parent.equal if isinstance(parent, NamingGraph) else {}

    def input(self, name: str, dtype: ir.DataType, shape: Sequence[Dim] | None) -> ir.Value:
        """As `Graph.input`."""
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
        """As `Graph.node`."""
        made = super().node(operator, inputs, attributes, outputs=outputs, domain=domain)
        if outputs == 1 and not domain and (operator in BROADCASTING or operator == "MatMul"):
            _name_broadcast(made)
        for value in made if isinstance(made, list) else [made]:
            self._note(value)
        return made

    def facts(self, value: ir.Value, dtype: ir.DataType | None = None, shape: Sequence[Dim] | None = None) -> ir.Value:
        """As `Graph.facts`."""
        super().facts(value, dtype, shape)
        self._note(value)
        return value

    def body(self, name: str = "body") -> NamingGraph:
        """As `Graph.body`."""
        return NamingGraph(name, parent=self)

    def place(self, name: str) -> tuple[ir.Value, int] | None:
        """A value within reach and the axis of it that has the dim of that name."""
        found = self.places.get(name)
        return self.parent.place(name) if found is None and isinstance(self.parent, NamingGraph) else found

    def size(self, name: str) -> ir.Value | None:
        """The dim of that name as an int64 tensor of one element."""
        place = self.place(name)
        if name not in self.sizes and place is not None:
            self.sizes[name] = self.Shape(place[0], start=place[1], end=place[1] + 1)
        return self.sizes.get(name)

    def _note(self, value: ir.Value) -> None:
        for axis, dim in enumerate(value.shape or ()):
            if isinstance(dim, ir.SymbolicDim) and dim.value is not None and value.graph is self.graph:
                self.places.setdefault(dim.value, (value, axis))


def sizes_tensor(g: Graph, items: Sequence[Any]) -> ir.Value | None:
    """Sizes (ints and names of dims) as an int64 tensor; None where one of them is found nowhere."""
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
    """Note that two dims are the same number wherever the model runs, because TensorFlow takes no others."""
    plain_names = isinstance(one, str) and isinstance(other, str) and not set(one + other) & {BETWEEN, TIMES}
    if isinstance(g, NamingGraph) and plain_names and _representative(g, one) != _representative(g, other):
        g.equal[_representative(g, other)] = _representative(g, one)


def are_equal_dims(g: Graph, dims: Sequence[Any], others: Sequence[Any]) -> bool:
    """Whether dims are known to be the same numbers."""
    return len(dims) == len(others) and all(
        a is not None and _representative(g, a) == _representative(g, b) for a, b in zip(dims, others, strict=True)
    )


def _representative(g: Graph, dim: Any) -> Any:
    while isinstance(g, NamingGraph) and dim in g.equal:
        dim = g.equal[dim]
    return dim


# -- names of what is computed of dims --------------------------------------------------------------------------------


def broadcast_name(a: str, b: str) -> str | None:
    """The name of what dims of these names broadcast to."""
    if a == b:
        return a
    return None if TIMES in a + b else BETWEEN.join(sorted({*a.split(BETWEEN), *b.split(BETWEEN)}))


def dim_factors(dims: Sequence[int | str]) -> tuple[int, list[str]]:
    """The number and the names whose product these dims are."""
    parts = [part for dim in dims for part in str(dim).split(TIMES)]
    numbers = [int(part) for part in parts if part.lstrip("-").isdecimal()]
    return math.prod(numbers), [part for part in parts if not part.lstrip("-").isdecimal()]


def dim_product(dims: Sequence[Any]) -> Any:
    """The product of dims, as an int or a name; None where one is not known, or of too many names."""
    numbers = [d for d in dims if isinstance(d, int)]
    if 0 in numbers:
        return 0
    if None in dims:
        return None
    number, names = dim_factors(dims)
    if len(names) > limits.TENSOR_DIMS:  # a square of a square has any number
        return None
    names.sort(key=lambda name: (not name.endswith("batch"), name))  # one order, as far as can be that of the dims
    return TIMES.join([str(number)] * (number != 1) + names) if names else number


def dim_quotient(dims: Sequence[Any], others: Sequence[Any]) -> Any:
    """What `others` have to be multiplied with to give the product of `dims`; None where that is not known."""
    if None in dims or None in others:
        return None
    (above, names), (below, gone) = dim_factors(dims), dim_factors(others)
    for name in gone:
        if name not in names:
            return None
        names.remove(name)
    return dim_product([above // below, *names]) if below and above % below == 0 else None


def new_dim_name(g: Graph, value: ir.Value, axis: int) -> str:
    """A name for a dim that has none."""
    return g.unique(sanitize_name(f"{value.name}_d{axis}"))


def sanitize_name(name: str) -> str:
    """`name` without what stands between names; never a number."""
    return "d" + name if name.isdecimal() else name.replace(BETWEEN, "_").replace(TIMES, "_")


def dims_of(value: ir.Value) -> list[Dim]:
    """The dims of `value` as ints, names or None; none for an unknown rank."""
    return list(known_dims(value) or ())


def _name_broadcast(value: ir.Value) -> None:
    """Name the dims of `value` that inference leaves open because dims of several names meet."""
    node, dims = value.producer(), dims_of(value)
    if node is None or None not in dims or any(v is not None and v.shape is None for v in node.inputs):
        return
    operands = [dims_of(v) for v in node.inputs if v is not None]
    inner = 2 if node.op_type == "MatMul" else 0  # its last two dims are not broadcast
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
