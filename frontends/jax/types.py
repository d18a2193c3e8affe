"""MLIR's types and attributes as the graph's dtypes, Python numbers and numpy arrays."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
import onnx_ir as ir
from jaxlib.mlir import ir as mlir
from jaxlib.mlir.dialects import chlo, stablehlo

from convert import limits
from convert.errors import ResourceLimit, Unsupported

DTYPES = {
    "f16": ir.DataType.FLOAT16, "bf16": ir.DataType.BFLOAT16, "f32": ir.DataType.FLOAT, "f64": ir.DataType.DOUBLE,
    "i1": ir.DataType.BOOL, "i4": ir.DataType.INT4, "i8": ir.DataType.INT8, "i16": ir.DataType.INT16,
    "i32": ir.DataType.INT32, "i64": ir.DataType.INT64, "ui4": ir.DataType.UINT4, "ui8": ir.DataType.UINT8,
    "ui16": ir.DataType.UINT16, "ui32": ir.DataType.UINT32, "ui64": ir.DataType.UINT64,
    "f8E4M3FN": ir.DataType.FLOAT8E4M3FN, "f8E5M2": ir.DataType.FLOAT8E5M2, "index": ir.DataType.INT64,
    "f8E4M3FNUZ": ir.DataType.FLOAT8E4M3FNUZ, "f8E5M2FNUZ": ir.DataType.FLOAT8E5M2FNUZ,
}  # fmt: skip
"""ONNX's dtypes by MLIR's element types."""

COMPLEX = {"complex<f32>": "f32", "complex<f64>": "f64"}
"""The parts of complex element types."""

FLOATS = frozenset({ir.DataType.FLOAT16, ir.DataType.BFLOAT16, ir.DataType.FLOAT, ir.DataType.DOUBLE})
FOUR_BITS = frozenset({ir.DataType.INT4, ir.DataType.UINT4})
UNSIGNED = frozenset({ir.DataType.UINT8, ir.DataType.UINT16, ir.DataType.UINT32, ir.DataType.UINT64})

FEW_BITS = frozenset({ir.DataType.INT8, ir.DataType.INT16, ir.DataType.UINT8, ir.DataType.UINT16, ir.DataType.BOOL})
"""Dtypes for which ONNX lacks sums and products; computed in int32, the lowest bits of a result are the same."""


@dataclass(frozen=True)
class Quantization:
    """A quantization: an integer represents (integer - zero point) · scale. With several scales, each belongs to an
    index of `axis`.

    least, most: the smallest and the largest integer that is used.
    """

    storage: ir.DataType
    expressed: ir.DataType
    scales: np.ndarray
    zero_points: np.ndarray
    axis: int | None
    least: int
    most: int


@dataclass(frozen=True)
class ResultType:
    """The type of a result: its dtype, and its dims, with None for dynamic ones.

    is_complex: whether its elements are pairs of that dtype.
    quantized: the quantization of its integers, if they represent real numbers.
    """

    dtype: ir.DataType
    dims: tuple[int | None, ...]
    is_complex: bool = False
    quantized: Quantization | None = None

    @property
    def rank(self) -> int:
        """Number of dims."""
        return len(self.dims)


def result_type(type_: mlir.Type) -> ResultType | None:
    """Return the dtype and the dims of a tensor; None for tokens. Raises `Unsupported` for a type that the graph has no
    dtype for.
    """
    if str(type_) in ("!stablehlo.token", "!mhlo.token"):
        return None
    if not isinstance(type_, mlir.RankedTensorType):
        type_ = _ranked(type_)
    element = str(type_.element_type)
    dynamic = mlir.ShapedType.get_dynamic_size()
    dims = tuple(None if d == dynamic else int(d) for d in type_.shape)
    if is_quantized(type_):
        how = _quantization(element)
        return ResultType(how.storage, dims, quantized=how)
    part = COMPLEX.get(element, element)
    if part not in DTYPES:
        raise Unsupported(f"elements of type {element} are not read from StableHLO")
    return ResultType(DTYPES[part], dims, element in COMPLEX)


def is_quantized(type_: mlir.Type) -> bool:
    """Return whether the elements of a tensor are quantized integers."""
    return str(getattr(type_, "element_type", "")).startswith("!quant.")


_UNIFORM = re.compile(
    r"!quant\.uniform<(?P<kind>[iu])(?P<bits>8|16|32)(<(?P<least>-?\d+):(?P<most>-?\d+)>)?:(?P<expressed>\w+)"
    r"(:(?P<axis>\d+))?, (?P<numbers>[^<>]*)>"
)


def _quantization(element: str) -> Quantization:
    """Parse a quantized element type from its text, because jaxlib 0.10 gives no access to its fields. Raises
    `Unsupported`.
    """
    found = _UNIFORM.fullmatch(element)
    if found is None or found["expressed"] not in DTYPES:
        raise Unsupported(f"elements of type {element} are not read from StableHLO")
    storage = DTYPES[("ui" if found["kind"] == "u" else "i") + found["bits"]]
    pairs = [part.strip().partition(":")[::2] for part in found["numbers"].strip("{}").split(",")]
    limits = np.iinfo(storage.numpy())
    return Quantization(
        storage, DTYPES[found["expressed"]], np.array([float(scale) for scale, _ in pairs]),
        np.array([int(zero or 0) for _, zero in pairs]), int(found["axis"]) if found["axis"] else None,
        int(found["least"] or limits.min), int(found["most"] or limits.max),
    )  # fmt: skip


def numpy_dtype(type_: ResultType) -> np.dtype:
    """Return the numpy dtype of a tensor."""
    dtype: np.dtype = np.dtype(type_.dtype.numpy())
    return np.result_type(dtype, np.complex64) if type_.is_complex else dtype


def _ranked(type_: mlir.Type) -> mlir.RankedTensorType:
    try:
        return mlir.RankedTensorType(type_)
    except ValueError:
        raise Unsupported(f"a value of type {type_}, which is no tensor") from None


_NUMBERS = (
    (stablehlo.DotDimensionNumbers, ("lhs_batching_dimensions", "rhs_batching_dimensions",
                                     "lhs_contracting_dimensions", "rhs_contracting_dimensions")),
    (stablehlo.GatherDimensionNumbers, ("offset_dims", "collapsed_slice_dims", "operand_batching_dims",
                                        "start_indices_batching_dims", "start_index_map", "index_vector_dim")),
    (stablehlo.ScatterDimensionNumbers, ("update_window_dims", "inserted_window_dims", "input_batching_dims",
                                         "scatter_indices_batching_dims", "scattered_dims_to_operand_dims",
                                         "index_vector_dim")),
    (stablehlo.ConvDimensionNumbers, ("input_batch_dimension", "input_feature_dimension", "input_spatial_dimensions",
                                      "kernel_input_feature_dimension", "kernel_output_feature_dimension",
                                      "kernel_spatial_dimensions", "output_batch_dimension",
                                      "output_feature_dimension", "output_spatial_dimensions")),
    (chlo.RaggedDotDimensionNumbers, ("lhs_batching_dimensions", "rhs_batching_dimensions",
                                      "lhs_contracting_dimensions", "rhs_contracting_dimensions",
                                      "lhs_ragged_dimensions", "rhs_group_dimensions")),
)  # fmt: skip
"""Attributes of StableHLO and CHLO that hold several numbers, each with its fields."""


def attribute_value(attribute: mlir.Attribute) -> Any:
    """Return an attribute as a number, text, list, dict or array; as MLIR's text if it has no such form.

    Raises `ResourceLimit` for lists that are nested too often, and `Unsupported` for an attribute that cannot be
    printed.
    """
    return _value(attribute, iter(range(limits.STABLEHLO_ATTRIBUTE_VALUES)))


def _value(attribute: mlir.Attribute, left: Iterator[int], depth: int = 0) -> Any:
    """Return what `attribute_value` returns, for at most as many values as `left` has items."""
    if next(left, None) is None or depth > limits.STABLEHLO_ATTRIBUTE_DEPTH:
        raise ResourceLimit(
            f"an attribute of the module holds more than {limits.STABLEHLO_ATTRIBUTE_VALUES:,} values, or lists "
            f"{limits.STABLEHLO_ATTRIBUTE_DEPTH} deep",
            hint="a program can set convert.limits.STABLEHLO_ATTRIBUTE_VALUES and STABLEHLO_ATTRIBUTE_DEPTH",
        )
    match attribute:
        case mlir.BoolAttr() | mlir.IntegerAttr() | mlir.FloatAttr() | mlir.StringAttr() | mlir.FlatSymbolRefAttr():
            return attribute.value
        case mlir.DenseBoolArrayAttr() | mlir.DenseI64ArrayAttr() | mlir.DenseI32ArrayAttr():
            return list(attribute)
        case mlir.ArrayAttr():
            return [_value(item, left, depth + 1) for item in attribute]
        case mlir.DictAttr():
            return {name: _value(attribute[name], left, depth + 1) for name in _names(attribute)}
        case mlir.DenseElementsAttr():
            return constant_array(attribute)
        case mlir.TypeAttr() if isinstance(attribute.value, mlir.TupleType):  # its text may be extremely long
            raise Unsupported("an attribute that is the type of a tuple")
    for kind, fields in _NUMBERS:
        if kind.isinstance(attribute):
            numbers = kind(attribute)
            return {name: getattr(numbers, name) for name in fields}
    if str(attribute).startswith("dense_resource"):
        raise Unsupported("a constant that lies in a resource of the file", hint="write the module with its constants")
    for enum in (stablehlo.ComparisonDirectionAttr, stablehlo.ComparisonTypeAttr, chlo.ComparisonDirectionAttr,
                 chlo.ComparisonTypeAttr, stablehlo.FftTypeAttr,
                 stablehlo.TransposeAttr, stablehlo.RngAlgorithmAttr, stablehlo.RngDistributionAttr):  # fmt: skip
        if enum.isinstance(attribute):
            return enum(attribute).value
    return str(attribute)


def _names(attributes: mlir.DictAttr) -> list[str]:
    return [attributes[i].name for i in range(len(attributes))]


def constant_array(attribute: mlir.DenseElementsAttr) -> np.ndarray:
    """Return the content of a dense attribute; a single number for all elements becomes a view without copies."""
    found = result_type(attribute.type)
    assert found is not None
    shape = tuple(d or 0 for d in found.dims)
    dtype = found.dtype.numpy()
    if 0 in shape:
        return np.zeros(shape, dtype)
    try:
        array = np.array(attribute)
        return array.astype(dtype, copy=False) if array.dtype != dtype else array
    except (ValueError, TypeError, RuntimeError):  # jaxlib 0.10 cannot return arrays of bfloat16 and float8
        return _array_from_text(attribute, shape, dtype)


def _array_from_text(attribute: mlir.DenseElementsAttr, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """Return the array in MLIR's text of a constant: hexadecimal for the whole array, or numbers; special ones are
    given as bits.
    """
    if attribute.is_splat:
        return np.broadcast_to(np.array(attribute.get_splat_value().value).astype(dtype), shape)
    text = str(attribute)
    if raw := re.match(r'dense<"0x([0-9A-Fa-f]*)">', text):
        return np.frombuffer(bytes.fromhex(raw[1]), dtype).reshape(shape)
    bits = np.dtype(f"u{dtype.itemsize}")
    words = re.findall(r"[-+.\w]+", text[len("dense<") : text.rindex(">")].partition(">")[0])
    numbers = [np.array(int(w, 16), bits).view(dtype) if w.startswith("0x") else np.array(float(w)) for w in words]
    return np.array([n.astype(dtype) for n in numbers], dtype).reshape(shape)


_COMPLEX_NUMBER = re.compile(r"\(([^,()]+),([^,()]+)\)")


def complex_constant(op: mlir.Operation) -> np.ndarray:
    """Return the content of a complex constant, from its text, because jaxlib 0.10 does not provide such attributes."""
    found = result_type(op.results[0].type)
    assert found is not None
    shape = tuple(d or 0 for d in found.dims)
    dtype = np.dtype(np.complex64 if found.dtype == ir.DataType.FLOAT else np.complex128)
    text = op.get_asm()
    if raw := re.search(r'dense<"0x([0-9A-Fa-f]*)">', text):
        array = np.frombuffer(bytes.fromhex(raw[1]), dtype)
    else:
        inner = text[text.index("dense<") + len("dense<") : text.rindex("> : tensor")]
        bits = np.dtype(f"u{dtype.itemsize // 2}")
        parts = [[_number_from_text(word.strip(), bits) for word in pair] for pair in _COMPLEX_NUMBER.findall(inner)]
        array = np.array([complex(*pair) for pair in parts], dtype)
    return array.reshape(shape) if array.size == np.prod(shape) else np.broadcast_to(array.reshape(()), shape)


def _number_from_text(word: str, bits: np.dtype) -> float:
    """Return a number in MLIR's text; special ones, such as NaN, are given as bits."""
    if word.startswith("0x"):
        return float(np.array(int(word, 16), bits).view(f"f{bits.itemsize}"))
    return float(word)


assert ml_dtypes  # registers bfloat16 and float8 with numpy
