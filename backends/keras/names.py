"""Unique names of layers and operations, taken from the source as far as Keras allows."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from keras import KerasTensor, layers

from .layer_names import LAYER


def legal_name(name: str) -> str:
    """Return `name` without characters that some Keras backend rejects; each is replaced."""
    return LAYER.legal(name or "node")


class UniqueNames:
    """The names in use. `reserved` are the names of the model's inputs and outputs, which nothing else may get."""

    def __init__(self, reserved: Iterable[str]) -> None:
        self._taken: set[str] = set()
        self._boundary = {name: self.unique(name) for name in dict.fromkeys(reserved)}
        self._named: set[Any] = set()
        self._outputs: set[Any] = set()

    def unique(self, name: str) -> str:
        """Return a legal name that is not in use."""
        base = found = legal_name(name)
        number = 0
        while found.casefold() in self._taken:
            number += 1
            found = f"{base}_{number}"
        self._taken.add(found.casefold())
        return found

    def of(self, name: str) -> str:
        """Return the legal name of an input or output of the model."""
        return self._boundary[name]

    def know(self, x: KerasTensor) -> None:
        """Mark the operation that created `x` as already named."""
        self._named.add(x._keras_history.operation)

    def give(self, values: Iterable[Any], name: str) -> None:
        """Name the unnamed operations that created `values`: the last one gets `name`, the others get `name` and their
        kind.
        """
        for operation in _operations(values, self._named):
            kind = operation.__class__.__name__.lower()
            operation.name = self.unique(name if operation is _making_operation(values) else f"{name}_{kind}")
            self._named.add(operation)

    def as_output(self, name: str, x: Any, live: Callable[[Any], KerasTensor]) -> KerasTensor:
        """Return `x` as the output of an operation called `name`.

        The operation that made `x` is renamed, or an Identity is added if that operation's name is needed or it has
        several outputs.
        """
        if not isinstance(x, KerasTensor):
            x = live(x)
            self.give([x], name)  # Keras's own names may be in use
        operation = x._keras_history.operation
        if isinstance(operation, layers.InputLayer) and operation.name == self.of(name):
            return x
        plain = not isinstance(operation, layers.InputLayer) and not getattr(operation, "variables", ())
        single = len(operation._inbound_nodes) == 1 and len(operation._inbound_nodes[0].output_tensors) == 1
        if not (plain and single) or operation in self._outputs:
            x = layers.Identity(dtype=x.dtype if x.dtype.startswith(("float", "bfloat")) else None)(x)
            operation = x._keras_history.operation
        operation.name = self.of(name)
        self._outputs.add(operation)
        return x


def _making_operation(values: Iterable[Any]) -> Any:
    for value in values:
        if isinstance(value, KerasTensor):
            return value._keras_history.operation
    return None


def _operations(values: Iterable[Any], known: set[Any]) -> list[Any]:
    """Return the unnamed operations that created `values`, the last one first; the search stops at known operations."""
    found: dict[Any, None] = {}
    stack = [v for v in values if isinstance(v, KerasTensor)]
    while stack:
        history = stack.pop()._keras_history
        if history.operation not in known and history.operation not in found:
            found[history.operation] = None
            stack += history.operation._inbound_nodes[history.node_index].input_tensors
    return list(found)
