"""Variables and tables of a TensorFlow Lite file: what handles stand for, what fills them, and what changes them.

They are kept by name: every VAR_HANDLE of one container and name is the same variable, in whichever subgraph it lies.
Operators run in the file's order, so that a variable holds what was assigned to it last.
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
"""Operators that make handles, take them, or have no tensors at all."""
PASSING = frozenset({"IF", "WHILE"})
"""Operators that may hand a handle on to a subgraph."""
STEPS = frozenset({"SVDF", "RNN", "LSTM"})
"""Operators of one step, which find what they held in a tensor that is a variable, and leave there what they hold."""
_TENSOR = "\0tensor"


@dataclass(eq=False)
class LiteVariable(Variable):
    """A variable of a file; `filled` once something is known that it starts with."""

    container: str = ""
    filled: bool = False
    number: int = -1
    """The tensor that is the variable, of an operator of one step."""

    def read(self, g: Graph) -> ir.Value:
        """Raises `Unsupported` where nothing has given it a value, where the interpreter fails too."""
        if self.value is None and not self.filled:
            raise Unsupported(
                f"the variable {self.name!r} is read before anything in the file gives it a value",
                hint="convert the model with what fills its variables (an initializer that CALL_ONCE runs)",
            )
        return super().read(g)

    def write(self, g: Graph, value: ir.Value) -> None:
        """As `Variable.write`; the first value of one that nothing has filled may be any."""
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
    """Whether an initializer is being gone through, which is run once."""

    def variable(self, container: str, name: str) -> LiteVariable:
        """The variable of a handle."""
        key = (container, name)
        if key not in self.variables:
            nothing = ir.tensor([0.0], name=name)  # never read: `filled` says so
            self.variables[key] = LiteVariable(name, nothing, container=container)
        return self.variables[key]

    def variable_tensor(self, number: int, tensor: Tensor) -> LiteVariable:
        """The variable that a tensor is; it starts at zero. Raises `Unsupported` for one of integers."""
        key = (_TENSOR, str(number))
        if key not in self.variables:
            if tensor.dtype != ir.DataType.FLOAT or None in tensor.shape:
                raise Unsupported(f"the state {tensor.name!r} is of integers, or of unknown size")
            zeros = ir.tensor(np.zeros([d or 0 for d in tensor.shape], np.float32), name=tensor.name)
            self.variables[key] = LiteVariable(tensor.name, zeros, filled=True, number=number)
        return self.variables[key]

    def assign(self, g: Graph, variable: LiteVariable, value: ir.Value) -> None:
        """Give a variable its value. Raises `Unsupported` for a start that is computed from what is not known."""
        if not self.filling:
            variable.write(g, value)
            return
        tensor = constant(value)
        if tensor is None:
            raise Unsupported(f"the variable {variable.name!r} starts with what is computed as the model is loaded")
        variable.tensor, variable.filled, variable.value = tensor, True, None


def changed_variables(
    model: LiteModel,
    resources: Resources,
    number: int,
    arguments: Mapping[int, LiteVariable],
    outermost: int | None = None,
) -> list[LiteVariable]:
    """The variables that a subgraph changes, and those that it calls, in the order in which they come up.

    arguments: what its inputs stand for, by number of the tensor. outermost: the subgraph that is converted. What
    CALL_ONCE runs does not count: it is what variables start with. Raises `BadInput` for a handle that is none,
    `Unsupported` for an operator of one step in another subgraph, whose state no interpreter gives a value.
    """
    graph, handles = model.subgraphs[number], dict(arguments)
    found: dict[LiteVariable, None] = {}
    for operator in graph.operators:
        if operator.name == "VAR_HANDLE":
            handles[operator.outputs[0]] = resources.variable(*handle_names(operator))
        elif operator.name == "ASSIGN_VARIABLE":
            if not operator.inputs or operator.inputs[0] not in handles:
                raise BadInput("ASSIGN_VARIABLE assigns to what is no variable")
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
    """While a body is written, the variables belong to it; afterwards they are and hold what they did."""
    before = [(state.value, state.home) for state in states]
    for state in states:
        state.home = body
    yield
    for state, (value, home) in zip(states, before, strict=True):
        state.value, state.home = value, home


def handle_names(operator: Operator) -> tuple[str, str]:
    """Container and name of the variable that a VAR_HANDLE makes a handle of."""
    return operator.options.get("container") or "", operator.options.get("shared_name") or ""


def subgraphs_of(operator: Operator) -> list[int]:
    """The numbers of the subgraphs that an operator runs."""
    return [v for k, v in operator.options.items() if k.endswith("subgraph_index") or k == "subgraph"]


def initializers_of(model: LiteModel, number: int) -> list[int]:
    """The subgraphs that CALL_ONCE runs, in a subgraph and in those that it calls."""
    found: dict[int, None] = {}
    for operator in model.subgraphs[number].operators:
        if operator.name == "CALL_ONCE":
            found |= dict.fromkeys(subgraphs_of(operator))
        else:
            for callee in subgraphs_of(operator):
                found |= dict.fromkeys(initializers_of(model, callee))
    return list(found)


def state_names(variables: Sequence[LiteVariable], taken: Collection[str]) -> dict[LiteVariable, str]:
    """What the graph's inputs for variables are called: after the variable, and its container where it has one.

    taken: the names of the model's inputs and outputs.
    """
    labels = [f"{v.container}/{v.name}" if v.container else v.name for v in variables]
    named = state_inputs(labels, taken)
    return {variable: named[name] for variable, name in zip(variables, labels, strict=True)}


def check_resource_inputs(operator: Operator, inputs: Sequence[Any]) -> None:
    """Raise `BadInput` where an operator is given a handle that takes none, or none where it takes one."""
    if operator.name in PASSING | STEPS:
        return
    rest = inputs
    if (takes := _TAKES.get(operator.name)) is not None:
        rest = inputs[1:]
        if not inputs or not isinstance(inputs[0], takes):
            raise BadInput(f"{operator.name} is given what is no handle")
    if any(isinstance(value, (LiteVariable, TableHandle)) for value in rest):
        raise BadInput(f"{operator.name} is given a handle instead of a tensor")


@dataclass(frozen=True)
class TableHandle:
    """A handle of a table, which an initializer may fill later."""

    resources: Resources
    number: int

    @property
    def table(self) -> LookupTable:
        """Raises `Unsupported` where nothing fills it."""
        if self.number not in self.resources.tables:
            raise Unsupported("a table that nothing in the file fills")
        return self.resources.tables[self.number]

    def fill(self, keys: ir.Value, values: ir.Value) -> None:
        """Fill it, once: what comes later is passed over (kernels/hashtable.h). Raises `Unsupported`."""
        contents = constant(keys), constant(values)
        if contents[0] is None or contents[1] is None:
            raise Unsupported("a table that is filled with what is computed")
        self.resources.tables.setdefault(self.number, LookupTable(f"table {self.number}", contents[0], contents[1]))


_TAKES: dict[str, type] = {
    "READ_VARIABLE": LiteVariable,
    "ASSIGN_VARIABLE": LiteVariable,
    "HASHTABLE_FIND": TableHandle,
    "HASHTABLE_IMPORT": TableHandle,
    "HASHTABLE_SIZE": TableHandle,
}
"""What the first input of an operator is a handle of."""
