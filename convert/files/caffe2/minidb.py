"""Reads Caffe2's minidb: the blobs of a database as arrays or bytes, by name."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from google.protobuf.message import DecodeError

from convert.errors import BadInput
from convert.files.caffe2 import caffe2_pb2
from convert.files.caffe2.netdef import DTYPES

pb: Any = caffe2_pb2

META = "!!META_NET_DEF"
"""The key under which Caffe2's predictor_exporter stores the MetaNetDef."""

_FIELDS = ("float_data", "double_data", "int64_data", "int32_data")


def read_minidb(path: Path) -> dict[str, np.ndarray | bytes]:
    """Return every blob of the database: tensors joined from their chunks, strings as bytes.

    Raises `BadInput` if the database is broken: the chunks of a tensor must contain each of its numbers exactly once.
    """
    blobs: dict[str, np.ndarray | bytes] = {}
    chunks: dict[str, list[tuple[int, int]]] = {}
    for value in _records(path):
        try:
            blob = pb.BlobProto.FromString(value)
        except DecodeError as error:
            raise BadInput(f"{path} is no Caffe2 database: {error}") from None
        if blob.type == "Tensor":
            chunks.setdefault(blob.name, []).append(_store_chunk(blobs, blob.name, blob.tensor, path))
        else:
            blobs[blob.name] = bytes(blob.content)
    for name, found in chunks.items():
        _check_cover(found, blobs[name], f"{path}: the blob {name!r}")
    return blobs


def _check_cover(chunks: list[tuple[int, int]], whole: np.ndarray | bytes, label: str) -> None:
    """Raise `BadInput` if a number is in no chunk (it would be uninitialized memory), or in two chunks."""
    place = 0
    for begin, end in sorted(chunks):
        if begin != place:
            raise BadInput(f"{label} has chunks that leave numbers out, or hold some twice")
        place = end
    if not isinstance(whole, np.ndarray) or place != whole.size:
        raise BadInput(f"{label} contains fewer numbers than its shape requires")


def _records(path: Path) -> Iterator[bytes]:
    try:
        content = memoryview(path.read_bytes())
    except OSError as error:
        raise BadInput(f"{path} cannot be read: {error.strerror}") from None
    place = 0
    while place < len(content):
        if place + 8 > len(content):
            raise BadInput(f"{path} is truncated")
        key, size = struct.unpack_from("<ii", content, place)
        start = place + 8 + key
        if key < 0 or size < 0 or start + size > len(content):
            raise BadInput(f"{path} is truncated, or no Caffe2 database")
        yield bytes(content[start : start + size])
        place = start + size


def _store_chunk(blobs: dict[str, np.ndarray | bytes], name: str, tensor: Any, path: Path) -> tuple[int, int]:
    """Store one chunk of a tensor at its position; return where it begins and ends."""
    if tensor.data_type not in DTYPES:
        raise BadInput(f"{path}: the blob {name!r} has the Caffe2 dtype {tensor.data_type}, which no net computes with")
    dtype = DTYPES[tensor.data_type].numpy()
    shape = list(tensor.dims)
    found = next((getattr(tensor, field) for field in _FIELDS if getattr(tensor, field)), ())
    try:
        part = np.fromiter(found, np.uint16 if dtype == np.float16 else dtype, len(found)).view(dtype)
    except OverflowError:
        raise BadInput(f"{path}: the blob {name!r} has a number that is no {dtype}") from None
    begin, end = (tensor.segment.begin, tensor.segment.end) if tensor.HasField("segment") else (0, len(part))
    total = int(np.prod(shape, dtype=object))
    if min(shape, default=0) < 0:
        raise BadInput(f"{path}: the blob {name!r} has the shape {shape}")
    whole = blobs.setdefault(name, np.empty(min(total, path.stat().st_size), dtype))
    if not isinstance(whole, np.ndarray) or (whole.size != total and whole.shape != tuple(shape)):
        raise BadInput(f"{path}: the blob {name!r} holds fewer numbers than its shape {shape} says")
    if end - begin != len(part) or not 0 <= begin <= end <= total:
        raise BadInput(f"{path}: a part of the blob {name!r} does not fit its shape {shape}")
    whole.reshape(-1)[begin:end] = part
    blobs[name] = whole.reshape(shape)
    return begin, end
