"""ONNX's operator schemas, in the form in which rule tables of backends bind inputs and attributes."""

from __future__ import annotations

from functools import cache
from typing import Any

import onnx
import onnx_ir as ir

from convert.graph import OPSET
from convert.rules import REQUIRED, Argument, Rules, Schema
from convert.rules.skeleton import skeleton

_Option = onnx.defs.OpSchema.FormalParameterOption


def operator_of(node: ir.Node) -> str:
    """Return the key of a node in a rule table: "Conv", or "domain::Operator" outside ONNX's default domain."""
    return f"{node.domain}::{node.op_type}" if node.domain not in ("", "ai.onnx") else node.op_type


def onnx_schema(operator: str) -> onnx.defs.OpSchema | None:
    """Return the schema of a table key at the canonical opset, at the newest opset for newer operators, or None."""
    domain, _, name = operator.rpartition("::")
    for version in (OPSET, onnx.defs.onnx_opset_version()):
        if onnx.defs.has(name, version, domain):
            return onnx.defs.get_schema(name, version, domain)
    return None


@cache
def schema(operator: str) -> Schema | None:
    """Return the schema of a table key, or None if ONNX has none.

    Inputs are positional, None where absent. Attributes are keywords with the schema's defaults.
    """
    found = onnx_schema(operator)
    if found is None:
        return None
    positional = [
        Argument(i.name, REQUIRED if i.option == _Option.Single else None)
        for i in found.inputs
        if i.option != _Option.Variadic
    ]
    return Schema(tuple(positional), tuple(Argument(a.name, _default(a)) for a in found.attributes.values()))


def plain_value(value: Any) -> Any:
    """Return an attribute's value as Python data: bytes become text, repeated fields become lists."""
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, (str, int, float)) or not hasattr(value, "__iter__"):
        return value
    return [plain_value(v) for v in value]


def _default(attribute: onnx.defs.OpSchema.Attribute) -> Any:
    if attribute.required:
        return REQUIRED
    if not attribute.default_value.name:
        return None
    return plain_value(onnx.helper.get_attribute_value(attribute.default_value))


def onnx_skeleton(table: Rules, operator: str, module: str) -> str:
    """Return the beginning of a rule for `operator` in a backend's table, as `convert.rules.skeleton` writes it."""
    found = onnx_schema(operator)
    signature = ""
    if found is not None:
        given, made = ", ".join(i.name for i in found.inputs), ", ".join(o.name for o in found.outputs)
        signature = f"{operator}({given}) -> {made}"
    return skeleton(table, operator, schema(operator), signature, module, "onnx_op")
