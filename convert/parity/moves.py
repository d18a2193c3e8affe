"""Inputs and weights moved by one unit in the last place: what that does to an output, rounding may do as well."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import onnx_ir as ir

from convert.errors import ConvertError
from convert.graph.tensors import widened_array
from convert.parity.inputs import Feed
from convert.runners.process import Outputs


def moved_arrays(arrays: Mapping[str, np.ndarray], seed: int) -> dict[str, np.ndarray]:
    """Floating arrays with each number moved by one unit in the last place, up or down; others as they are.

    So are those of whole numbers alone, which may be places in a table.
    """
    rng = np.random.default_rng([11, seed])
    return {name: array if _is_whole(array) else moved_array(array, rng) for name, array in arrays.items()}


def _is_whole(array: np.ndarray) -> bool:
    if array.dtype.kind in "OUSbiuc":
        return False
    wide = widened_array(array)
    return np.array_equal(wide, np.rint(wide))


def moved_array(array: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Each number to a neighbor of its dtype; zeros, infinities and NaNs stay, and so do arrays of other dtypes."""
    floating = array.dtype.name in ("float16", "bfloat16", "float32", "float64")
    if not floating or not array.size:
        return array
    bits = np.ascontiguousarray(array).view(f"i{array.dtype.itemsize}")
    other = (bits + rng.choice(np.array([-1, 1], bits.dtype), bits.shape)).view(array.dtype).reshape(array.shape)
    with np.errstate(invalid="ignore"):
        takes = np.isfinite(widened_array(array)) & np.isfinite(widened_array(other)) & (array != 0) & (other != 0)
    return np.where(takes, other, array)


def run_moved(
    graph: ir.Model, feeds: Sequence[Feed], *, outputs: Iterable[str] | None = None, seed: int = 13
) -> Outputs:
    """The graph in its own dtypes on feeds, which are moved, with its weights moved too; `outputs` as for `run`.

    Weights stay where a graph does not run with others: a size may be computed from one.
    """
    from convert.reference.executor import run

    copy, rng = graph.clone(), np.random.default_rng(seed)
    for each in copy.graphs():
        for value in each.initializers.values():
            if value.const_value is not None and value.const_value.dtype.is_floating_point():
                array = value.const_value.numpy()
                value.const_value = ir.Tensor(moved_array(array, rng), name=value.const_value.name)
    names = None if outputs is None else list(outputs)
    try:
        return [run(copy, feed.arrays, outputs=names) for feed in feeds]
    except ConvertError:
        return [run(graph, feed.arrays, outputs=names) for feed in feeds]
