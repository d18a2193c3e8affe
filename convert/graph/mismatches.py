"""Finds nodes with impossible sizes, shapes or axes, which ONNX's inference accepts against its specification."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import onnx_ir as ir

from convert.graph.builder import location_of
from convert.graph.values import known_dims

_SMALL = 4096
"""Constants of at most this many bytes are examined."""


def first_mismatch(model: ir.Model) -> str:
    """Describe the first node of the outermost graph that cannot run with the known sizes; "" if there is none.

    Subgraphs are ignored: a branch that is never taken may hold anything.
    """
    for node in model.graph:
        if node.domain:
            continue
        find = _CHECKS.get(node.op_type)
        reason = (node.op_type in _TAKING_AXIS and _axis(node)) or (find is not None and find(node))
        if reason:
            return f"{location_of(node)}: {reason}"
    return ""


def _sizes(node: ir.Node, index: int) -> list[int | None] | None:
    """Return the sizes of an input, None for each that is no number.

    Returns None if the rank is unknown or the input absent.
    """
    value = node.inputs[index] if index < len(node.inputs) else None
    dims = None if value is None else known_dims(value)
    return None if dims is None else [d if isinstance(d, int) else None for d in dims]


def _content(node: ir.Node, index: int) -> np.ndarray | None:
    value = node.inputs[index] if index < len(node.inputs) else None
    tensor = None if value is None else value.const_value
    return None if tensor is None or tensor.nbytes > _SMALL else tensor.numpy()


def _number(node: ir.Node, index: int) -> int | None:
    content = _content(node, index)
    return None if content is None or content.size != 1 else int(content.reshape(()))


def _differ(one: int | None, other: int | None) -> bool:
    return one is not None and other is not None and one != other


_TAKING_AXIS = frozenset((
    "ArgMax", "ArgMin", "Compress", "Concat", "Flatten", "Gather", "GatherElements", "Hardmax", "LayerNormalization",
    "LogSoftmax", "LpNormalization", "RMSNormalization", "ScatterElements", "Softmax", "Split", "SplitToSequence",
    "TopK",
))  # fmt: skip
"""Operators whose attribute `axis` refers to a dim of their first input."""


def _axis(node: ir.Node) -> str:
    x, axis = _sizes(node, 0), node.attributes.get_int("axis", None)
    if not x or axis is None:
        return ""
    rank = len(x)
    most = rank if node.op_type == "Flatten" else rank - 1
    return "" if -rank <= axis <= most else f"axis {axis} of {rank} dims"


def _conv(node: ir.Node) -> str:
    x, w, bias = _sizes(node, 0), _sizes(node, 1), _sizes(node, 2)
    if x is None or w is None or len(x) < 3 or len(w) < 2:
        return ""
    across = node.op_type == "ConvTranspose"
    groups = node.attributes.get_int("group", 1)
    wanted = w[0] if across else None if w[1] is None else w[1] * groups
    if _differ(x[1], wanted):
        return f"{x[1]} channels, and weights for {wanted}"
    produced = w[0] if not across else None if w[1] is None else w[1] * groups
    return f"{produced} channels, and a bias of {bias[0]}" if bias and _differ(bias[0], produced) else ""


def _cumulative_sum(node: ir.Node) -> str:
    x, axis = _sizes(node, 0), _number(node, 1)
    return "" if x is None or axis is None or -len(x) <= axis < len(x) else f"axis {axis} of {len(x)} dims"


def _gather(node: ir.Node) -> str:
    x, indices, axis = _sizes(node, 0), _content(node, 1), node.attributes.get_int("axis", 0)
    if not x or indices is None or not indices.size or not -len(x) <= axis < len(x):
        return ""
    size, least, most = x[axis], int(indices.min()), int(indices.max())
    return "" if size is None or -size <= least <= most < size else f"places {least} to {most} of {size}"


def _gemm(node: ir.Node) -> str:
    w, bias = _sizes(node, 1), _sizes(node, 2)
    if w is None or len(w) != 2 or not bias:
        return ""
    produced = w[0] if node.attributes.get_int("transB", 0) else w[1]
    return f"{produced} columns, and a bias of {bias[-1]}" if bias[-1] != 1 and _differ(bias[-1], produced) else ""


def _layer_normalization(node: ir.Node) -> str:
    x, axis = _sizes(node, 0), node.attributes.get_int("axis", -1)
    for index in (1, 2):
        for size, own in zip(reversed(_sizes(node, index) or []), reversed((x or [])[axis:]), strict=False):
            if size != 1 and _differ(size, own):
                return f"{own} elements, and weights for {size}"
    return ""


def _recurrent(node: ir.Node) -> str:
    x, w = _sizes(node, 0), _sizes(node, 1)
    if x is None or w is None or len(x) != 3 or len(w) != 3 or not _differ(x[2], w[2]):
        return ""
    return f"{x[2]} features, and weights for {w[2]}"


def _reshape(node: ir.Node) -> str:
    x, target = _sizes(node, 0), _content(node, 1)
    if x is None or None in x or target is None or target.ndim != 1:
        return ""
    wanted = [int(n) for n in target]
    if not node.attributes.get_int("allowzero", 0):
        if any(n == 0 and i >= len(x) for i, n in enumerate(wanted)):
            return f"the shape {wanted} of a tensor of {len(x)} dims"
        wanted = [x[i] or 0 if n == 0 else n for i, n in enumerate(wanted)]
    count = math.prod(n or 0 for n in x)
    fits = -1 in wanted or count == math.prod(wanted)
    return "" if fits else f"{count} elements, and the shape {wanted}"


def _reverse_sequence(node: ir.Node) -> str:
    axes = {name: node.attributes.get_int(f"{name}_axis", usual) for name, usual in (("batch", 1), ("time", 0))}
    if max(axes.values()) <= 1 and axes["batch"] != axes["time"]:
        return ""
    return f"{axes['batch']} for the axis of batches and {axes['time']} for that of times, which are 0 and 1"


def _stft(node: ir.Node) -> str:
    x, step, size, window = _sizes(node, 0), _number(node, 1), _number(node, 3), _sizes(node, 2)
    if x is not None and len(x) != 3:
        return f"a signal of {len(x)} dims, and not of 3"
    for what, number in (("a step", step), ("frames", size)):
        if number is not None and number < 1:
            return f"{what} of {number}"
    wanted = size if size is not None else window[0] if window else None
    if x is None or x[1] is None or wanted is None or wanted <= x[1]:
        return ""
    return f"{x[1]} samples, and frames of {wanted}"


_CHECKS: dict[str, Callable[[ir.Node], str]] = {
    "Conv": _conv,
    "ConvTranspose": _conv,
    "CumSum": _cumulative_sum,
    "GRU": _recurrent,
    "Gather": _gather,
    "Gemm": _gemm,
    "LSTM": _recurrent,
    "LayerNormalization": _layer_normalization,
    "RNN": _recurrent,
    "Reshape": _reshape,
    "ReverseSequence": _reverse_sequence,
    "STFT": _stft,
}
