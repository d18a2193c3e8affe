"""Check whether the memory of this machine is enough to verify a model."""

from __future__ import annotations

import onnx_ir as ir

from convert.outcome.text import bytes_text
from convert.processes import machine
from convert.processes.run_here import Limits

_AT_ONCE = 4
"""Models in memory at once: the source, the graph in float64, and the artefact under two settings of its runtime."""


def bytes_of_run(graph: ir.Model) -> int:
    """Return the approximate memory of the largest run of a model: its weights as they are, and again in float64.

    Runtimes with a second, packed copy of the weights need less: onnxruntime and TensorFlow took 2.2 times the float32
    weights. Activations are not counted.
    """
    weights = [v.const_value for g in (graph.graph, *graph.graph.subgraphs()) for v in g.initializers.values()]
    tensors = [w for w in weights if w is not None]
    return sum(w.nbytes + (8 * w.size if w.dtype.is_floating_point() else 0) for w in tensors)


def is_scarce(graph: ir.Model, limits: Limits) -> bool:
    """Return whether the runs of a verification should not be in memory at the same time."""
    return _AT_ONCE * bytes_of_run(graph) > _bytes_of(limits)


def lack_of_memory(graph: ir.Model, limits: Limits | None) -> str:
    """Return why a verification is skipped unless the user asks for it, or an empty string."""
    needed, there = bytes_of_run(graph), _bytes_of(limits)
    if needed <= there:
        return ""
    return (
        f"a run of the model in float64 takes some {bytes_text(needed)}, and there are {bytes_text(there)} of memory "
        "(--verify tries it all the same)"
    )


def _bytes_of(limits: Limits | None) -> int:
    return machine.memory() if limits is None or limits.memory is None else limits.memory
