"""Widens all floating-point values of a graph, to float64 or float32.

A graph in float64 separates wrong operators from rounding.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
import onnx_ir as ir

from convert.graph.metadata import EXACT_KEY
from convert.graph.shape_inference import subgraphs
from convert.graph.tensors import dims_of, lazy_tensor

NARROW = frozenset({ir.DataType.FLOAT, ir.DataType.FLOAT16, ir.DataType.BFLOAT16})
"""The dtypes that become float64. Float8 and narrower dtypes stay: they are quantization, not rounding."""

Dtypes = Mapping[ir.DataType, ir.DataType]
TO_FLOAT64: Dtypes = {**dict.fromkeys(NARROW, ir.DataType.DOUBLE), ir.DataType.COMPLEX64: ir.DataType.COMPLEX128}
"""Maps each dtype to the one that replaces it; all others stay."""

# Attributes that hold a dtype, for any operator. QuantizeLinear's are in _KEPT, because they define the rounding.
_DTYPE_ATTRIBUTES = frozenset(
    {
        "to",
        "dtype",
        "stash_type",
        "softmax_precision",
        "output_datatype",
        "output_dtype",
        "qk_matmul_output_dtype",
    }
)
_KEPT = frozenset({("QuantizeLinear", "output_dtype"), ("QuantizeLinear", "precision")})


def widen_model(model: ir.Model) -> ir.Model:
    """Return a copy of `model` that computes in float64.

    Every tensor, value, dtype attribute and Cast becomes float64 instead of float32, float16 or bfloat16, and
    complex128 instead of complex64, also in subgraphs. Weights are widened when they are read. Integers, booleans,
    strings, float8 and number attributes stay. QuantizeLinear still rounds to its integers, from a float64 quotient; at
    a tie of the float32 quotient the results may differ by one step, as those of any two implementations may.
    """
    wide = model.clone()
    widen_graphs(wide.graphs())
    return wide


def widen_graphs(graphs: Iterable[ir.Graph], dtypes: Dtypes = TO_FLOAT64) -> None:
    """Widen the contents of graphs in place, as `widen_model` does. Pass subgraphs, too.

    `dtypes` maps each dtype to its replacement. Weights are widened when they are read.
    """
    for graph in graphs:
        for value in (*graph.inputs, *graph.initializers.values()):
            _widen_value(value, dtypes)
        for node in graph:
            for output in node.outputs:
                _widen_value(output, dtypes)
            _widen_attributes(node, dtypes)


def widened_type(kind: ir.TypeProtocol | None, dtypes: Dtypes = TO_FLOAT64) -> ir.TypeProtocol | None:
    """Return the type with its dtype widened, also inside sequences and optionals."""
    if isinstance(kind, ir.TensorType):
        return ir.TensorType(dtypes.get(kind.dtype, kind.dtype))
    if isinstance(kind, ir.SparseTensorType):
        return ir.SparseTensorType(dtypes.get(kind.dtype, kind.dtype))
    if isinstance(kind, (ir.SequenceType, ir.OptionalType)):
        inner = widened_type(kind.elem_type, dtypes)
        return type(kind)(inner)  # type: ignore[arg-type]
    return kind


def widened_dtype(dtype: ir.DataType) -> ir.DataType:
    """Return DOUBLE for FLOAT, FLOAT16 and BFLOAT16, COMPLEX128 for COMPLEX64, and other dtypes unchanged."""
    return TO_FLOAT64.get(dtype, dtype)


def widened_tensor(tensor: ir.TensorProtocol, dtypes: Dtypes = TO_FLOAT64) -> ir.TensorProtocol:
    """Return the tensor in its wider dtype, converted on each access.

    If there is nothing to widen, it is the tensor itself.
    """
    dtype = dtypes.get(tensor.dtype, tensor.dtype)
    if dtype == tensor.dtype:
        return tensor
    shape = dims_of(tensor)
    exact = tensor.meta.get(EXACT_KEY)
    if exact is not None:
        return ir.Tensor(np.asarray(exact, dtype.numpy()).reshape(shape), name=tensor.name)
    return lazy_tensor(dtype, shape, lambda: tensor.numpy().astype(dtype.numpy()), tensor.name)


def _widen_value(value: ir.Value, dtypes: Dtypes) -> None:
    value.type = widened_type(value.type, dtypes)
    if value.const_value is not None:
        value.const_value = widened_tensor(value.const_value, dtypes)


def _widen_attributes(node: ir.Node, dtypes: Dtypes) -> None:
    for name, attribute in list(node.attributes.items()):
        if subgraphs(attribute):
            continue
        if attribute.type == ir.AttributeType.TENSOR:
            node.attributes[name] = ir.AttrTensor(name, widened_tensor(attribute.as_tensor(), dtypes))
        elif attribute.type == ir.AttributeType.INT and name in _DTYPE_ATTRIBUTES and (node.op_type, name) not in _KEPT:
            number = attribute.as_int()
            if number:
                dtype = ir.DataType(number)
                node.attributes[name] = ir.AttrInt64(name, int(dtypes.get(dtype, dtype)))
        elif attribute.type == ir.AttributeType.TYPE_PROTO:
            kind = attribute.value
            node.attributes[name] = ir.AttrTypeProto(name, ir.TypeAndShape(widened_type(kind.type, dtypes), kind.shape))
    if ir.DataType.FLOAT in dtypes:
        _widen_implied(node)


def _widen_implied(node: ir.Node) -> None:
    """Write float64 explicitly where an omitted attribute means float32."""
    if node.domain != "":
        return
    if node.op_type == "Constant":
        for name in ("value_float", "value_floats"):
            attribute = node.attributes.pop(name, None)
            if attribute is not None:
                node.attributes["value"] = ir.AttrTensor("value", ir.Tensor(np.array(attribute.value, np.float64)))
    elif node.op_type == "ConstantOfShape" and "value" not in node.attributes:
        node.attributes["value"] = ir.AttrTensor("value", ir.Tensor(np.zeros(1)))
    elif node.op_type in ("RandomNormal", "RandomUniform", "SequenceEmpty") and "dtype" not in node.attributes:
        node.attributes["dtype"] = ir.AttrInt64("dtype", int(ir.DataType.DOUBLE))
    elif node.op_type in _WINDOWS and "output_datatype" not in node.attributes:
        node.attributes["output_datatype"] = ir.AttrInt64("output_datatype", int(ir.DataType.DOUBLE))


_WINDOWS = frozenset({"HannWindow", "HammingWindow", "BlackmanWindow", "MelWeightMatrix"})
