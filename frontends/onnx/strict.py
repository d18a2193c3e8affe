"""What ONNX's own inference refuses in a model held to the letter: whose fault it is that a rule stumbled."""

from __future__ import annotations

import re

import onnx

from convert.source import Source

_MOST_BYTES = 64 << 20
"""Of a file that is looked at: inference copies it some times."""
_NODE = re.compile(r"\(op_type:([^,)]*)(?:, node name: ([^)]*))?\): ")


def find_contradiction(source: Source) -> str:
    """The first thing in a file that ONNX's strict inference takes for wrong; "" where there is none to be found.

    Reading goes on all the same: it refuses files that run, such as those with an outdated shape of a value.
    """
    if source.path is None or source.path.stat().st_size > _MOST_BYTES:
        return ""
    return contradiction_in(source.path.read_bytes())


def contradiction_in(content: bytes) -> str:
    """The same of the bytes of a model, with its weights or without."""
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
    except Exception:  # what it cannot be asked about is no evidence
        return ""
    return ""
