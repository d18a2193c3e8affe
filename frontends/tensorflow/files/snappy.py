"""Decompresses snappy blocks (google/snappy, format_description.txt), which LevelDB tables may have.

Libraries allocate the size that a block claims before they check its content, and a malicious block may claim 4 GB.
"""

from __future__ import annotations

from convert.errors import BadInput
from convert.files.protobuf_wire import TruncatedMessage, read_varint

_MOST = 22
"""Largest expansion: an element of three bytes expands to at most 64 bytes."""


def decompress(data: bytes) -> bytes:
    """Return the content of a block. Raises `BadInput` for a damaged one."""
    try:
        return _decompress(data)
    except (IndexError, ValueError, TruncatedMessage):
        raise BadInput("a compressed block is cut off", hint="get the file again") from None


def _decompress(data: bytes) -> bytes:
    size, at = read_varint(data, 0, len(data))
    if size > _MOST * len(data):
        raise BadInput("a compressed block says that it holds more than it can", hint="get the file again")
    out = bytearray()
    while at < len(data):
        tag, at = data[at], at + 1
        kind, upper = tag & 3, tag >> 2
        if kind == 0:
            extra = max(upper - 59, 0)
            count = (int.from_bytes(data[at : at + extra], "little") if extra else upper) + 1
            at += extra
            if at + count > len(data):
                raise IndexError
            out += data[at : at + count]
            at += count
        else:
            width = (0, 1, 2, 4)[kind]
            offset = int.from_bytes(data[at : at + width], "little") + ((tag >> 5 << 8) if kind == 1 else 0)
            at += width
            count = (upper & 7) + 4 if kind == 1 else upper + 1
            if not 0 < offset <= len(out):
                raise IndexError
            piece = out[-offset:] if offset > count else out[-offset:] * (count // offset + 1)
            out += piece[:count]
        if len(out) > size:
            raise BadInput("a compressed block holds more than it says", hint="get the file again")
    if len(out) != size:
        raise IndexError
    return bytes(out)
