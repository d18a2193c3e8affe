"""Checks and lowers StableHLO modules inside the models of other frameworks, for the readers of these models."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import onnx_ir as ir

from convert.errors import BadInput, Location, ResourceLimit, Unsupported
from convert.graph import Dim, Graph
from convert.processes.interpreter import raised_recursion_limit

from .files import parse_check
from .files.parsing import parse_module
from .reader import CALLS_OF_PYTHON
from .rules import stablehlo_op
from .types import ResultType, result_type
from .values import NamedGraph, Tensor, whole
from .walker import Walker


def check(module: bytes, label: str) -> None:
    """Raise `Unsupported` with every operator of a module that has no rule, and `BadInput` for a damaged module.

    Another process parses the module first.
    """
    parse_check.check_bytes(module, label)
    parsed = parse_module(module, label)
    with parsed.context, raised_recursion_limit(CALLS_OF_PYTHON):
        stablehlo_op.check(_operators(Walker(parsed)))


def only_computes(module: bytes) -> bool:
    """Return whether there is a rule for every operator of a module, called or not. The module is parsed in this
    process.
    """
    try:
        parsed = parse_module(module, "the module")
        with parsed.context, raised_recursion_limit(CALLS_OF_PYTHON):
            walker = Walker(parsed)
            return all(
                operator in stablehlo_op
                for function in walker.functions.values()
                for operator, _ in walker.operators(function)
            )
    except (BadInput, ResourceLimit):
        return False


def lower(
    g: Graph, module: bytes, arguments: Sequence[ir.Value], label: str, platforms: Sequence[str] = ()
) -> list[ir.Value]:
    """Write the main function of a module to `g` and return its results.

    platforms: the platforms that the module is for; if there are several, its first argument is the index of one of
    them. Raises `BadInput`, `ResourceLimit`, `Unsupported`.
    """
    parsed = parse_module(module, label)
    with parsed.context, raised_recursion_limit(CALLS_OF_PYTHON):
        walker = Walker(parsed)
        types = [_known(result_type(a.type)) for a in walker.main().regions[0].blocks[0].arguments]
        inner = _Inner(g)
        values = []
        if len(platforms) > 1 and len(types) == len(arguments) + 1:
            number = platforms.index("CPU") if "CPU" in platforms else 0
            values.append(Tensor(inner.const(number, types.pop(0).dtype), ()))
        if len(types) != len(arguments):
            raise BadInput(f"{label} takes {len(types)} arguments and is called with {len(arguments)}")
        values += [inner.argument(x, type_) for x, type_ in zip(arguments, types, strict=True)]
        return [inner.result(tensor) for tensor in walker.function(inner, walker.main(), values)]


class _Inner(NamedGraph):
    """A builder that writes to the graph of another builder, whose dim names may be unknown here."""

    def __init__(self, g: Graph) -> None:
        super().__init__(parent=g)
        self.outer, self.graph = g, g.graph
        self.names: dict[str, str] = {}

    def argument(self, x: ir.Value, type_: ResultType) -> Tensor:
        """Return the value as a tensor of the module. Raises `BadInput` if their ranks differ."""
        dims = [self._inner_dim(dim, known) for dim, known in zip(self._dims(x, type_), type_.dims, strict=True)]
        value = self.facts(self.Identity(x), type_.dtype, dims)
        for axis, dim in enumerate(dims):
            if isinstance(dim, str):
                self.places.setdefault(dim, (value, axis))
        return Tensor(value, tuple(dims))

    def result(self, tensor: Tensor | None) -> ir.Value:
        """Return the value of a result, with the dim names of the outer graph."""
        if tensor is None:
            raise Unsupported("an output that is no tensor")
        value = whole(self, tensor).value
        outer = {inner: name for name, inner in self.names.items()}
        dims = [outer.get(d, d) if isinstance(d, str) else d for d in tensor.dims]
        return self.outer.facts(self.Identity(value), shape=dims)

    def _dims(self, x: ir.Value, type_: ResultType) -> Sequence[Dim]:
        dims = [None] * type_.rank if x.shape is None else self.shape(x)
        if len(dims) != type_.rank:
            raise BadInput(f"a module takes {type_.rank} dims and is called with {len(dims)}")
        return dims

    def _inner_dim(self, dim: Dim, known: int | None) -> Dim:
        if known is not None or isinstance(dim, int):
            return dim if known is None else known
        if dim is None or not re.fullmatch(r"[A-Za-z_]\w*", dim):
            own = self.unique("size")
            return own if dim is None else self.names.setdefault(dim, own)
        return dim


def _operators(walker: Walker) -> Iterator[tuple[str, Location]]:
    return walker.operators(walker.main())


def _known(type_: ResultType | None) -> ResultType:
    if type_ is None:
        raise Unsupported("a module with ordered effects")
    return type_
