"""The flows of TensorFlow 1's TensorArrays: float32 scalars that only order operations and are never computed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

_MAKING = ("TensorArrayV3", "TensorArrayWriteV3", "TensorArrayScatterV3", "TensorArraySplitV3")
_HANDING_ON = ("Enter", "Exit", "Identity", "Merge", "NextIteration", "Switch")


def flow_nodes(nodes: Sequence[Any]) -> set[str]:
    """Return the names of NodeDefs that pass on a flow; they keep its dtype when others are widened."""
    tensors = {f"{n.name}:1" if n.op == "TensorArrayV3" else n.name for n in nodes if n.op in _MAKING}
    found: set[str] = set()
    while True:
        more = {
            n.name
            for n in nodes
            if n.op in _HANDING_ON and n.name not in found and any(i.removesuffix(":0") in tensors for i in n.input)
        }
        if not more:
            return found
        found |= more
        tensors |= more | {f"{name}:1" for name in more}
