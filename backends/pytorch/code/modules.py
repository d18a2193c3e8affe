"""Which module a node is of: as its metadata say, or as its name does."""

from __future__ import annotations

import onnx_ir as ir

from convert.graph.metadata import MODULE_KEY

from ..network import path_of


def module_path(node: ir.Node) -> tuple[str, ...]:
    """The path of the module that a node comes from; empty where nothing tells it.

    torch.onnx.export calls a node `/layer1/layer1.0/conv1/Conv`, each part with those before it.
    """
    module = node.metadata_props.get(MODULE_KEY)
    if module is not None:
        return tuple(path_of(module))
    name = node.name or ""
    if not name.startswith("/"):
        return ()
    whole = ""
    for part in name.strip("/").split("/")[:-1]:
        whole = part if not whole or part.startswith(f"{whole}.") else f"{whole}.{part}"
    return tuple(path_of(whole))
