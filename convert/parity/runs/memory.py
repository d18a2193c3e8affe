"""Whether the memory of this machine is enough to verify a model."""

from __future__ import annotations

import onnx_ir as ir

from convert.batch import machine
from convert.runners.process import Limits
from convert.text import bytes_text

_AT_ONCE = 4
"""The source, the graph in float64, and the artefact under two settings of its runtime."""


def bytes_of_run(graph: ir.Model) -> int:
    """About what the largest run of a model takes: its weights as they are, and once more in float64.

    Runtimes that keep a second, packed copy of the weights take less than that (2.2 times float32's was seen in
    onnxruntime and TensorFlow), and nothing is said of what lies between operators.
    """
    weights = [v.const_value for g in (graph.graph, *graph.graph.subgraphs()) for v in g.initializers.values()]
    tensors = [w for w in weights if w is not None]
    return sum(w.nbytes + (8 * w.size if w.dtype.is_floating_point() else 0) for w in tensors)


def is_scarce(graph: ir.Model, limits: Limits) -> bool:
    """Whether the runs of a verification should not be in memory at the same time."""
    return _AT_ONCE * bytes_of_run(graph) > _bytes_of(limits)


def lack_of_memory(graph: ir.Model, limits: Limits | None) -> str:
    """Why a verification is not tried unless the user asks for it, or an empty string."""
    needed, there = bytes_of_run(graph), _bytes_of(limits)
    if needed <= there:
        return ""
    return (
        f"a run of the model in float64 takes some {bytes_text(needed)}, and there are {bytes_text(there)} of memory "
        "(--verify tries it all the same)"
    )


def _bytes_of(limits: Limits | None) -> int:
    return machine.memory() if limits is None or limits.memory is None else limits.memory
