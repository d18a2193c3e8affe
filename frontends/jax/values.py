"""Values during lowering: a broadcast value is not expanded until an operator needs it whole."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import onnx_ir as ir

from convert.graph import Dim, Graph
from convert.graph.values import known_dims

from .sizes import Size, of_linear
from .types import FOUR_BITS, ResultType


@dataclass(frozen=True)
class Tensor:
    """A value of the module: `value` broadcast to `dims`, by ONNX's rules, along the axes `stretched`.

    shape: `dims` as an int64 vector of the graph, if the module computes it. sizes: the content of an integer tensor
    from which shapes are made, as an array of `Size`.
    """

    value: ir.Value
    dims: tuple[Dim, ...]
    stretched: frozenset[int] = frozenset()
    shape: ir.Value | None = None
    sizes: np.ndarray | None = None

    @property
    def rank(self) -> int:
        """Number of dims."""
        return len(self.dims)


@dataclass(frozen=True)
class Pair:
    """A complex tensor: real and imaginary part, with the same shape."""

    real: Tensor
    imag: Tensor

    @property
    def dims(self) -> tuple[Dim, ...]:
        """The dims of both parts."""
        return merge_dims(self.real.dims, self.imag.dims)


class NamedGraph(Graph):
    """A graph builder that knows a value for each named dim, so that shapes can be computed from inputs."""

    def __init__(self, name: str = "main", *, parent: Graph | None = None) -> None:
        super().__init__(name, parent=parent)
        self.places: dict[str, tuple[ir.Value, int]] = {}
        self.known: dict[str, ir.Value] = {}
        self.solved: dict[str, tuple[str, int, int]] = {}

    def input(self, name: str, dtype: ir.DataType, shape: Sequence[Dim] | None) -> ir.Value:
        """Add a graph input, as `Graph.input` does."""
        value = super().input(name, dtype, shape)
        for axis, dim in enumerate(shape or ()):
            if isinstance(dim, str):
                self.places.setdefault(dim, (value, axis))
                if (linear := of_linear(dim)) is not None:
                    self.solved.setdefault(linear[0], (dim, *linear[1:]))
        return value

    def body(self, name: str = "body") -> NamedGraph:
        """Return a subgraph, as `Graph.body` does."""
        return NamedGraph(name, parent=self)

    def size(self, name: str) -> ir.Value | None:
        """Return the dim of this name as an int64 tensor of one element; None if no value has it."""
        if name in self.known:
            return self.known[name]
        outer = self.parent.size(name) if isinstance(self.parent, NamedGraph) else None
        place = self.places.get(name)
        if outer is None and place is None and name in self.solved:
            dim, factor, offset = self.solved[name]  # dim = factor * name + offset
            one, other = (self.const(np.array([n], np.int64)) for n in (factor, offset))
            self.known[name] = self.Div(self.Sub(self.size(dim), other), one)
            return self.known[name]
        if outer is not None or place is None:
            return outer
        self.known[name] = self.Shape(place[0], start=place[1], end=place[1] + 1)
        return self.known[name]

    def compute_size(self, size: Size) -> ir.Value | None:
        """Return a size as an int64 tensor of one element; None if no value has one of its names."""
        if size.number is not None:
            return self.const(np.array([size.number], np.int64))
        if (whole := self.size(str(size))) is not None:
            return whole
        total: ir.Value | None = None
        for factors, count in size.terms:
            parts = [self.size(factor) for factor in factors]
            if any(part is None for part in parts):
                return None
            product = self.const(np.array([count], np.int64)) if count != 1 or not parts else None
            for part in parts:
                product = part if product is None else self.Mul(product, part)
            total = product if total is None else self.Add(total, product)
        return total


def shape_vector(g: Graph, dims: Sequence[Dim], computed: ir.Value | None = None) -> ir.Value | None:
    """Return a shape as an int64 vector: a constant, computed from sizes of inputs, or as the module has
    `computed` it.
    """
    from .sizes import of_dim

    if all(isinstance(d, int) for d in dims):
        return g.const(np.array(dims, np.int64))
    parts: list[ir.Value] = []
    for dim in dims:
        size = of_dim(dim)
        part = g.compute_size(size) if size is not None and isinstance(g, NamedGraph) else None
        if part is None:
            return computed
        parts.append(part)
    return g.Concat(*parts, axis=0) if len(parts) > 1 else parts[0]


def whole(g: Graph, tensor: Tensor) -> Tensor:
    """Return the tensor with its broadcast expanded."""
    if not tensor.stretched and (tensor.value.shape is None or len(tensor.value.shape) == tensor.rank):
        return tensor
    shape = shape_vector(g, tensor.dims, tensor.shape)
    if shape is None:
        raise ValueError(f"the shape {tensor.dims} of a broadcast is computed nowhere")
    if tensor.value.dtype in FOUR_BITS:  # Expand does not take this dtype
        value = g.Cast(g.Expand(g.Cast(tensor.value, to=ir.DataType.INT8), shape), to=tensor.value.dtype)
    else:
        value = g.Expand(tensor.value, shape)
    g.facts(value, shape=tensor.dims)
    return replace(tensor, value=value, stretched=frozenset())


def split_pairs(values: Sequence[Any]) -> list[Any]:
    """Return the values, with the real and the imaginary part in place of each complex tensor."""
    return [part for value in values for part in ((value.real, value.imag) if isinstance(value, Pair) else (value,))]


def join_pairs(parts: Sequence[Any], types: Sequence[ResultType | None]) -> list[Any]:
    """Return values of these types from what `split_pairs` returned for them."""
    left = iter(parts)
    return [Pair(next(left), next(left)) if type_ is not None and type_.is_complex else next(left) for type_ in types]


def part_owners(types: Sequence[ResultType | None]) -> list[int]:
    """Return for each part that `split_pairs` returns the index of its value."""
    return [k for k, type_ in enumerate(types) for _ in range(2 if type_ is not None and type_.is_complex else 1)]


def pair_as_tensor(g: Graph, pair: Pair) -> Tensor:
    """Return a complex tensor in the form of the graph: real and imaginary part in a last dim of 2."""
    parts = (g.Unsqueeze(whole(g, part).value, [-1]) for part in (pair.real, pair.imag))
    dims = (*pair.dims, 2)
    return Tensor(g.facts(g.Concat(*parts, axis=-1), shape=dims), dims)


def merge_dims(*every: Sequence[Dim]) -> tuple[Dim, ...]:
    """Return the dims of values with the same shape; each dim is the first number, else the first name."""
    merged: list[Dim] = []
    for dims in zip(*every, strict=True):
        numbers = [d for d in dims if isinstance(d, int)]
        merged.append(numbers[0] if numbers else next((d for d in dims if d is not None), None))
    return tuple(merged)


def plain(value: ir.Value, dims: Sequence[int | None] | None = None) -> Tensor:
    """Return a tensor that is not broadcast; `dims` are the module's, with the graph's names."""
    found = known_dims(value)
    if dims is None:
        if found is None:
            raise ValueError(f"the rank of {value.name} is unknown")
        return Tensor(value, found)
    if found is not None and len(found) == len(dims):
        return Tensor(value, merge_dims(dims, found))
    return Tensor(value, tuple(dims))


def as_sizes(content: Any) -> np.ndarray | None:
    """Return an integer constant as sizes, if it is small enough to be a shape."""
    from .sizes import number

    array = np.asarray(content)
    if array.dtype.kind not in "iub" or array.ndim > 2 or array.size > 64:
        return None
    found = np.empty(array.shape, object)
    for index in np.ndindex(array.shape):
        found[index] = number(int(array[index]))
    return found
