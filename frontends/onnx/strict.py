"""Asks ONNX's strict inference what is wrong with a model, to tell a broken file from a broken rule."""

from __future__ import annotations

import re

import onnx

from convert.request.source import Source

_MOST_BYTES = 64 << 20
"""Maximum size of a file that is checked, because inference copies it several times."""
_NODE = re.compile(r"\(op_type:([^,)]*)(?:, node name: ([^)]*))?\): ")


def find_contradiction(source: Source) -> str:
    """Return the first error that ONNX's strict inference reports for a file; "" if there is none.

    Reading continues regardless, because strict inference also rejects files that run, such as those with an outdated
    shape.
    """
    if source.path is None or source.path.stat().st_size > _MOST_BYTES:
        return ""
    return contradiction_in(source.path.read_bytes())


def contradiction_in(content: bytes) -> str:
    """Return the same for the bytes of a model, with or without its weights."""
    if len(content) > _MOST_BYTES:
        return ""
    try:
        onnx.shape_inference.infer_shapes(content, check_type=True, strict_mode=True)
    except onnx.shape_inference.InferenceError as error:
        lines = [line.strip() for line in str(error).splitlines()]
        found = next((line for line in lines if "op_type:" in line or ("Error]" in line and line[-1] != ":")), "")
        node = _NODE.search(found)
        where = "" if node is None else f"{' '.join(filter(None, node.groups()))}: "
        return f"{where}{_NODE.sub('', found.rpartition('Error] ')[2], count=1)}"[:300]
    except Exception:  # a failure of the check itself is no evidence
        return ""
    return ""
