"""The options of custom operators, whose bytes each kernel reads in its own way."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from typing import Any

from google.protobuf.message import DecodeError

from ..graph.protos import MESSAGES
from .detection_options import detection_options

FLEX = "Flex"
"""The prefix of TensorFlow's own operators, which TensorFlow Lite runs by TensorFlow's kernels."""


def custom_options(name: str, raw: bytes) -> dict[str, Any]:
    """Return the options of the custom operator `name`: `node` is the NodeDef of one of TensorFlow's own.

    Returns none for an operator that no rule reads. Raises what the accessors raise if offsets point outside `raw`.
    """
    if name.startswith(FLEX):
        return {"node": _flex_node(name.removeprefix(FLEX), raw)}
    return dict(_READERS[name](raw)) if name in _READERS else {}


def _flex_node(operator: str, raw: bytes) -> Any:
    """Return the NodeDef in a flexbuffer of an operator's name and its NodeDef (tensorflow/lite/delegates/flex).

    Raises ValueError for a NodeDef of another operator, which the interpreter would run under this one's name.
    """
    from flatbuffers import flexbuffers

    try:
        node = MESSAGES["NodeDef"].FromString(flexbuffers.GetRoot(raw).AsVector[1].AsStringBytes)
    except DecodeError as error:
        raise ValueError("no NodeDef") from error
    if node.op != operator:
        raise ValueError("a NodeDef of another operator")
    return node


def _transposed_convolution_options(raw: bytes) -> dict[str, int]:
    """Return the options of MediaPipe's operator: a struct with TensorFlow Lite's numbers of paddings, 1 and 2."""
    padding, stride_w, stride_h = struct.unpack_from("<3i", raw)
    if padding not in (1, 2) or min(stride_w, stride_h) < 1:
        raise ValueError("no padding, or no strides")
    return {"padding": padding - 1, "stride_w": stride_w, "stride_h": stride_h}


_READERS: Mapping[str, Callable[[bytes], Mapping[str, Any]]] = {
    "TFLite_Detection_PostProcess": detection_options,
    "Convolution2DTransposeBias": _transposed_convolution_options,
}
