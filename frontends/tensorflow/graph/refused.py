"""Operators that a reader refuses regardless of rules: files, processes, Python, and state changes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from convert.errors import Location, Problem, UnsafeInput, Unsupported

from .allowed import PROGRAM_HINT, is_compiled, operator_problem, unsafe_operators

UNSAFE = frozenset(unsafe_operators()) | {"BigQueryReader", "GenerateBigQueryReaderPartitions"}
"""Operators that read or write files, use the network or call Python when the graph runs, and similar ones."""

STATE = frozenset(
    """
    AssignVariableOp AssignAddVariableOp AssignSubVariableOp AssignVariableXlaConcatND Assign AssignAdd
    AssignSub ResourceScatterUpdate ResourceScatterAdd ResourceScatterSub ResourceScatterMul ResourceScatterDiv
    ResourceScatterMax ResourceScatterMin ResourceScatterNdUpdate ResourceScatterNdAdd ResourceScatterNdSub
    ResourceStridedSliceAssign ScatterUpdate ScatterAdd ScatterSub ScatterNdUpdate ScatterNdAdd
    StridedSliceAssign CountUpTo ResourceCountUpTo ApplyGradientDescent ResourceApplyGradientDescent
    ResourceApplyAdamV2 ResourceApplyAdam ResourceApplyMomentum ResourceApplyKerasMomentum ApplyAdam
    ApplyMomentum LookupTableInsertV2 LookupTableRemoveV2 LookupTableImportV2 QueueEnqueueV2 QueueDequeueV2
    QueueDequeueManyV2 StackPushV2 StackPopV2 DestroyResourceOp
    """.split()  # noqa: SIM905 (a table)
)
"""Operators that change a variable, a table or a queue."""

CHANGES = frozenset(
    """
    AssignVariableOp AssignAddVariableOp AssignSubVariableOp Assign AssignAdd AssignSub ResourceScatterUpdate
    ResourceScatterAdd ResourceScatterSub ResourceScatterMul ResourceScatterMax ResourceScatterMin
    ResourceScatterNdUpdate ResourceScatterNdAdd ResourceScatterNdSub ScatterUpdate ScatterAdd ScatterSub
    ScatterNdUpdate ScatterNdAdd ScatterNdSub StridedSliceAssign ResourceStridedSliceAssign
    """.split()  # noqa: SIM905 (a table)
)
"""Operators that set a variable to a computed value: it becomes an input and an output of the model."""


def refuse_state_changes(nodes: Iterable[Any]) -> None:
    """Raise one `Unsupported` that lists every operator in `STATE` among nodes that run for their effect."""
    state = {n.op: n for n in nodes if n.op in STATE}
    if state:
        why = "changes the model's state, which a conversion would drop"
        raise Unsupported(
            problems=[Problem(why, n.location) for n in state.values()], hint="export the model for inference"
        )


def refuse_unsafe(operators: Iterable[tuple[str, Location]]) -> None:
    """Raise one `UnsafeInput` that lists every operator in `UNSAFE`."""
    found: dict[str, list[Location]] = {}
    for operator, at in operators:
        if operator in UNSAFE:
            found.setdefault(operator, []).append(at)
    if found:
        compiled = any(map(is_compiled, found))
        raise UnsafeInput(
            "the model holds operators that a conversion never follows:",
            items=[Problem(operator_problem(name), places[0], len(places)) for name, places in found.items()],
            hint=PROGRAM_HINT if compiled else "export the model for inference, without its input pipeline",
        )
