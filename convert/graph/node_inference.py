"""ONNX's shape inference for one node of the shared graph."""

from __future__ import annotations

from collections.abc import Sequence

import onnx
import onnx_ir as ir

from convert.graph.misread_attributes import has_misread_attributes, misread_attribute
from convert.graph.windows import spatial_sizes, transposed_window, window_of
from convert.semantics.einsum import axes_of_labels, result_of_equation
from convert.semantics.interpolation import resized_length

# Constants of at most this many bytes take part in inference (shapes, axes).
_SMALL = 4096


def infer(node: ir.Node, schema: onnx.defs.OpSchema) -> None:
    """Set the dtype and shape of a node's outputs by ONNX's inference for this one node.

    Facts that inference cannot determine stay unknown. Nodes with subgraphs are left to their rule. Raises ValueError
    if ONNX's inference rejects the inputs.
    """
    types: dict[str, onnx.TypeProto] = {}
    data: dict[str, onnx.TensorProto] = {}
    for value in node.inputs:
        if value is None:
            continue
        if value.type is None or value.name is None:
            return
        types[value.name] = type_proto(value)
        if (content := value.const_value) is not None and takes_part(content):
            data[value.name] = ir.serde.serialize_tensor(content)
    if any(a.type in (ir.AttributeType.GRAPH, ir.AttributeType.GRAPHS) for a in node.attributes.values()):
        return
    if not node.domain and has_misread_attributes(node.op_type):
        given = {a.name: a.value for a in node.attributes.values() if isinstance(a.value, (int, str))}
        if wrong := misread_attribute(node.op_type, given, len(node.outputs)):
            raise ValueError(f"{node.op_type}: {wrong}")
    try:
        found = onnx.shape_inference.infer_node_outputs(schema, ir.serde.serialize_node(node), types, data)
    except (onnx.shape_inference.InferenceError, onnx.checker.ValidationError) as error:
        raise ValueError(f"{node.op_type} does not accept these inputs: {error}") from error
    for output in node.outputs:
        if output.name in found:
            kind = ir.serde.deserialize_type_proto_for_type(found[output.name])
            output.type = kind
            output.shape = ir.serde.deserialize_type_proto_for_shape(found[output.name])
    correct_inference(node)
    if node.op_type in ("Expand", "Reshape") and not node.domain and node.outputs[0].shape is None:
        node.outputs[0].shape = shape_of_known_rank(node)


def takes_part(content: ir.TensorProtocol) -> bool:
    """Return whether inference reads the content of a constant, as it reads that of shapes and axes."""
    return content.nbytes <= _SMALL and content.dtype != ir.DataType.STRING


def correct_inference(node: ir.Node) -> bool:
    """Set the output shape that runtimes compute, if ONNX's inference is wrong about this node.

    Returns whether it was.
    """
    correct = _CORRECTIONS.get(node.op_type)
    return correct is not None and not node.domain and correct(node)


def shape_of_known_rank(node: ir.Node) -> ir.Shape | None:
    """Return the shape, all of unknown dims, of an Expand or Reshape whose target has a known length; else None."""
    x, target = node.inputs
    length = target.shape[0] if target is not None and target.shape is not None and len(target.shape) == 1 else None
    if not isinstance(length, int):
        return None
    if node.op_type == "Reshape":
        return ir.Shape([None] * length)
    return None if x is None or x.shape is None else ir.Shape([None] * max(length, len(x.shape)))


def resized_by_runtimes(node: ir.Node) -> bool:
    """Set the lengths that runtimes compute for a Resize with constant scales; return whether inference had others.

    Inference multiplies in float64, where 5 · float32(2.6) is less than 13: see `convert.semantics.interpolation`.
    """
    x, y = node.inputs[0], node.outputs[0]
    scales = node.inputs[2].const_value if len(node.inputs) > 2 and node.inputs[2] is not None else None
    if x is None or x.shape is None or y.shape is None or scales is None or not scales.size:
        return False
    if node.attributes.get_string("coordinate_transformation_mode", "half_pixel") == "tf_crop_and_resize":
        return False
    axes = node.attributes.get_ints("axes") or range(len(x.shape))
    dims = list(y.shape)
    for axis, scale in zip(axes, scales.numpy().tolist(), strict=True):
        length = x.shape[axis]
        if isinstance(length, int) and isinstance(dims[axis], int):
            dims[axis] = resized_length(length, scale)
    changed = dims != list(y.shape)
    if changed:
        y.shape = ir.Shape(dims)
    return changed


def repeat_ones_of_einsum(node: ir.Node) -> bool:
    """Correct the dims of an Einsum that inference took from an operand with a broadcast dim of 1.

    Returns whether any were wrong.
    """
    y, shapes = node.outputs[0], [None if v is None or v.shape is None else list(v.shape) for v in node.inputs]
    equation = node.attributes.get_string("equation", "").replace(" ", "")
    if y.shape is None or any(s is None for s in shapes):
        return False
    terms, result = result_of_equation(equation)
    sizes: dict[str, list[int | ir.SymbolicDim]] = {}
    for term, shape in zip(terms, shapes, strict=True):
        for label, axis in axes_of_labels(term, len(shape or ())).items():
            sizes.setdefault(label, []).append((shape or [])[axis])
    dims = list(y.shape)
    for label, axis in axes_of_labels(result, len(dims)).items():
        longer = [n for n in sizes[label] if n != 1]
        if dims[axis] == 1 and longer:
            dims[axis] = next((n for n in longer if isinstance(n, int)), longer[0])
    changed = dims != list(y.shape)
    if changed:
        y.shape = ir.Shape(dims)
    return changed


def leave_out_windows(node: ir.Node) -> bool:
    """Correct the lengths of a pool with ceil_mode: windows that would start in the padding are left out.

    Returns whether any length was wrong.

    Before opset 22, ONNX's inference counts such a last window.
    """
    x, y, auto_pad = node.inputs[0], node.outputs[0], node.attributes.get_string("auto_pad", "NOTSET")
    window = window_of(node)
    if window is None or (auto_pad or "").startswith("SAME") or not node.attributes.get_int("ceil_mode", 0):
        return False
    if y.shape is None or len(y.shape) != window.rank + 2:
        return False
    sizes = spatial_sizes(x, window.rank)
    window = window.unpadded if auto_pad == "VALID" else window
    counts = window.with_ceil_mode(sizes).counts([n or 0 for n in sizes])
    dims = _where_known(y.shape, sizes, counts)
    changed = dims != list(y.shape)
    for output in node.outputs if changed else ():
        output.shape = ir.Shape(dims)
    return changed


def remove_by_auto_pad(node: ir.Node) -> bool:
    """Correct the lengths of a ConvTranspose with auto_pad or output_shape; return whether any was wrong.

    ONNX's inference (1.23) subtracts no output padding for SAME, and forgets dims that are shorter than the input's.
    """
    x, y, window = node.inputs[0], node.outputs[0], window_of(node)
    if window is None or y.shape is None or len(y.shape) < 2:
        return False
    sizes = spatial_sizes(x, window.rank)
    made = transposed_window(node, window, sizes)
    if made is None:
        return False
    parts = zip(sizes, window.strides, window.spans, made[1], made[0].pairs, strict=True)
    lengths = [((n or 1) - 1) * s + r + e - before - after for n, s, r, e, (before, after) in parts]
    dims = _where_known(y.shape, sizes, lengths)
    changed = dims != list(y.shape)
    if changed:
        y.shape = ir.Shape(dims)
    return changed


def _where_known(
    shape: ir.Shape, sizes: Sequence[int | None], lengths: Sequence[int]
) -> list[int | ir.SymbolicDim | None]:
    """Return a shape with the spatial lengths that follow from known sizes."""
    given = [*shape[2:], *[None] * len(sizes)]
    return [*shape[:2], *(d if n is None else length for d, n, length in zip(given, sizes, lengths, strict=False))]


def count_half_of_spectrum(node: ir.Node) -> bool:
    """Set the number of bins of an STFT of real numbers; return whether inference had another one.

    ONNX 1.23 counts both sides of the spectrum if the attribute onesided is absent, although its default is 1.
    """
    signal, y = node.inputs[0], node.outputs[0]
    window, frame = [*node.inputs, None, None][2:4]
    if signal is None or signal.shape is None or y.shape is None or not node.attributes.get_int("onesided", 1):
        return False
    length = window.shape[0] if window is not None and window.shape is not None else None
    if frame is not None and frame.const_value is not None:
        length = int(frame.const_value.numpy())
    is_complex, dims = len(signal.shape) == 3 and signal.shape[2] != 1, list(y.shape)
    if is_complex or not isinstance(length, int) or dims[-2] == length // 2 + 1:
        return False
    y.shape = ir.Shape([*dims[:-2], length // 2 + 1, dims[-1]])
    return True


def shape_of_input(node: ir.Node) -> bool:
    """Give a normalization's output the shape of its input; return whether inference had another one or none.

    ONNX defines these operators as functions. Inference does not look into them while a dim has a name, even if the
    shape of the input was corrected meanwhile.
    """
    x, y = node.inputs[0], node.outputs[0]
    if x is None or x.shape is None:
        return False
    known = list(x.shape) if y.shape is None or len(y.shape) != len(x.shape) else list(y.shape)
    dims = [a if isinstance(a, int) else b for a, b in zip(x.shape, known, strict=True)]
    changed = y.shape is None or dims != list(y.shape)
    if changed:
        y.shape, y.type = ir.Shape(dims), x.type
    return changed


_CORRECTIONS = {
    "Resize": resized_by_runtimes,
    **dict.fromkeys(("GroupNormalization", "MeanVarianceNormalization"), shape_of_input),
    "ConvTranspose": remove_by_auto_pad,
    "STFT": count_half_of_spectrum,
    "Einsum": repeat_ones_of_einsum,
    **dict.fromkeys(("AveragePool", "MaxPool", "LpPool"), leave_out_windows),
}


def type_proto(value: ir.Value) -> onnx.TypeProto:
    """Return the type and shape of a value as an ONNX proto, which is empty if nothing is known."""
    proto = onnx.TypeProto()
    if value.type is not None:
        ir.serde.serialize_type_into(proto, value.type)
        if value.shape is not None:
            ir.serde.serialize_shape_into(proto, value.shape)
    return proto
