"""Control flow: nets among the arguments, which read and write the blobs around them."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from convert.errors import Unsupported
from convert.graph import Graph

from ..body import NestedNet
from ..rules import caffe2_op


@caffe2_op("If")
def if_rule(
    g: Graph, condition: ir.Value, *_: ir.Value, then_net: NestedNet, else_net: NestedNet | None = None,
    outputs: tuple[str, ...] = (),
) -> list[ir.Value]:  # fmt: skip
    """`outputs` are the blobs that the operator names: the reader says it. A missing branch leaves them as they are."""
    branches = []
    for body in (then_net, else_net):
        branch = g.body()
        values = then_net.outside if body is None else body.run(branch, {})
        missing = [name for name in outputs if name not in values]
        if missing:
            raise Unsupported(f"a branch does not make {missing[0]!r}")
        for name in outputs:
            branch.output(branch.Identity(values[name]))
        branches.append(branch)
    scalar = g.Reshape(condition, g.const(np.zeros(0, np.int64)))
    made = g.node("If", [scalar], {"then_branch": branches[0], "else_branch": branches[1]}, outputs=len(outputs))
    return made if isinstance(made, list) else [made]


@caffe2_op("While")
def while_rule(
    g: Graph, condition: ir.Value, *_: ir.Value, loop_net: NestedNet, cond_net: NestedNet | None = None,
    inputs: tuple[str, ...] = (), outputs: tuple[str, ...] = (),
) -> list[ir.Value]:  # fmt: skip
    """`cond_net` writes the condition before each turn; what the nets write of the blobs around them is carried."""
    before = loop_net.outside if cond_net is None else cond_net.run(g, {})
    name = inputs[0]
    bodies = [b for b in (loop_net, cond_net) if b is not None]
    carried = list(dict.fromkeys(n for b in bodies for n in b.written() if n != name))
    if missing := [n for n in outputs if n not in (*carried, name)]:
        raise Unsupported(f"nothing makes its output {missing[0]!r} where the loop takes no turn")
    loop = g.body()
    loop.input("turn", ir.DataType.INT64, [])
    loop.input("going_on", ir.DataType.BOOL, [])
    values = {n: loop.input(n, g.dtype(before[n]), _unknown_dims(before[n])) for n in carried}
    after = loop_net.run(loop, values)
    if cond_net is not None:
        after = cond_net.run(loop, {n: after[n] for n in after if after[n] is not loop_net.outside.get(n)})
    empty = g.const(np.zeros(0, np.int64))
    loop.output(loop.Reshape(after[name], empty))
    for n in carried:
        loop.output(loop.Identity(after[n]))
    start = [g.Reshape(before[name], empty), *(before[n] for n in carried)]
    made = g.node("Loop", [None, *start], {"body": loop}, outputs=len(carried))
    results = dict(zip(carried, made if isinstance(made, list) else [made], strict=True))
    for n, value in results.items():
        g.facts(value, g.dtype(before[n]), _unknown_dims(after[n]))
    results[name] = g.const(np.zeros((), bool))
    return [results[n] for n in outputs]


def _unknown_dims(value: ir.Value) -> list[None] | None:
    """Dims unknown: a blob may grow from turn to turn."""
    return None if value.shape is None else [None] * len(value.shape)
