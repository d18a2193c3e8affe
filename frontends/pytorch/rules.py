"""The rule table of the PyTorch frontend, and how both readers find the rule of an ATen call.

Rules are keyed by the operator's name without namespace and overload ("leaky_relu"), with the overload if that has
another meaning ("max.dim" beside "max"), and with the namespace for custom operators ("torchvision::nms"). Arguments
arrive as the overload's schema names them:

- tensors, and ints or floats that are known at run time only, are `onnx_ir` values (the numbers have rank 0 and are
  marked by `values.mark_scalar`); other ints, floats, bools and strings are Python's; lists are lists of those;
- dtypes are `torch.dtype`; an int given for a fixed-size list (`int[2]`) is repeated;
- device, layout, memory format, pinning and generators are dropped: they do not change the result.

>>> import onnx_ir as ir
>>> from convert.frontends.pytorch import torch_op
>>> from convert.graph import Graph
>>> @torch_op("mine::cube")
... def cube(g, x, scale=1.0):
...     return g.Mul(g.Mul(g.Mul(x, x), x), g.const(scale, g.dtype(x)))
>>> g = Graph()
>>> x = g.input("x", ir.DataType.FLOAT, ("batch", 4))
>>> y = torch_op.apply(g, "mine::cube", [x, 0.5])
>>> y.producer().op_type, str(y.shape)
('Mul', '[batch,4]')
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from convert.rules import REQUIRED, Argument, Rules, Schema

if TYPE_CHECKING:
    import torch


torch_op = Rules("PyTorch")

_IMPLIED_TYPES = ("Device", "Layout", "MemoryFormat", "Generator")
_IMPLIED_NAMES = ("pin_memory", "non_blocking", "implicit")


def key_of(name: str, overload: str = "", *, paired: bool = False) -> str:
    """Return the key of an operator in the table: ("aten::max", "dim") gives "max.dim" if that has a rule, else "max".

    An in-place operator ("aten::relu_") has the key of its functional counterpart unless it has a rule of its own; the
    caller of the rule replaces the first argument by the result. If an operand is complex (`paired`), the key is the
    one under "complex::".
    """
    name = ("complex::" if paired else "") + name.removeprefix("aten::")
    overload = overload or "default"
    for plain in (name, functional_name(name)):
        for key in (f"{plain}.{overload}", plain):
            if key in torch_op:
                return key
    return f"{name}.{overload}" if f"{name}.{overload}" in torch_op.gaps else functional_name(name)


def functional_name(name: str) -> str:
    """Return the name of the functional operator: "add" for the in-place "add_"; `__and__` and `relu` stay."""
    if name.startswith("__i") and name.endswith("__"):
        return f"__{name[3:]}"
    return name[:-1] if name.endswith("_") and not name.endswith("__") else name


def is_inplace(schema: torch.FunctionSchema) -> bool:
    """Return whether the operator writes to its first argument."""
    first = schema.arguments[0] if schema.arguments else None
    return first is not None and first.alias_info is not None and first.alias_info.is_write


def bindable_schema(schema: torch.FunctionSchema) -> Schema:
    """Return `schema` as the dispatcher needs it, without the arguments that never matter."""
    matter = [a for a in schema.arguments if not _is_implied(a)]
    positional = tuple(Argument(a.name, _default_value(a)) for a in matter if not a.kwarg_only)
    return Schema(positional, tuple(Argument(a.name, _default_value(a)) for a in matter if a.kwarg_only))


def _is_implied(argument: Any) -> bool:
    kind = str(argument.real_type)
    return any(t in kind for t in _IMPLIED_TYPES) or argument.name in _IMPLIED_NAMES


def _default_value(argument: Any) -> Any:
    return _normalize_value(argument, argument.default_value) if argument.has_default_value() else REQUIRED


def _normalize_value(argument: Any, value: Any) -> Any:
    kind = str(argument.real_type)
    if "ScalarType" in kind and isinstance(value, int) and not isinstance(value, bool):
        return _scalar_types()[value]
    if argument.N is not None and isinstance(value, (int, float)):
        return [value] * argument.N
    if "List[" in kind and isinstance(value, tuple):
        return list(value)
    return value


@cache
def _scalar_types() -> dict[int, torch.dtype]:
    """Return the dtypes by the numbers that TorchScript and schema defaults use for them."""
    import torch

    order = (
        "uint8",
        "int8",
        "int16",
        "int32",
        "int64",
        "float16",
        "float32",
        "float64",
        "complex32",
        "complex64",
        "complex128",
        "bool",
        "qint8",
        "quint8",
        "qint32",
        "bfloat16",
    )
    return {i: getattr(torch, name) for i, name in enumerate(order)}
