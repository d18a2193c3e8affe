"""What ONNX's own inference refuses in a file when it is held to the letter: whose fault it is that a rule stumbled."""

from __future__ import annotations

import onnx

from convert.source import Source

_MOST_BYTES = 64 << 20
"""Of a file that is looked at: inference copies it some times."""


def find_contradiction(source: Source) -> str:
    """The first thing in a file that ONNX's strict inference takes for wrong; "" where there is none to be found.

    Reading does without it: it refuses files that run, such as those with an outdated shape of a value.
    """
    if source.path is None or source.path.stat().st_size > _MOST_BYTES:
        return ""
    try:
        onnx.shape_inference.infer_shapes(source.path.read_bytes(), check_type=True, strict_mode=True)
    except onnx.shape_inference.InferenceError as error:
        lines = [line.strip() for line in str(error).splitlines()]
        found = next((line for line in lines if "op_type:" in line or ("Error]" in line and line[-1] != ":")), "")
        return found.rpartition("Error] ")[2][:300]
    except Exception:  # what it cannot be asked about is no evidence
        return ""
    return ""
