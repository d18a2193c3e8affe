"""If, Loop and Scan for the reference executor, which runs their subgraphs with access to the outer values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
import onnx_ir as ir

from convert.activity import check_time
from convert.graph.tensors import numpy_dtype

RunBody: TypeAlias = Callable[[ir.Graph, Sequence[Any]], Sequence[Any]]
"""Runs a subgraph on its inputs with access to the outer values; the executor passes it in."""

Control: TypeAlias = Callable[[RunBody, ir.Node, list[Any]], Sequence[Any]]


def _if(run_body: RunBody, node: ir.Node, inputs: list[Any]) -> Sequence[Any]:
    branch = "then_branch" if np.asarray(inputs[0]).item() else "else_branch"
    return run_body(node.attributes[branch].as_graph(), [])


def _loop(run_body: RunBody, node: ir.Node, inputs: list[Any]) -> Sequence[Any]:
    body = node.attributes["body"].as_graph()
    limit = None if inputs[0] is None else int(np.asarray(inputs[0]).item())
    going = True if len(inputs) < 2 or inputs[1] is None else bool(np.asarray(inputs[1]).item())
    carried = list(inputs[2:])
    scans: list[list[Any]] = [[] for _ in range(len(body.outputs) - 1 - len(carried))]
    count = 0
    while going and (limit is None or count < limit):
        check_time()  # the body may have no node that would check the time
        given = [np.array(count, np.int64), np.array(True), *carried][: len(body.inputs)]
        results = run_body(body, given)
        going = bool(np.asarray(results[0]).item())
        carried = list(results[1 : 1 + len(carried)])
        for scan, value in zip(scans, results[1 + len(carried) :], strict=True):
            scan.append(value)
        count += 1
    declared = body.outputs[1 + len(carried) :]
    return [*carried, *(_stack_scan(scan, value) for scan, value in zip(scans, declared, strict=True))]


def _scan(run_body: RunBody, node: ir.Node, inputs: list[Any]) -> Sequence[Any]:
    body = node.attributes["body"].as_graph()
    count = node.attributes["num_scan_inputs"].as_int()
    states = list(inputs[: len(inputs) - count])
    produced = len(body.outputs) - len(states)
    axes, backwards = _integers(node, "scan_input_axes", count), _integers(node, "scan_input_directions", count)
    out_axes, out_backwards = (_integers(node, f"scan_output_{what}", produced) for what in ("axes", "directions"))
    scanned = zip(inputs[-count:], axes, backwards, strict=True)
    streams = [np.moveaxis(x, a, 0)[:: -1 if b else 1] for x, a, b in scanned]
    scans: list[list[Any]] = [[] for _ in range(produced)]
    for step in range(len(streams[0])):
        check_time()
        results = run_body(body, [*states, *(s[step] for s in streams)])
        states = list(results[: len(states)])
        for scan, value in zip(scans, results[len(states) :], strict=True):
            scan.append(value)
    declared = body.outputs[len(states) :]
    stacked = [_stack_scan(scan, value) for scan, value in zip(scans, declared, strict=True)]
    turned = [s[::-1] if d else s for s, d in zip(stacked, out_backwards, strict=True)]
    return [*states, *(np.moveaxis(s, 0, a) for s, a in zip(turned, out_axes, strict=True))]


def _stack_scan(scan: list[Any], declared: ir.Value) -> np.ndarray:
    if scan:
        return np.stack(scan)
    dtype = numpy_dtype(declared.dtype) if declared.dtype is not None else np.dtype(np.float64)
    dims = [d if isinstance(d, int) else 0 for d in declared.shape] if declared.shape is not None else []
    return np.zeros([0, *dims], dtype)


def _integers(node: ir.Node, name: str, count: int) -> list[int]:
    attribute = node.attributes.get(name)
    return [0] * count if attribute is None else list(attribute.as_ints())


CONTROL: dict[str, Control] = {"If": _if, "Loop": _loop, "Scan": _scan}
