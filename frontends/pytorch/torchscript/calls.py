"""Calls of ATen operators in a TorchScript program: folded if all arguments are known, else lowered by the shared
rules.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from enum import Enum
from functools import cache
from typing import Any

import onnx_ir as ir
import torch

from convert.errors import Location, Unsupported

from ..common.complexes import ComplexPair, pair_of
from ..common.values import as_value, cast, mark_scalar, onnx_dtype, torch_dtype
from ..rules import is_inplace, key_of, torch_op
from ..torch_internals import parse_schema
from . import numbers, views
from . import tensor_queries as inspect
from .context import Walk
from .evaluate import as_python, as_rule_argument, evaluate, example_results, run_operator
from .squeezes import SQUEEZES, check_squeezed
from .values import UNKNOWN, List, Number, Tensor, TensorState, View, has_unknown, is_known, write


@cache
def schema_of(text: str) -> torch.FunctionSchema | None:
    """Parse the schema that a node prints; None for nodes without one."""
    if not text or text.startswith("(no schema)") or "..." in text:
        return None
    return parse_schema(text)


@cache
def _has_tensors(text: str) -> bool:
    schema = schema_of(text)
    return schema is not None and any("Tensor" in str(a.type) for a in [*schema.arguments, *schema.returns])


def call_operator(walk: Walk, node: Any, args: list[Any]) -> Any:
    """Return the result of an operator; several results as a tuple."""
    kind, text = node.kind(), node.schema()
    if kind in inspect.IGNORED:
        walk.seeded = walk.seeded or kind == "aten::manual_seed"
        return () if node.outputsSize() == 0 else None
    if has_unknown(args):
        return _note_missing_rule(walk, node, args)
    if kind in inspect.INSPECTIONS:
        result = inspect.INSPECTIONS[kind](walk, node, args)
        if result is not NotImplemented:
            return result
    schema = schema_of(text)
    if schema is None:
        raise Unsupported("no PyTorch rule for this operator")
    if not _has_tensors(text):
        return _call_on_numbers(walk, node, schema, args)
    return _call_on_tensors(walk, node, schema, args)


def _note_missing_rule(walk: Walk, node: Any, args: list[Any]) -> Any:
    """Note a missing rule and return UNKNOWN; after an operator without a rule nothing else is evaluated."""
    kind, schema = node.kind(), schema_of(node.schema())
    if schema is not None:
        key = key_of(schema.name, schema.overload_name)
        known = key in torch_op or kind in inspect.INSPECTIONS or kind.removeprefix("aten::") in _IN_PLACE
        if _has_tensors(node.schema()) and not known:
            walk.problem(
                Unsupported(torch_op.gaps.get(key, "no PyTorch rule for this operator")), walk.location(node, key)
            )
        if is_inplace(schema) and isinstance(args[0], Tensor):
            write(walk.memory, args[0], UNKNOWN, None)
    return UNKNOWN


def _call_on_numbers(walk: Walk, node: Any, schema: torch.FunctionSchema, args: list[Any]) -> Any:
    if any(a.alias_info is not None and a.alias_info.is_write for a in schema.arguments):
        raise Unsupported("no PyTorch rule for this operator, which changes a list or dict")
    if any(isinstance(a, Enum) for a in args) and node.kind() in _ENUMS:
        return _ENUMS[node.kind()](*args)
    if all(map(is_known, args)):
        return walk.lift_object(run_operator(schema, [as_python(a) for a in args]))
    at = walk.location(node)
    with walk.g.at(at):
        return numbers.apply_operator(walk.g, node.kind(), args, [str(r.type) for r in schema.returns], schema)


_ENUMS: dict[str, Callable[[Any, Any], bool]] = {"aten::eq": lambda a, b: a is b, "aten::ne": lambda a, b: a is not b}
"""Comparisons of Enum members, which PyTorch's operators do not take from Python."""


# -- operators on tensors ---------------------------------------------------------------------------------------------


def _call_on_tensors(walk: Walk, node: Any, schema: torch.FunctionSchema, args: list[Any]) -> Any:
    name = schema.name.removeprefix("aten::")
    if any(a.name == "out" and a.alias_info is not None and a.alias_info.is_write for a in schema.arguments):
        raise Unsupported("the result is written to an argument named out")
    at = walk.location(node, key_of(schema.name, schema.overload_name))
    contents = [as_rule_argument(walk, a) for a in args]
    if name in SQUEEZES and isinstance(contents[0], ir.Value):
        contents[0] = check_squeezed(walk, contents[0], contents[1:], at)
    in_place = is_inplace(schema)
    example = example_results(schema, args, in_place)
    if in_place and isinstance(args[0], Tensor):
        return _call_in_place(walk, schema, args, contents, example, at)
    results = evaluate(walk, schema, contents, at)
    many = len(schema.returns) != 1
    listed = list(results) if many else [results]
    known = list(example) if many and example is not None else [example] * len(listed)
    wrapped = [
        _wrap_result(walk, name, schema, i, r, e, args, contents, at)
        for i, (r, e) in enumerate(zip(listed, known, strict=False))
    ]
    return tuple(wrapped) if many else wrapped[0]


def _wrap_result(
    walk: Walk,
    name: str,
    schema: torch.FunctionSchema,
    index: int,
    result: Any,
    example: Any,
    args: list[Any],
    contents: list[Any],
    at: Location,
) -> Any:
    """Return the `index`-th result of an operator as a value of the program."""
    returned = schema.returns[index]
    kind = str(returned.type)
    if result is None:
        return None
    if kind in ("Tensor", "Optional[Tensor]"):
        if name in views.SAME and result is contents[0] and not _has_copy_argument(schema, contents):
            return args[0]
        tensor = walk.tensor(
            annotate_result(walk, result, example, at), example if isinstance(example, torch.Tensor) else None
        )
        base = _aliased_argument(schema, args)
        if base is not None and name not in views.SAME:
            tensor.view = _make_view(walk, name, schema, base, contents, None, at)
            tensor.state = replace(tensor.state, seen=tensor.view.versions)
        return tensor
    if kind == "List[Tensor]":
        items = []
        result = [result] if isinstance(result, ir.Value) else result  # a node with one output returns the value itself
        shapes = example if isinstance(example, (list, tuple)) else [None] * len(result)
        for place, (item, shape) in enumerate(zip(result, shapes, strict=False)):
            tensor = walk.tensor(annotate_result(walk, item, shape, at), shape)
            base = _aliased_argument(schema, args, place)
            if base is not None:
                tensor.view = _make_view(walk, name, schema, base, contents, place, at)
                tensor.state = replace(tensor.state, seen=tensor.view.versions)
            items.append(tensor)
        return List(tuple(items), walk.memory.scope)
    if isinstance(result, ir.Value):
        types = {"int": int, "float": float, "bool": bool}
        return Number(mark_scalar(result), types.get(kind) or numbers.kind_of(walk.g, result), example)
    if isinstance(result, (list, tuple)):
        return List(
            tuple(Number(mark_scalar(r), int) if isinstance(r, ir.Value) else r for r in result), walk.memory.scope
        )
    return result


def _aliased_argument(schema: torch.FunctionSchema, args: list[Any], place: int = 0) -> Tensor | None:
    """Return the argument whose memory the result shares, according to the schema or `views.is_silent`; None if there
    is none.

    If the argument is a list of tensors, the result shares the memory of the item at `place`.
    """
    for argument, value in zip(schema.arguments, args, strict=False):
        if argument.alias_info is not None and not argument.alias_info.is_write and isinstance(value, Tensor):
            return value
    if not views.is_silent(schema.name.removeprefix("aten::"), args):
        return None
    lists = [a.state for a in args[:2] if isinstance(a, List) and isinstance(a.state, tuple)]
    lists = [items for items in lists if all(isinstance(i, Tensor) for i in items)]  # lists of sizes do not matter here
    tensors = [a for a in (lists[0][place : place + 1] if lists else args) if isinstance(a, Tensor)]
    return tensors[0] if tensors else None


def _make_view(
    walk: Walk,
    name: str,
    schema: torch.FunctionSchema,
    base: Tensor,
    contents: list[Any],
    place: int | None,
    at: Location,
) -> View:
    if name in views.UNCERTAIN:
        return View((base,))

    def replay(content: Any) -> Any:
        result = evaluate(walk, schema, [content, *contents[1:]], at)
        return result if place is None else result[place]

    def apply(inverse: torch.FunctionSchema, values: list[Any]) -> Any:
        return evaluate(walk, inverse, values, at)

    rest = contents[1:]
    scatter = views.scatter_of(name, rest, apply) if place is None else views.piece_scatter_of(name, rest, place, apply)
    if scatter is None:
        return View((base,), replay, epoch=base.epoch)

    def into(content: Any, new: Any) -> Any:
        with walk.g.at(at):
            return scatter(walk.g, walk.value(content), walk.value(new))

    return View((base,), replay, into, epoch=base.epoch)


def _has_copy_argument(schema: torch.FunctionSchema, contents: list[Any]) -> bool:
    return any(a.name == "copy" and c is True for a, c in zip(schema.arguments, contents, strict=False))


def annotate_result(walk: Walk, result: Any, example: Any, at: Location) -> Any:
    """Cast a result to the dtype that PyTorch gives it, and set its rank if ONNX inference lost it."""
    if not isinstance(result, ir.Value) or not isinstance(example, torch.Tensor):
        return result
    if result.dtype is None:
        walk.g.facts(result, dtype=onnx_dtype(example.dtype))
    with walk.g.at(at):
        result = cast(walk.g, result, example.dtype)
    if result.shape is None:
        walk.g.facts(result, shape=[None] * example.dim())
    return result


# -- writes -----------------------------------------------------------------------------------------------------------


def _call_in_place(
    walk: Walk, schema: torch.FunctionSchema, args: list[Any], contents: list[Any], example: Any, at: Location
) -> Tensor:
    """Evaluate the functional counterpart of an in-place operator and write the result to the first argument, which is
    returned.
    """
    tensor, name = args[0], schema.name.removeprefix("aten::")
    if name in views.RESHAPED_IN_PLACE:
        result = evaluate(walk, schema, contents, at)
        _reshape_in_place(walk, tensor, annotate_result(walk, result, example, at), example, schema, contents, at)
        return tensor
    if name in _IN_PLACE:
        with walk.g.at(at):
            result = _IN_PLACE[name](walk, walk.value(contents[0]), *contents[1:])
    else:
        result = evaluate(walk, schema, contents, at)
    before = contents[0]
    if isinstance(before, ComplexPair):
        pair: Any = pair_of(walk.g, result, torch_dtype(walk.g, before.real))
        write(walk.memory, tensor, pair, tensor.state.example, str(at))
        return tensor
    dtype = before.dtype if isinstance(before, ir.Value) else onnx_dtype(before.dtype)
    if isinstance(result, ir.Value) and dtype is not None:
        with walk.g.at(at):
            result = cast(walk.g, result, dtype)
        if result.shape is None and tensor.state.example is not None:
            walk.g.facts(result, shape=[None] * tensor.state.example.dim())
    write(walk.memory, tensor, result, tensor.state.example, str(at))
    return tensor


def _reshape_in_place(
    walk: Walk,
    tensor: Tensor,
    content: Any,
    example: Any,
    schema: torch.FunctionSchema,
    contents: list[Any],
    at: Location,
) -> None:
    """Turn the tensor into a view of its former self; views made of it before cannot be read after the next write.

    Raises `Unsupported` inside a branch or loop in which the tensor was not made.
    """
    if walk.memory.scope != tensor.scope:
        raise Unsupported("a tensor changes its shape in place inside a branch or loop that depends on data")
    before = Tensor(tensor.state, tensor.view, tensor.scope)
    name = schema.name.removeprefix("aten::").removesuffix("_")
    tensor.view = _make_view(walk, name, schema, before, contents, None, at)
    tensor.epoch += 1
    state = TensorState(
        content, example if isinstance(example, torch.Tensor) else None, walk.memory.version(), tensor.view.versions
    )
    walk.memory.write(tensor, state, effect=False)


def _copy(walk: Walk, x: ir.Value, source: Any, non_blocking: Any = False) -> ir.Value:
    g, source = walk.g, walk.value(source)
    if not isinstance(source, ir.Value):
        return _fill(walk, x, source)
    source = cast(g, source, g.dtype(x))
    if x.shape is not None and x.shape == source.shape and all(d is not None for d in g.shape(x)):
        return g.Identity(source) if source.is_graph_input() else source
    return g.Expand(source, g.dims(x))


def _fill(walk: Walk, x: ir.Value, number: Any) -> ir.Value:
    g, number = walk.g, walk.value(number)
    if not isinstance(number, ir.Value):
        number = as_value(g, number, g.dtype(x))
    return g.Expand(cast(g, number, g.dtype(x)), g.dims(x))


_IN_PLACE: dict[str, Callable[..., ir.Value]] = {
    "copy_": _copy,
    "fill_": _fill,
    "zero_": lambda walk, x: _fill(walk, x, 0),
}
