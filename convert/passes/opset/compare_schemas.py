"""Compares two versions of an ONNX operator: does a node have the same meaning in both?"""

from __future__ import annotations

from functools import cache
from typing import Any

import onnx
import onnx_ir as ir

from convert.graph.node_inference import type_proto
from convert.graph.tensors import dtype_name
from convert.graph.values import known_dims, rank

# Operators whose meaning changed at an opset, although a node may look the same before and after.
_REDEFINED = {
    "Softmax": 13,
    "LogSoftmax": 13,
    "Hardmax": 13,
    "RoiAlign": 16,
    "GroupNormalization": 21,
    "QuantizeLinear": 13,
    "DequantizeLinear": 13,
    "Dropout": 12,
    "PRelu": 7,
}

COUNTED_FROM_ZERO = frozenset(("ArgMax", "ArgMin", "Compress", "Concat", "Flatten", "OneHot", "Split"))
"""Operators that accept negative axes since opset 11; onnxruntime rejects some negative axes before."""

# Attribute values that were added to the specification after the attribute.
_LATE_VALUES = {
    ("Pad", "mode", "wrap"): 19,
    ("Resize", "coordinate_transformation_mode", "half_pixel_symmetric"): 19,
    ("ScatterElements", "reduction", "max"): 18,
    ("ScatterElements", "reduction", "min"): 18,
    ("GridSample", "mode", "linear"): 20,
    ("GridSample", "mode", "cubic"): 20,
    ("ScatterND", "reduction", "max"): 18,
    ("ScatterND", "reduction", "min"): 18,
}


def axis_from_zero(node: ir.Node, axis: int) -> int:
    """Return the axis of a node as a non-negative number if the rank is known; OneHot's axis refers to its output."""
    dims = rank(node.outputs[0] if node.op_type == "OneHot" else node.inputs[0])
    return axis % dims if axis < 0 and dims else axis


@cache
def same_signature(operator: str, version: int, target: int) -> bool:
    """Return whether two versions of an operator are equal except for the types that they accept."""
    one, two = onnx.defs.get_schema(operator, version, ""), onnx.defs.get_schema(operator, target, "")
    if one.since_version == two.since_version:
        return True
    same = _attributes(one) == _attributes(two) and _parameters(one) == _parameters(two)
    return same and not _is_redefined(operator, version, target)


def fits_version(node: ir.Node, version: int, target: int) -> bool:
    """Return whether the older version `target` of the node's operator accepts the node unchanged.

    Attributes that the older version lacks are dropped if they are at their default, which is the older behaviour (the
    exceptions are listed above).
    """
    new = onnx.defs.get_schema(node.op_type, version, "")
    old = onnx.defs.get_schema(node.op_type, target, "")
    if new.since_version == old.since_version:
        return True
    axis = node.attributes.get_int("axis", 0)
    if node.op_type in COUNTED_FROM_ZERO and target < 11 and axis_from_zero(node, axis) != axis:
        return False
    if _is_redefined(node.op_type, version, target) or _freer(node, version, target):
        return False
    if wrong_types(node, old) or not _inputs_fit(node, new, old):
        return False
    extra = []
    for name, attribute in node.attributes.items():
        text = attribute.value if attribute.type == ir.AttributeType.STRING else ""
        late = _LATE_VALUES.get((node.op_type, name, text))
        if late is not None and target < late:
            return False
        if name not in old.attributes:
            # the default is only in the specification's text
            plain = name == "dilations" and all(n == 1 for n in attribute.as_ints())
            if not plain and attribute.value != default_of(new, name):
                return False
            extra.append(name)
    for name in new.attributes:
        changed = name in old.attributes and default_of(new, name) != default_of(old, name)
        if changed and name not in node.attributes:
            return False
    if any(a.required and name not in node.attributes for name, a in old.attributes.items()):
        return False
    for name in extra:
        node.attributes.pop(name)
    return True


def wrong_types(node: ir.Node, schema: onnx.defs.OpSchema) -> str:
    """Return why the schema rejects the node's known input or output types; "" if it accepts them."""
    constraints = {c.type_param_str: set(c.allowed_type_strs) for c in schema.type_constraints}
    bound: dict[str, str] = {}
    for i, value in enumerate(node.inputs):
        if value is None or value.type is None or not schema.inputs:
            continue
        formal = schema.inputs[min(i, len(schema.inputs) - 1)]
        text = type_text(value)
        allowed = constraints.get(formal.type_str, {formal.type_str})
        if text not in allowed:
            return f"opset {schema.since_version} of it does not take {dtype_name(value.dtype)}"
        if formal.is_homogeneous and bound.setdefault(formal.type_str, text) != text:
            return f"opset {schema.since_version} of it wants inputs of one type"
    for value, formal in zip(node.outputs, schema.outputs, strict=False):
        if value.type is not None and type_text(value) not in constraints.get(formal.type_str, {formal.type_str}):
            return f"opset {schema.since_version} of it does not give {dtype_name(value.dtype)}"
    return ""


def type_text(value: ir.Value) -> str:
    """Return the type of a value as schemas write it: `tensor(float)`, `seq(tensor(int64))`."""
    return _text(type_proto(value))


def default_of(schema: onnx.defs.OpSchema, name: str) -> Any:
    """Return the default of an attribute as a Python value; None if there is none."""
    attribute = schema.attributes[name]
    proto = attribute.default_value
    if proto.type == onnx.AttributeProto.UNDEFINED:
        return None
    value = onnx.helper.get_attribute_value(proto)
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, list):
        return tuple(v.decode() if isinstance(v, bytes) else v for v in value)
    return value


def late_value(node: onnx.NodeProto, target: int) -> str:
    """Return an attribute value that was added after opset `target`, as `mode='wrap'`; "" if there is none."""
    for attribute in node.attribute:
        text = attribute.s.decode(errors="replace") if attribute.type == onnx.AttributeProto.STRING else ""
        if target < _LATE_VALUES.get((node.op_type, attribute.name, text), 0):
            return f"{attribute.name}={text!r}"
    return ""


def _is_redefined(operator: str, version: int, target: int) -> bool:
    boundary = _REDEFINED.get(operator)
    return boundary is not None and (version < boundary) != (target < boundary)


def short_mask(node: ir.Node) -> int | None:
    """Return how many keys the mask of an Attention lacks (opset 24 hides them).

    Returns None if it is known at run time only.
    """
    _, k, _, mask, past = [*node.inputs, *[None] * 5][:5]
    if mask is None or (past is None and _same_name(mask, k)):
        return 0
    seen, new = _dim(mask, -1), _dim(k, -2)
    old = _dim(past, -2) if past is not None else 0
    return None if seen is None or new is None or old is None else max(0, old + new - seen)


def _same_name(mask: ir.Value, k: ir.Value | None) -> bool:
    """Return whether the last dim of the mask has the same name as the dim of the keys."""
    if k is None or mask.shape is None or k.shape is None or not len(mask.shape) or len(k.shape) < 2:
        return False
    last, keys = mask.shape[-1], k.shape[-2]
    return isinstance(last, ir.SymbolicDim) and last.value is not None and last == keys


def _dim(value: ir.Value | None, axis: int) -> int | None:
    if value is None or value.shape is None or len(value.shape) < -axis:
        return None
    size = value.shape[axis]
    return size if isinstance(size, int) else None


def _freer(node: ir.Node, version: int, target: int) -> bool:
    """Return whether the node depends on a rule that a later opset added to its operator without a change of its
    signature.
    """
    if node.op_type == "Mod" and target < 28 <= version and not node.attributes.get_int("fmod", 0):
        first = node.inputs[0]
        return first is not None and first.dtype is not None and first.dtype.is_floating_point()
    if node.op_type in ("Max", "Min", "Sum", "Mean"):  # these broadcast from opset 8 on
        return target < 8 <= version and len({known_dims(x) for x in node.inputs if x is not None}) > 1
    return node.op_type == "Attention" and target < 24 <= version and short_mask(node) != 0


def _inputs_fit(node: ir.Node, new: onnx.defs.OpSchema, old: onnx.defs.OpSchema) -> bool:
    if not old.min_input <= len(node.inputs) <= old.max_input or len(node.outputs) > old.max_output:
        return False
    names = [(i.name, i.option) for i in old.inputs]
    for i, value in enumerate(node.inputs[: len(names)]):
        required = names[i][1] == onnx.defs.OpSchema.FormalParameterOption.Single
        if value is None and required:
            return False
    # An input that was only renamed is the same input; no operator in ONNX's history moved an input to another
    # position.
    return len(old.inputs) <= len(new.inputs) or len(node.inputs) >= old.min_input


def _attributes(schema: onnx.defs.OpSchema) -> dict[str, tuple[Any, bool, Any]]:
    return {n: (a.type, a.required, _hashable(default_of(schema, n))) for n, a in schema.attributes.items()}


def _hashable(value: Any) -> Any:
    return value.SerializeToString() if hasattr(value, "SerializeToString") else value


def _parameters(schema: onnx.defs.OpSchema) -> tuple[Any, ...]:
    return (
        [(i.name.lower(), i.option) for i in schema.inputs],
        [(o.name.lower(), o.option) for o in schema.outputs],
    )


def _text(proto: onnx.TypeProto) -> str:
    kind = proto.WhichOneof("value")
    if kind == "tensor_type":
        name = onnx.TensorProto.DataType.Name(proto.tensor_type.elem_type).lower()
        return f"tensor({name})"
    if kind == "sequence_type":
        return f"seq({_text(proto.sequence_type.elem_type)})"
    if kind == "optional_type":
        return f"optional({_text(proto.optional_type.elem_type)})"
    return kind or ""
