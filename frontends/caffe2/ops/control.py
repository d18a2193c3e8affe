"""Control flow: nets in the arguments, which read and write outer blobs, whether or not these are named as outputs."""

from __future__ import annotations

from collections.abc import Sequence

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
    """If. `outputs` are the operator's output blobs, passed by the reader. A missing branch leaves them unchanged."""
    around = then_net.outside
    bodies = [b for b in (then_net, else_net) if b is not None]
    changed = list(dict.fromkeys([*outputs, *(n for b in bodies for n in b.written())]))
    branches = []
    for body in (then_net, else_net):
        branch = g.body()
        values = around if body is None else body.run(branch, {})
        missing = [name for name in outputs if name not in values]
        if missing:
            raise Unsupported(f"a branch does not make {missing[0]!r}")
        for name in changed:
            branch.output(branch.Identity(values[name]))
        branches.append(branch)
    scalar = g.Reshape(condition, g.const(np.zeros(0, np.int64)))
    made = g.node("If", [scalar], {"then_branch": branches[0], "else_branch": branches[1]}, outputs=len(changed))
    results = dict(zip(changed, made if isinstance(made, list) else [made], strict=True))
    around.update({name: results[name] for name in changed if name not in outputs})
    return [results[name] for name in outputs]


@caffe2_op("While")
def while_rule(
    g: Graph, condition: ir.Value, *_: ir.Value, loop_net: NestedNet, cond_net: NestedNet | None = None,
    inputs: tuple[str, ...] = (), outputs: tuple[str, ...] = (),
) -> list[ir.Value]:  # fmt: skip
    """While. `cond_net` writes the condition before each iteration; outer blobs that the nets write are
    loop-carried.
    """
    around = loop_net.outside
    before = around if cond_net is None else cond_net.run(g, {})
    name = inputs[0]
    bodies = [b for b in (loop_net, cond_net) if b is not None]
    carried = list(dict.fromkeys(n for b in bodies for n in b.written() if n != name))
    if missing := [n for n in outputs if n not in (*carried, name)]:
        raise Unsupported(f"nothing makes its output {missing[0]!r} if the loop has no iterations")
    loop = g.body()
    loop.input("turn", ir.DataType.INT64, [])
    loop.input("going_on", ir.DataType.BOOL, [])
    values = {n: loop.input(n, g.dtype(before[n]), _unknown_dims(before[n])) for n in carried}
    after = loop_net.run(loop, values)
    if cond_net is not None:
        after = cond_net.run(loop, {n: after[n] for n in after if after[n] is not around.get(n)})
    empty = g.const(np.zeros(0, np.int64))
    loop.output(loop.Reshape(after[name], empty))
    for n in carried:
        loop.output(loop.Identity(after[n]))
    start = [g.Reshape(before[name], empty), *(before[n] for n in carried)]
    made = g.node("Loop", [None, *start], {"body": loop}, outputs=len(carried))
    results = dict(zip(carried, made if isinstance(made, list) else [made], strict=True))
    for n, value in results.items():
        g.facts(value, g.dtype(before[n]), _unknown_dims(after[n]))
    dims = before[name].shape
    results[name] = g.const(np.zeros(dims.numpy() if dims is not None and dims.is_static() else (), bool))
    around.update({n: value for n, value in results.items() if n not in outputs})
    return [results[n] for n in outputs]


def _unknown_dims(value: ir.Value) -> list[None] | None:
    """Return unknown dims, because a blob may grow in each iteration."""
    return None if value.shape is None else [None] * len(value.shape)


@caffe2_op("CreateScope")
def create_scope(g: Graph) -> ir.Value:
    """CreateScope: the workspace in which a Do stores its blobs; here they belong to the Do's net."""
    return g.const(np.zeros((), np.int64))


@caffe2_op("Do")
def do_rule(
    g: Graph, *_: ir.Value, net: NestedNet, inner_blobs: Sequence[str] = (), outer_blobs_idx: Sequence[int] = (),
    copy_external_blobs: int = 0, reuse_workspace: int = 0, inputs: tuple[str, ...] = (),
    outputs: tuple[str, ...] = (),
) -> list[ir.Value]:  # fmt: skip
    """Do: a net with its own blobs; it gets some outer blobs by their index among its inputs and outputs.

    The last input and the last output are the scope, which is ignored. If a scope is used again, blobs of an earlier
    iteration could be read, so nets that read a blob before they create it are refused.
    """
    around, scope, written = net.outside, inputs[-1], outputs[:-1]
    outer = [*inputs[:-1], *written]
    bound = {inner: outer[i] for inner, i in zip(inner_blobs, outer_blobs_idx, strict=True)}
    own = NestedNet(net.net, {i: around[o] for i, o in bound.items() if o in around}, net.lower)
    values = own.run(g, {})
    made = {bound[inner]: values[inner] for inner in bound if inner in values}
    around.update({name: value for name, value in made.items() if name not in written})
    return [*(made[name] if name in made else around[name] for name in written), around[scope]]
