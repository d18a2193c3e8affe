"""Finds the module that a node belongs to, by its metadata or its name."""

from __future__ import annotations

import re

import onnx_ir as ir

from convert.graph.metadata import MODULE_KEY

from ..network import bounded, path_of

_NUMBER = re.compile("0|[1-9][0-9]{0,8}")


def number_of(part: str) -> int | None:
    """Return the index of a module in a list, or None for a name that is no index (007, ٣, or a thousand 9s)."""
    return int(part) if _NUMBER.fullmatch(part) else None


def module_path(node: ir.Node) -> tuple[str, ...]:
    """Return the path of the module that a node belongs to; empty if it is unknown.

    torch.onnx.export names a node `/layer1/layer1.0/conv1/Conv`, where each part repeats its parents.
    """
    module = node.metadata_props.get(MODULE_KEY)
    if module is not None:
        return tuple(path_of(module))
    name = node.name or ""
    if not name.startswith("/"):
        return ()
    whole = ""
    for part in bounded(name.strip("/").split("/")[:-1], "_"):
        whole = part if not whole or part.startswith(f"{whole}.") else f"{whole}.{part}"
    return tuple(path_of(whole))
