"""Variables and tables of a TensorFlow Lite file: what handles refer to, what fills them, and what changes them.

They are identified by name: every VAR_HANDLE with the same container and name is the same variable, in any subgraph.
Operators run in the file's order, so a variable has the value assigned last.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx_ir as ir

from convert.errors import BadInput, Unsupported
from convert.graph import Graph
from convert.graph.values import constant

from ..graph.lookup_tables import LookupTable
from ..graph.variables import Variable
from ..runner.names import state_inputs
from .file import LiteModel, Operator, Tensor

RESOURCES = frozenset(
    {"VAR_HANDLE", "READ_VARIABLE", "ASSIGN_VARIABLE", "CALL_ONCE", "HASHTABLE", "HASHTABLE_FIND", "HASHTABLE_IMPORT",
     "HASHTABLE_SIZE"}
)  # fmt: skip
"""Operators that create handles, take them, or have no tensors at all."""
PASSING = frozenset({"IF", "WHILE"})
"""Operators that may pass a handle to a subgraph."""
STEPS = frozenset({"SVDF", "RNN", "LSTM"})
"""Operators of one step, whose state is in a tensor that is a variable."""
_TENSOR = "\0tensor"


@dataclass(eq=False)
class LiteVariable(Variable):
    """A variable of a file; `filled` once something is known of its initial value."""

    container: str = ""
    filled: bool = False
    number: int = -1
    """The variable's tensor, for an operator of one step."""

    def read(self, g: Graph) -> ir.Value:
        """Return the value. Raises `Unsupported` if it was never set; the interpreter fails then too."""
        if self.value is None and not self.filled:
            raise Unsupported(
                f"the variable {self.name!r} is read before anything in the file gives it a value",
                hint="convert the model with what fills its variables (an initializer that CALL_ONCE runs)",
            )
        return super().read(g)

    def write(self, g: Graph, value: ir.Value) -> None:
        """Set the value, as `Variable.write` does; the first value may have any dtype and shape."""
        if self.value is None and not self.filled and self.home is g:
            self.value = value
        else:
            super().write(g, value)


@dataclass
class Resources:
    """The variables and tables of one file, by container and name, and by number."""

    variables: dict[tuple[str, str], LiteVariable] = field(default_factory=dict)
    tables: dict[int, LookupTable] = field(default_factory=dict)
    filling: bool = False
    """Whether an initializer, which is run once, is being evaluated."""

    def variable(self, container: str, name: str) -> LiteVariable:
        """Return the variable of a handle."""
        key = (container, name)
        if key not in self.variables:
            nothing = ir.tensor([0.0], name=name)  # never read, because `filled` is false
            self.variables[key] = LiteVariable(name, nothing, container=container)
        return self.variables[key]

    def variable_tensor(self, number: int, tensor: Tensor) -> LiteVariable:
        """Return the variable of a tensor; it starts at zero. Raises `Unsupported` for an integer one."""
        key = (_TENSOR, str(number))
        if key not in self.variables:
            if tensor.dtype != ir.DataType.FLOAT or None in tensor.shape:
                raise Unsupported(f"the state {tensor.name!r} is of integers, or of unknown size")
            zeros = ir.tensor(np.zeros([d or 0 for d in tensor.shape], np.float32), name=tensor.name)
            self.variables[key] = LiteVariable(tensor.name, zeros, filled=True, number=number)
        return self.variables[key]

    def assign(self, g: Graph, variable: LiteVariable, value: ir.Value) -> None:
        """Assign a value to a variable. Raises `Unsupported` for an initial value that is not constant."""
        if not self.filling:
            variable.write(g, value)
            return
        tensor = constant(value)
        if tensor is None:
            raise Unsupported(
                f"the variable {variable.name!r} has an initial value that is computed when the model is loaded"
            )
        variable.tensor, variable.filled, variable.value = tensor, True, None


def changed_variables(
    model: LiteModel,
    resources: Resources,
    number: int,
    arguments: Mapping[int, LiteVariable],
    outermost: int | None = None,
) -> list[LiteVariable]:
    """Return the variables that a subgraph and its callees change, in order of appearance.

    arguments: the variables of its inputs, by tensor number. outermost: the subgraph that is converted. CALL_ONCE does
    not count, because it sets initial values. Raises `BadInput` for an invalid handle, and `Unsupported` for an
    operator of one step in another subgraph, whose state no interpreter initializes.
    """
    graph, handles = model.subgraphs[number], dict(arguments)
    found: dict[LiteVariable, None] = {}
    for operator in graph.operators:
        if operator.name == "VAR_HANDLE":
            handles[operator.outputs[0]] = resources.variable(*handle_names(operator))
        elif operator.name == "ASSIGN_VARIABLE":
            if not operator.inputs or operator.inputs[0] not in handles:
                raise BadInput("ASSIGN_VARIABLE assigns to a value that is not a variable")
            found[handles[operator.inputs[0]]] = None
        elif operator.name in STEPS:
            for tensor in (n for n in operator.inputs if n >= 0 and graph.tensors[n].variable):
                if number != outermost:
                    raise Unsupported(f"a {operator.name} inside of a branch or a loop")
                found[resources.variable_tensor(tensor, graph.tensors[tensor])] = None
        elif operator.name in PASSING:
            given = operator.inputs[1:] if operator.name == "IF" else operator.inputs
            for callee in subgraphs_of(operator):
                inputs = model.subgraphs[callee].inputs
                passed = {i: handles[n] for i, n in zip(inputs, given, strict=False) if n in handles}
                found |= dict.fromkeys(changed_variables(model, resources, callee, passed, outermost))
            if operator.name == "WHILE":
                handles |= {o: handles[n] for o, n in zip(operator.outputs, given, strict=False) if n in handles}
    return list(found)


@contextmanager
def restored(states: Sequence[LiteVariable], body: Graph) -> Iterator[None]:
    """Bind the variables to a body while it is written, and restore them afterwards."""
    before = [(state.value, state.home) for state in states]
    for state in states:
        state.home = body
    yield
    for state, (value, home) in zip(states, before, strict=True):
        state.value, state.home = value, home


def handle_names(operator: Operator) -> tuple[str, str]:
    """Return container and name of the variable of a VAR_HANDLE."""
    return operator.options.get("container") or "", operator.options.get("shared_name") or ""


def subgraphs_of(operator: Operator) -> list[int]:
    """Return the numbers of the subgraphs that an operator runs."""
    return [v for k, v in operator.options.items() if k.endswith("subgraph_index") or k == "subgraph"]


def initializers_of(model: LiteModel, number: int) -> list[int]:
    """Return the subgraphs that CALL_ONCE runs, in a subgraph and its callees."""
    found: dict[int, None] = {}
    for operator in model.subgraphs[number].operators:
        if operator.name == "CALL_ONCE":
            found |= dict.fromkeys(subgraphs_of(operator))
        else:
            for callee in subgraphs_of(operator):
                found |= dict.fromkeys(initializers_of(model, callee))
    return list(found)


def state_names(variables: Sequence[LiteVariable], taken: Collection[str]) -> dict[LiteVariable, str]:
    """Return names for the graph inputs of variables: the variable's name, after its container if it has one.

    taken: the names of the model's inputs and outputs.
    """
    labels = [f"{v.container}/{v.name}" if v.container else v.name for v in variables]
    named = state_inputs(labels, taken)
    return {variable: named[name] for variable, name in zip(variables, labels, strict=True)}


def check_resource_inputs(operator: Operator, inputs: Sequence[Any]) -> None:
    """Raise `BadInput` if an operator gets a handle for an input that takes none, or none for an input that
    takes one.
    """
    if operator.name in PASSING | STEPS:
        return
    rest = inputs
    if (takes := _TAKES.get(operator.name)) is not None:
        rest = inputs[1:]
        if not inputs or not isinstance(inputs[0], takes):
            raise BadInput(f"{operator.name} gets a value that is not a handle")
    if any(isinstance(value, (LiteVariable, TableHandle)) for value in rest):
        raise BadInput(f"{operator.name} is given a handle instead of a tensor")


@dataclass(frozen=True)
class TableHandle:
    """A handle of a table, which an initializer may fill later."""

    resources: Resources
    number: int

    @property
    def table(self) -> LookupTable:
        """Return the table. Raises `Unsupported` if nothing fills it."""
        if self.number not in self.resources.tables:
            raise Unsupported("a table that nothing in the file fills")
        return self.resources.tables[self.number]

    def fill(self, keys: ir.Value, values: ir.Value) -> None:
        """Fill the table once; later fills are ignored (kernels/hashtable.h). Raises `Unsupported`."""
        contents = constant(keys), constant(values)
        if contents[0] is None or contents[1] is None:
            raise Unsupported("a table that is filled with computed values")
        self.resources.tables.setdefault(self.number, LookupTable(f"table {self.number}", contents[0], contents[1]))


_TAKES: dict[str, type] = {
    "READ_VARIABLE": LiteVariable,
    "ASSIGN_VARIABLE": LiteVariable,
    "HASHTABLE_FIND": TableHandle,
    "HASHTABLE_IMPORT": TableHandle,
    "HASHTABLE_SIZE": TableHandle,
}
"""The kind of object that the first input of an operator is a handle of."""
