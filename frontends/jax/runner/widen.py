"""Widens a module to float64: the types of all values, and of constants, which keep their content."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from jaxlib.mlir import ir as mlir

from convert.errors import Unsupported
from convert.graph.written_numbers import unrounded_number

from ..types import attribute_value, complex_constant, constant_array

_NARROW = ("f16", "bf16", "f32")


def widen(module: mlir.Module) -> None:
    """Change all floating-point types of a module to float64, in place. Raises `Unsupported` if the module reads bits
    of numbers.

    Numbers that are made of bits, such as random numbers, are made in their own format and then widened.

    CHLO composites are replaced by the operators that they stand for, because their function bodies have the digits of
    float32 only.
    """
    with module.context, mlir.Location.unknown():
        for op in list(operations_in(module.operation)):
            if op.name == "stablehlo.bitcast_convert" and _is_narrow(op.operands[0].type):
                raise Unsupported("the program looks at the bits of floating numbers, which are others in float64")
            if op.name == "stablehlo.composite":
                _restore_operator(op)
        for op in list(operations_in(module.operation)):
            if op.name == "stablehlo.bitcast_convert" and _is_narrow(op.results[0].type):
                _widen_result(op)
            else:
                _widen_operation(op)


def operations_in(op: mlir.Operation) -> Iterator[mlir.Operation]:
    """Yield all operators inside an operator, at any depth."""
    for region in op.regions:
        for block in region.blocks:
            for inner in list(block.operations):
                yield inner.operation
                yield from operations_in(inner.operation)


def _restore_operator(op: mlir.Operation) -> None:
    name = attribute_value(op.attributes["name"])
    if not name.startswith("chlo."):
        return
    inner = op.attributes["composite_attributes"] if "composite_attributes" in op.attributes else None  # noqa: SIM401
    attributes = {} if inner is None else {inner[i].name: inner[i].attr for i in range(len(inner))}
    made = mlir.Operation.create(
        name, [r.type for r in op.results], list(op.operands), attributes=attributes, ip=mlir.InsertionPoint(op)
    )
    for old, new in zip(op.results, made.results, strict=True):
        old.replace_all_uses_with(new)
    op.erase()


def _widen_result(op: mlir.Operation) -> None:
    """Convert the results of an operator, which keeps its own types."""
    (narrow,) = op.results
    place = mlir.InsertionPoint.after(op)
    made = mlir.Operation.create("stablehlo.convert", [_wide(narrow.type)], [narrow], ip=place)
    narrow.replace_all_uses_except(made.results[0], made)


def _widen_operation(op: mlir.Operation) -> None:
    if op.name == "stablehlo.reduce_precision":
        op.results[0].replace_all_uses_with(op.operands[0])
    if op.name == "stablehlo.custom_call":
        target = attribute_value(op.attributes["call_target_name"])
        for narrow, wide in (("lapack_s", "lapack_d"), ("lapack_c", "lapack_z")):
            if target.startswith(narrow):
                op.attributes["call_target_name"] = mlir.StringAttr.get(target.replace(narrow, wide, 1))
    if op.name == "stablehlo.constant" and str(op.results[0].type.element_type) == "complex<f32>":
        _widen_complex_constant(op)
        return
    if op.name == "stablehlo.constant" and _is_narrow(op.results[0].type):
        _widen_constant(op)
    for value in (*op.results, *(a for region in op.regions for block in region.blocks for a in block.arguments)):
        value.set_type(_wide(value.type))
    if op.name == "func.func":
        signature = mlir.FunctionType(mlir.TypeAttr(op.attributes["function_type"]).value)
        wide = mlir.FunctionType.get([*map(_wide, signature.inputs)], [*map(_wide, signature.results)])
        op.attributes["function_type"] = mlir.TypeAttr.get(wide)


def _widen_constant(op: mlir.Operation) -> None:
    attribute = op.attributes["value"]
    type_ = _wide(attribute.type)
    array = constant_array(attribute).astype(np.float64)
    if attribute.is_splat and array.size:
        content = float(array.ravel()[0])
        single = str(attribute.type.element_type) == "f32"
        number = mlir.FloatAttr.get_f64(unrounded_number(content) if single else content)
        op.attributes["value"] = mlir.DenseElementsAttr.get_splat(type_, number)
    else:
        op.attributes["value"] = mlir.DenseElementsAttr.get(np.ascontiguousarray(array), type=mlir.F64Type.get())


def _widen_complex_constant(op: mlir.Operation) -> None:
    """Insert a pair of constants instead, because jaxlib 0.10 cannot create attributes of complex numbers."""
    array = complex_constant(op).astype(np.complex128)
    place = mlir.InsertionPoint(op)
    parts = []
    for part in (array.real, array.imag):
        if part.size == 1:  # the reader restores the same numbers
            part = np.full(part.shape, unrounded_number(part.item()))
        value = mlir.DenseElementsAttr.get(np.ascontiguousarray(part), type=mlir.F64Type.get(), shape=part.shape)
        made = mlir.Operation.create("stablehlo.constant", [value.type], attributes={"value": value}, ip=place)
        parts.append(made.results[0])
    pair = mlir.Operation.create("stablehlo.complex", [_wide(op.results[0].type)], parts, ip=place)
    op.results[0].replace_all_uses_with(pair.results[0])
    op.erase()


def _is_narrow(*types: mlir.Type) -> bool:
    return any(str(getattr(t, "element_type", "")) in _NARROW for t in types)


def _wide(type_: mlir.Type) -> mlir.Type:
    if not isinstance(type_, mlir.RankedTensorType):
        return type_
    if str(type_.element_type) == "complex<f32>":
        return mlir.RankedTensorType.get(type_.shape, mlir.ComplexType.get(mlir.F64Type.get()))
    if str(type_.element_type) not in _NARROW:
        return type_
    return mlir.RankedTensorType.get(type_.shape, mlir.F64Type.get())
