"""Prepares a captured program for lowering: writes become explicit, operators without a rule are decomposed."""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind, OutputKind

from convert.errors import Unsupported
from convert.outcome.report import Report

from ...common.complexes import takes_complex
from ...common.locate import Locator
from ...rules import is_inplace, key_of, torch_op
from ...torch_internals import (
    HigherOrderOperator,
    OpOverload,
    can_decompose,
    get_decompositions,
    is_recorded_vmap,
    schema_of,
)
from ...torch_internals.symbols import PendingUnbackedSymbolNotFound
from ..lowering.as_strided import is_dense
from ..lowering.grad_regions import without_grad_regions
from ..lowering.grid_gradients import DECOMPOSITIONS
from ..lowering.silent_aliases import is_silent_alias, without_silent_aliases
from ..patch_table import patched
from ..patches.patch import Stage
from .dims import is_fixed
from .explain import is_about_data

INLINED = ("wrap_with_set_grad_enabled", "wrap_with_autocast")
"""Higher-order operators that only mark a region: their graph is inlined."""

SKIPPED = frozenset(
    (
        "_assert_scalar",
        "_assert_async",
        "_assert_tensor_metadata",
        "sym_constrain_range",
        "sym_constrain_range_for_size",
        "_set_grad_enabled",
        "_functional_assert_async",
        "_functional_assert_scalar",
    )
)
"""Operators that check or note something at run time and compute nothing."""

PYTHON: dict[Any, str] = {
    operator.add: "add",
    operator.sub: "sub",
    operator.mul: "mul",
    operator.floordiv: "floordiv",
    operator.mod: "remainder",
    operator.truediv: "sym_truediv",
    operator.pow: "pow",
    operator.neg: "neg",
    operator.eq: "eq",
    operator.ne: "ne",
    operator.lt: "lt",
    operator.le: "le",
    operator.gt: "gt",
    operator.ge: "ge",
    operator.and_: "__and__",
    operator.or_: "__or__",
    operator.lshift: "__lshift__",
    operator.rshift: "__rshift__",
    operator.not_: "sym_not",
    abs: "abs",
    operator.abs: "abs",
    round: "sym_round",
    math.ceil: "sym_ceil",
    math.floor: "sym_floor",
    torch.sym_max: "sym_max",
    torch.sym_min: "sym_min",
    torch.sym_not: "sym_not",
    torch.sym_float: "sym_float",
    torch.sym_int: "sym_int",
    math.trunc: "sym_int",
    torch.sym_ite: "sym_ite",
    torch.sym_sqrt: "sym_sqrt",
}
"""Python's functions on sizes, with the rule that lowers them."""


def prepare_program(program: ExportedProgram, report: Report) -> ExportedProgram:
    """Return the program with writes that are visible elsewhere made explicit, and operators without a rule decomposed.

    A buffer that forward changes is then an output (`state.changed_buffers`). Raises `OneSizeOnly` if PyTorch makes a
    dynamic dim static in the process.
    """
    asked = program
    program = with_explicit_writes(program)
    kinds = {s.kind for s in program.graph_signature.output_specs} if program is not asked else set()
    if OutputKind.USER_INPUT_MUTATION in kinds:
        report.note(
            "forward writes to one of its inputs in place; the converted model leaves its inputs as they are",
            code="in-place-input",
        )
    for _ in range(8):
        table = _decompositions(program)
        if not table:
            break
        program = _decomposed(without_grad_regions(program), table)
    if program is not asked:
        _check_dims(asked, program)
    return program


def with_explicit_writes(program: ExportedProgram) -> ExportedProgram:
    """Return the program with visible writes made explicit; unchanged if it has none and its shapes are right."""
    if _has_visible_writes(program) or uses_vmap(program) or _has_subclasses(program) or _has_old_shapes(program):
        return _functionalize(without_silent_aliases(program))
    return program


def _check_dims(asked: ExportedProgram, program: ExportedProgram) -> None:
    """Raise `OneSizeOnly` for an input dim that is dynamic in `asked` and fixed in `program`."""
    found = {n.name: n.meta.get("val") for n in program.graph.nodes if n.op == "placeholder"}
    for node in asked.graph.nodes:
        fake, other = node.meta.get("val"), found.get(node.name)
        if node.op != "placeholder" or not isinstance(fake, torch.Tensor) or not isinstance(other, torch.Tensor):
            continue
        for place, (dim, size) in enumerate(zip(fake.shape, other.shape, strict=True)):
            if isinstance(dim, torch.SymInt) and is_fixed(size):
                raise OneSizeOnly(node.name, place, int(size))


class OneSizeOnly(Unsupported):
    """Raised if rewriting a captured program builds in the size of the example.

    PyTorch treats a length of 1 specially: `y[::2] += 1` is rewritten for an example of two rows only.
    """

    def __init__(self, name: str, place: int, size: int) -> None:
        super().__init__(
            f"PyTorch fixes dim {place} of {name} at {size}, the size of the example, when it makes the writes of "
            "forward explicit or takes an operator apart",
            hint="give a number for that dim in --input, or capture the module with a longer example",
        )


def _decomposed(program: ExportedProgram, table: dict[Any, Any]) -> ExportedProgram:
    """Decompose by the table. Raises `Unsupported` if one of PyTorch's decompositions depends on the value of a
    tensor.
    """
    try:
        with patched(Stage.LENGTHS), patched(Stage.DECOMPOSITIONS):
            return program.run_decompositions(table)
    except Exception as error:
        if not is_about_data(error):
            raise
        names = ", ".join(sorted({str(n.target) for n in program.graph.nodes if n.target in table}))
        raise Unsupported(
            f"PyTorch writes one of {names} with a decision on the value of a tensor, and a graph holds only one way",
            hint="replace that operator in the model, or add a rule for it with --rules FILE",
        ) from error


def _has_subclasses(program: ExportedProgram) -> bool:
    """Return whether a graph unwraps tensors from weights of their own class (torchao's quantized ones).

    Functionalization turns the tensors inside into inputs.
    """
    return any("access_subclass_inner_tensor" in str(node.target) for node in program.graph.nodes)


def _has_old_shapes(program: ExportedProgram) -> bool:
    """Return whether a graph has an LSTM whose states were recorded with four dims.

    PyTorch 2.4 to 2.8 write such programs, though their kernels give three. Functionalization corrects the shapes.
    """
    lstms = [node for node in program.graph.nodes if node.target is torch.ops.aten.lstm.input]
    return any(state.dim() != 3 for node in lstms for state in node.meta["val"][1:])


def uses_vmap(program: ExportedProgram) -> bool:
    """Return whether a graph has marks of torch.vmap (associative_scan leaves them), which mean nothing in ONNX.

    Functionalization applies them: operators on the batched tensors remain.
    """
    return any(is_recorded_vmap(node.target) for node in program.graph.nodes if node.op == "call_function")


def _functionalize(program: ExportedProgram) -> ExportedProgram:
    try:
        with patched(Stage.LENGTHS), patched(Stage.DECOMPOSITIONS):
            return program.run_decompositions({})
    except AssertionError as error:
        hint = "where one tensor is two buffers and forward writes to it, keep it in one of them"
        raise Unsupported("PyTorch cannot make the writes of forward explicit", hint=hint) from error
    except PendingUnbackedSymbolNotFound as error:
        raise Unsupported(
            "PyTorch cannot make the writes of forward explicit beside an element at a place that only a run knows",
            hint="take it with x.index_select(dim, place.reshape(1)) in the place of x[place]",
        ) from error
    except RuntimeError as error:
        if (found := re.match(r"Constant (\S+) is mutated", str(error))) is None:
            raise
        raise Unsupported(
            f"forward writes to the tensor {found[1]}, which is no buffer",
            hint="register it with register_buffer: then it becomes an input and an output of the converted model",
        ) from error


def check(program: ExportedProgram, locator: Locator) -> None:
    """Raise one `Unsupported` with every operator that has no rule, each with its module path and source line."""
    torch_op.check((key, locator(node, key)) for node, key in _operators(program.graph_module))


def operator_key(target: Any, paired: bool = False) -> str | None:
    """Return the key of a call's target in the rule table; None if it needs no rule. `paired`: an operand is
    complex.
    """
    if isinstance(target, OpOverload):
        name = schema_of(target).name
        return (
            None
            if name.removeprefix("aten::") in SKIPPED
            else key_of(name, schema_of(target).overload_name, paired=paired)
        )
    if isinstance(target, HigherOrderOperator):
        name = target.name()
        return None if name in INLINED else f"higher_order::{name}"
    if target is operator.getitem:
        return None
    return PYTHON.get(target) or f"python::{getattr(target, '__name__', target)}"


def is_only_checked(node: torch.fx.Node) -> bool:
    """Return whether a node is a run-time number that only run-time checks use."""
    if isinstance(node.meta.get("val"), (torch.Tensor, tuple, list)) or not node.users:
        return False
    return all(_operator_name(user) in SKIPPED or is_only_checked(user) for user in node.users)


def _operator_name(node: torch.fx.Node) -> str:
    target = node.target
    return schema_of(target).name.removeprefix("aten::") if isinstance(target, OpOverload) else ""


def _operators(module: torch.fx.GraphModule) -> Iterator[tuple[torch.fx.Node, str]]:
    for node in module.graph.nodes:
        if node.op == "call_function" and not is_only_checked(node):
            key = operator_key(node.target, takes_complex(node))
            if key is not None and not is_dense(node):
                yield node, key
    for _, child in module.named_children():
        if isinstance(child, torch.fx.GraphModule):
            yield from _operators(child)


def _decompositions(program: ExportedProgram) -> dict[Any, Callable[..., Any]]:
    """Return the decompositions of operators that have no rule, as far as PyTorch has them."""
    # The reason of a declared gap is better than the message at the end of a decomposition.
    targets = {
        node.target
        for node, key in _operators(program.graph_module)
        if key not in torch_op and key not in torch_op.gaps and isinstance(node.target, OpOverload)
    }
    if not targets:
        return {}
    builtin = all(t.namespace in ("aten", "prims") for t in targets)
    known = _known_decompositions() if builtin else torch.export.default_decompositions()
    more = get_decompositions([t for t in targets if t not in known]) | DECOMPOSITIONS
    return {t: known[t] if t in known else more[t] for t in targets if t in known or t in more}


def decomposes(name: str) -> bool:
    """Return whether PyTorch writes an ATen operator by others if it has no rule; `name` is one without overload."""
    packet = getattr(torch.ops.aten, name, None)
    forms = [getattr(packet, overload) for overload in packet.overloads()] if packet is not None else []
    known = _known_decompositions()
    return any(f in known or f in DECOMPOSITIONS or can_decompose(f) or get_decompositions([f]) for f in forms)


@cache
def _known_decompositions() -> Mapping[Any, Callable[..., Any]]:
    """Return PyTorch's own decompositions, which are slow to collect; operators of other libraries may be added
    later.
    """
    return torch.export.default_decompositions()


# -- writes -----------------------------------------------------------------------------------------------------------


def _has_visible_writes(program: ExportedProgram) -> bool:
    """Return whether an in-place operator writes to state, or to memory that is read later through another tensor.

    Other in-place operators (`relu_` on a fresh convolution result) need nothing: the result gets the name of the
    written tensor.
    """
    kinds = {s.arg.name: s.kind for s in program.graph_signature.input_specs if hasattr(s.arg, "name")}
    graph = program.graph_module.graph
    order = {node: i for i, node in enumerate(graph.nodes)}
    group: dict[torch.fx.Node, set[torch.fx.Node]] = {}
    for node in graph.nodes:
        group[node] = {node}
        for source in _aliased_arguments(node) if node.op == "call_function" else []:
            merged = group[source] | group[node]
            for member in merged:
                group[member] = merged
    for node in graph.nodes:
        if _updates_statistics(node) or _writes_elsewhere(node):
            return True
        if node.op == "call_function" and isinstance(node.target, OpOverload) and is_inplace(schema_of(node.target)):
            written = node.args[0]
            if not isinstance(written, torch.fx.Node):
                return True
            for member in group[written]:
                if kinds.get(member.name) in (InputKind.BUFFER, InputKind.PARAMETER, InputKind.CONSTANT_TENSOR):
                    return True
                earlier = member is not written and order[member] < order[node]
                if earlier and any(order[user] > order[node] for user in member.users):
                    return True
        elif isinstance(node.target, HigherOrderOperator) and _has_inplace_write(node):
            return True
    return False


def _writes_elsewhere(node: torch.fx.Node) -> bool:
    """Return whether a call writes its result to an argument: `torch.add(x, y, out=z)`."""
    schema = schema_of(node.target) if isinstance(node.target, OpOverload) else None
    return schema is not None and any(a.is_out for a in schema.arguments)


def _updates_statistics(node: torch.fx.Node) -> bool:
    """Return whether a node is a normalization in training mode, which writes its running statistics implicitly."""
    if _operator_name(node) not in ("batch_norm", "instance_norm"):
        return False
    running, training = node.args[3], node.args[5]
    return running is not None and training is True


def _has_inplace_write(node: torch.fx.Node) -> bool:
    """Return whether a region's graph has an in-place operator."""
    for argument in node.all_input_nodes:
        if argument.op == "get_attr":
            module = getattr(argument.graph.owning_module, str(argument.target), None)
            if isinstance(module, torch.fx.GraphModule):
                for inner in module.graph.nodes:
                    if isinstance(inner.target, OpOverload) and is_inplace(schema_of(inner.target)):
                        return True
                    if isinstance(inner.target, HigherOrderOperator) and _has_inplace_write(inner):
                        return True
    return False


def _aliased_by_region(node: torch.fx.Node) -> list[torch.fx.Node]:
    """Return the tensors passed to a region whose memory its results may share."""
    given: list[Any] = list(node.args)
    place = next(i for i, a in enumerate(given) if isinstance(a, torch.fx.Node) and a.op == "get_attr")
    module = getattr(node.graph.owning_module, str(given[place].target))
    inputs = {n: i for i, n in enumerate(n for n in module.graph.nodes if n.op == "placeholder")}
    left, seen = list(next(n for n in module.graph.nodes if n.op == "output").all_input_nodes), set()
    while left:
        inner = left.pop()
        if inner not in seen:
            seen.add(inner)
            left += _aliased_arguments(inner) if inner.op == "call_function" else []
    found = [given[place + 1 + i] for n, i in inputs.items() if n in seen]
    return [n for n in found if isinstance(n, torch.fx.Node)]


def _aliased_arguments(node: torch.fx.Node) -> list[torch.fx.Node]:
    """Return the arguments whose memory the result of a call may share."""
    target: Any = node.target
    if target is operator.getitem:  # pieces of a chunk, which share the memory of the whole
        return [a for a in node.args[:1] if isinstance(a, torch.fx.Node)]
    if isinstance(target, HigherOrderOperator) and target.name() in INLINED:
        return _aliased_by_region(node)
    if not isinstance(target, OpOverload):
        return []
    if is_silent_alias(node):
        return list(node.all_input_nodes)
    pairs = zip(schema_of(target).arguments, node.args, strict=False)
    return [given for a, given in pairs if a.alias_info is not None and isinstance(given, torch.fx.Node)]
