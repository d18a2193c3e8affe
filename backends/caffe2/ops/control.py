"""Rules for control flow: branches are nets among an operator's arguments."""

from __future__ import annotations

from collections.abc import Callable

from ..net import Blob, Net, Op
from ..rules import onnx

Body = Callable[..., list[Blob]]


@onnx("If")
def if_rule(net: Net, condition: Blob, *, then_branch: Body, else_branch: Body) -> list[Blob]:
    """Both branches write the same blobs; what they read of the net around them they find in the workspace."""
    branches = {"then_net": net.body(), "else_net": net.body()}
    made = net.op("If", [condition], **branches, outputs=len(net.results))
    outputs = [made] if isinstance(made, Blob) else made
    for body, branch in ((branches["then_net"], then_branch), (branches["else_net"], else_branch)):
        for source, output in zip(branch(body), outputs, strict=True):
            body.ops.append(Op("Copy", [source], [output], {}))
            body.outputs.append(output)
    return outputs
