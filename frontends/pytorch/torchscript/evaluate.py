"""Evaluates ATen operators of a TorchScript program: by PyTorch if all is known, or on examples; else by the rules."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import onnx_ir as ir
import torch

from convert.errors import Location, Unsupported

from ..common.complexes import ComplexPair, has_pair
from ..dispatch import call
from ..rules import _scalar_types as scalar_types
from ..rules import is_inplace, key_of, torch_op
from ..torch_internals import operator_of
from . import views
from .composites import is_composite, run_taken_apart
from .context import Walk, example_of
from .values import UNKNOWN, Dict, List, Number, Object, OptionalValue, Sequence, Tensor, Unknown, read

# Constants up to this number of bytes are computed during conversion if that is exact.
_SMALL = 65536


def as_rule_argument(walk: Walk, value: Any) -> Any:
    """Return a value of the program as rules take it; constant tensors stay PyTorch's until the graph needs them.

    Raises `Unsupported` for a list of unknown length, and for an optional that depends on data.
    """
    if isinstance(value, Tensor):
        return read(walk.memory, value)
    if isinstance(value, Number):
        return value.value
    if isinstance(value, List):
        if isinstance(value.state, Sequence):
            raise Unsupported("this operator takes a list whose length is not known")
        return [as_rule_argument(walk, v) for v in value.state]
    if isinstance(value, OptionalValue):
        raise Unsupported("this operator takes an optional that data decide about")
    if isinstance(value, Dict):
        return {k: as_rule_argument(walk, v) for k, v in value.state.items()}
    if isinstance(value, Object):
        return value.script
    return tuple(as_rule_argument(walk, v) for v in value) if isinstance(value, tuple) else value


def as_python(value: Any) -> Any:
    """Return a known value as the Python object that PyTorch's operators take."""
    if isinstance(value, Tensor):
        return value.state.content
    if isinstance(value, List):
        return [as_python(v) for v in value.state]
    if isinstance(value, Dict):
        return {k: as_python(v) for k, v in value.state.items()}
    return tuple(map(as_python, value)) if isinstance(value, tuple) else value


def evaluate(walk: Walk, schema: torch.FunctionSchema, contents: list[Any], at: Location) -> Any:
    """Return the functional result of an operator on contents: computed if that is exact, else lowered by the rule."""
    name = schema.name.removeprefix("aten::")
    if name in views.PASSING:
        return contents[0]
    if _may_fold(schema, name, contents):
        return run_operator(schema, contents)
    values = [_map_nested(c, walk.value) for c in contents]
    if not has_rule(schema, values) and is_composite(schema):
        return run_taken_apart(walk.g, schema, values, lambda part, given: evaluate(walk, part, given, at))
    with walk.g.at(at):
        return call(walk.g, schema, values, {}, at)


def has_rule(schema: torch.FunctionSchema, values: list[Any]) -> bool:
    """Return whether an operator has a rule for these values, or a stated reason for having none."""
    key = key_of(schema.name, schema.overload_name, paired=has_pair(values))
    return key in torch_op or key in torch_op.gaps


def _may_fold(schema: torch.FunctionSchema, name: str, contents: list[Any]) -> bool:
    """Return whether everything is known, and computing the result now changes no rounding and makes no large
    constant.
    """
    if is_inplace(schema) or _any_nested(contents, lambda c: isinstance(c, (ir.Value, ComplexPair, Unknown))):
        return False
    op, tags = _overload(schema)
    if op is None or any("nondeterministic" in str(t) for t in tags):
        return False
    if not any("Tensor" in str(r.type) for r in schema.returns) or name in ("tensor", "as_tensor"):
        return True
    if key_of(schema.name, schema.overload_name) not in torch_op and _any_nested(
        contents, lambda c: isinstance(c, torch.Tensor)
    ):
        return False
    if any(a.alias_info is not None for a in schema.arguments):
        return name not in views.UNCERTAIN and name != "to"
    example = run_on_meta(schema, [_map_nested(c, _as_meta) for c in contents])
    listed = example if isinstance(example, (list, tuple)) else [example]
    exact = not _any_nested(contents, lambda c: isinstance(c, torch.Tensor)) or not any(
        isinstance(e, torch.Tensor) and (e.is_floating_point() or e.is_complex()) for e in listed
    )
    return exact and all(isinstance(e, torch.Tensor) and e.nbytes <= _SMALL for e in listed)


def run_operator(schema: torch.FunctionSchema, args: list[Any]) -> Any:
    """Return the result that PyTorch itself computes. Raises `Unsupported` for an operator that PyTorch does not
    have.
    """
    op, _ = _overload(schema)
    if op is None:
        raise Unsupported("no PyTorch rule for this operator")
    split = next((i for i, a in enumerate(schema.arguments) if a.kwarg_only), len(schema.arguments))
    named = {a.name: v for a, v in zip(schema.arguments[split:], args[split:], strict=False)}
    with torch.no_grad():
        return op(*args[:split], **named)


@cache
def _overload(schema: torch.FunctionSchema) -> tuple[Any, tuple[Any, ...]]:
    try:
        op, _, tags = operator_of(schema.name, schema.overload_name)
    except (RuntimeError, TypeError):
        return None, ()
    return op, tuple(tags)


def _as_meta(content: Any) -> Any:
    return example_of(content) if isinstance(content, torch.Tensor) else content


# -- examples ---------------------------------------------------------------------------------------------------------


def example_results(schema: torch.FunctionSchema, args: list[Any], in_place: bool) -> Any:
    """Return the result of an operator for the example inputs on the meta device; None if it is unknown.

    Its dtype and rank hold for all inputs.
    """
    values = [_example_argument(a) for a in args]
    if _any_nested(values, lambda v: v is UNKNOWN):
        return None
    if in_place and isinstance(values[0], torch.Tensor):
        values[0] = values[0].clone()
    return run_on_meta(schema, values)


def _example_argument(value: Any) -> Any:
    if isinstance(value, Tensor):
        return UNKNOWN if value.state.example is None else value.state.example
    if isinstance(value, Number):
        return UNKNOWN if value.example is None else value.example
    if isinstance(value, List):
        return [_example_argument(v) for v in value.state] if isinstance(value.state, tuple) else UNKNOWN
    return value


def run_on_meta(schema: torch.FunctionSchema, values: list[Any]) -> Any:
    for i, argument in enumerate(schema.arguments[: len(values)]):
        if "Device" in str(argument.real_type):
            values[i] = torch.device("meta")
    if schema.name.startswith("aten::_autocast_to"):  # autocast ignores tensors that are not on the CPU
        return _autocast_example(*values)
    try:
        return run_operator(schema, values)
    except Exception:
        # Whatever fails here (shapes that depend on data, no meta kernel) only means that nothing is known.
        return None


def _autocast_example(x: torch.Tensor, cuda: bool, cpu: bool, *dtypes: Any) -> torch.Tensor:
    """Return the result of autocast's casts on the CPU: to the last of `dtypes`, or without one back to float32."""
    narrow = scalar_types()[dtypes[-1]] if dtypes else torch.float32
    of = (torch.float32,) if dtypes else (torch.float16, torch.bfloat16)
    return x.to(narrow) if cpu and x.dtype in of else x


def _map_nested(value: Any, function: Callable[[Any], Any]) -> Any:
    if isinstance(value, (list, tuple)):
        return type(value)(_map_nested(v, function) for v in value)
    return function(value)


def _any_nested(value: Any, test: Callable[[Any], bool]) -> bool:
    if isinstance(value, (list, tuple)):
        return any(_any_nested(v, test) for v in value)
    return test(value)
