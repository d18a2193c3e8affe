"""Operators without a rule that PyTorch composes of others: decomposed by PyTorch, on examples."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import onnx_ir as ir
import torch

from convert.errors import Unsupported
from convert.graph import Graph

from ..common.complexes import ComplexPair
from ..common.values import is_scalar, torch_dtype
from ..torch_internals import TorchDispatchMode, has_kernel, operator_of, pytree, schema_of

_INTERPRETED: dict[str, Callable[..., Any]] = dict.fromkeys(
    ("aten::__interpolate", "aten::__upsample"), torch.nn.functional.interpolate
)
"""Operators of TorchScript before 1.5 that only its interpreter has: functions of Python with the same arguments."""

_LONGER = 3
"""Difference between an unknown dim in the second example and in the first."""


@dataclass(frozen=True)
class Place:
    """A tensor of a recording, by its number: arguments first, then results in order."""

    number: int


@dataclass(frozen=True)
class Step:
    """One operator of a recording: its arguments in the order of its schema, and the numbers of its results."""

    schema: torch.FunctionSchema
    arguments: Any
    results: tuple[int, ...]


@cache
def is_composite(schema: torch.FunctionSchema) -> bool:
    """Return whether an operator's only kernel calls other operators, for every kind of tensor."""
    if schema.name in _INTERPRETED:
        return True
    name = f"{schema.name}.{schema.overload_name}" if schema.overload_name else schema.name
    return bool(has_kernel(name, "CompositeImplicitAutograd")) and not schema.is_mutable


def run_taken_apart(
    g: Graph,
    schema: torch.FunctionSchema,
    contents: list[Any],
    evaluate: Callable[[torch.FunctionSchema, list[Any]], Any],
) -> Any:
    """Return the result of the operators that compose `schema`, computed by `evaluate` on `contents`.

    PyTorch runs the operator on examples of two sizes, and on dims of length 1 if it takes those. Raises `Unsupported`
    if the recordings differ in their operators or numbers: then sizes decide what is computed, and each recording holds
    for its example only.
    """
    first, second, single = (_record(g, schema, contents, longer) for longer in (0, _LONGER, -1))
    if first is None or second is None or first != second or single not in (None, first):
        raise Unsupported("no PyTorch rule for this operator, whose decomposition depends on sizes")
    steps, output = first
    values: list[Any] = list(_tensors(contents))
    for step in steps:
        made = evaluate(step.schema, _filled(step.arguments, values))
        listed = list(made) if isinstance(made, (list, tuple)) else [made]
        values += listed[: len(step.results)]
    return _filled(output, values)


def _is_tensor(content: Any) -> bool:
    return isinstance(content, (torch.Tensor, ir.Value, ComplexPair))


def _tensors(contents: Any) -> list[Any]:
    return [c for c in pytree.tree_leaves(contents, is_leaf=_is_tensor) if _is_tensor(c)]


def _filled(arguments: Any, values: list[Any]) -> Any:
    if isinstance(arguments, Place):
        return values[arguments.number]
    if isinstance(arguments, (list, tuple)):
        return type(arguments)(_filled(a, values) for a in arguments)
    return arguments


def _record(g: Graph, schema: torch.FunctionSchema, contents: list[Any], longer: int) -> tuple[list[Step], Any] | None:
    """Return the steps and the result of an operator, recorded on examples; None if it fails on them."""
    recorder = _Recorder()
    try:
        examples = [_example(g, c, longer) for c in contents]
        for tensor in _tensors(examples):
            recorder.add(tensor)
        split = next((i for i, a in enumerate(schema.arguments) if a.kwarg_only), len(schema.arguments))
        named = {a.name: v for a, v in zip(schema.arguments[split:], examples[split:], strict=False)}
        op = _INTERPRETED.get(schema.name) or operator_of(schema.name, schema.overload_name)[0]
        with torch.no_grad(), recorder:
            result = op(*examples[:split], **named)
        return recorder.steps, recorder.shown(result)
    except Exception:
        # Whatever fails on the meta device, or with guessed sizes, only means that there is no recording.
        return None


def _example(g: Graph, content: Any, longer: int) -> Any:
    if isinstance(content, (list, tuple)):
        return type(content)(_example(g, c, longer) for c in content)
    if isinstance(content, torch.Tensor):
        return torch.empty_like(content, device="meta")
    if not _is_tensor(content):
        return torch.device("meta") if isinstance(content, torch.device) else content
    part = content.real if isinstance(content, ComplexPair) else content
    if part.shape is None or is_scalar(part):
        raise Unsupported("a tensor whose number of dims is not known, or a number known at run time only")
    sizes = [d if isinstance(d, int) else 2 + longer for d in part.shape]
    dtype = torch_dtype(g, part)
    return torch.empty(sizes, dtype=dtype.to_complex() if part is not content else dtype, device="meta")


@dataclass
class _State:
    numbers: dict[int, int] = field(default_factory=dict)
    kept: list[torch.Tensor] = field(default_factory=list)


class _Recorder(TorchDispatchMode):
    """Records each operator that is called."""

    def __init__(self) -> None:
        super().__init__()
        self.steps: list[Step] = []
        self.state = _State()

    def add(self, tensor: torch.Tensor) -> int:
        """Return the number of a tensor. The tensor is kept alive, so that no other tensor gets its id."""
        number = self.state.numbers.setdefault(id(tensor), len(self.state.kept))
        if number == len(self.state.kept):
            self.state.kept.append(tensor)
        return number

    def shown(self, value: Any) -> Any:
        """Return a value with a `Place` for each tensor; raises KeyError for a tensor that was not recorded."""
        if isinstance(value, torch.Tensor):
            return Place(self.state.numbers[id(value)])
        if isinstance(value, (list, tuple)):
            return [self.shown(v) for v in value] if isinstance(value, list) else tuple(map(self.shown, value))
        return torch.device("cpu") if isinstance(value, torch.device) else value

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        schema = schema_of(func)
        if schema.is_mutable:
            raise Unsupported("an operator that writes")
        given = [
            args[i] if i < len(args) else kwargs.get(a.name, a.default_value if a.has_default_value() else None)
            for i, a in enumerate(schema.arguments)
        ]
        arguments = self.shown(given)
        result = func(*args, **kwargs)
        results = tuple(self.add(t) for t in pytree.tree_leaves(result) if isinstance(t, torch.Tensor))
        self.steps.append(Step(schema, arguments, results))
        return result
