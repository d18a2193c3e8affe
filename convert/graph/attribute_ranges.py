"""Checks attribute values: element types that ONNX does not define, and sizes that no runtime accepts."""

from __future__ import annotations

from collections.abc import Iterator

import onnx
import onnx_ir as ir

from convert import limits
from convert.errors import BadInput, ResourceLimit
from convert.graph.builder import location_of
from convert.graph.values import known_dims

_TYPES = frozenset(onnx.TensorProto.DataType.values())

_ELEMENT_TYPES = {
    "to": 1, "dtype": 1, "stash_type": 1, "output_datatype": 1, "output_dtype": 0, "precision": 0,
    "softmax_precision": 0,
}  # fmt: skip
"""Attributes that name an element type, each with its smallest legal value (0 where 0 means "not set")."""

_COUNTS = {
    **dict.fromkeys((
        "blocksize", "group", "hidden_size", "kv_num_heads", "num_groups", "num_outputs", "offset_group",
        "output_height", "output_width", "p", "q_num_heads", "sample_size", "size",
    ), 1),
    **dict.fromkeys(("dilations", "kernel_shape", "pooled_shape", "strides"), 1),
    **dict.fromkeys((
        "block_size", "chunk_size", "max_gram_length", "max_skip_count", "min_gram_length", "num_heads",
        "num_scan_inputs", "output_padding", "rotary_embedding_dim", "sampling_ratio",
    ), 0),
    "pads": -(2**31),
}  # fmt: skip
"""Attributes that hold a count or a size, each with its smallest legal value; the largest is 2^31 - 1."""


def check_attributes(model: ir.Model) -> None:
    """Raise `BadInput` for an attribute out of its range, and `ResourceLimit` for an LRN with too large a window."""
    for node in model.graph.all_nodes():
        if node.domain:
            continue
        for attribute in node.attributes.values():
            for number in _numbers(attribute):
                _check(node, attribute.name, number)
        if node.op_type == "LRN":
            _check_window(node)


def _numbers(attribute: ir.Attr) -> Iterator[int]:
    if attribute.is_ref():
        return
    if attribute.type == ir.AttributeType.INT:
        yield attribute.as_int()
    elif attribute.type == ir.AttributeType.INTS:
        yield from attribute.as_ints()


def _check(node: ir.Node, name: str, number: int) -> None:
    if (least := _ELEMENT_TYPES.get(name)) is not None and (number < least or number not in _TYPES):
        reason = f"{name}={number} is no element type"
    elif (least := _COUNTS.get(name)) is not None and not least <= number < 2**31:
        reason = f"{name}={number} is not between {least} and 2^31 - 1"
    else:
        return
    raise BadInput(f"{location_of(node)}: {reason}", hint="export the model again, or correct that in the model")


def _check_window(node: ir.Node) -> None:
    """Raise `ResourceLimit` for an LRN that sums over too many channels, which is computed one channel at a time."""
    size, dims = node.attributes.get_int("size", 1), known_dims(node.inputs[0]) if node.inputs[0] is not None else None
    if dims is not None and len(dims) > 1 and isinstance(dims[1], int):
        size = min(size, 2 * dims[1] - 1)
    if size > limits.LRN_CHANNELS:
        raise ResourceLimit(
            f"{location_of(node)}: a window of {size:,} channels, and {limits.LRN_CHANNELS:,} is the limit",
            hint="a program can set convert.limits.LRN_CHANNELS",
        )
