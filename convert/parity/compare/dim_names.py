"""Check the names of dims that the graph gives to its outputs against the sizes in the runs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from convert.graph.values import known_dims
from convert.parity.inputs.feeds import Feed
from convert.processes.run_here import Outputs


def false_dim_names(graph: ir.Model, feeds: Sequence[Feed], outputs: Outputs) -> list[str]:
    """Return the outputs that have a dim of another size than its name has elsewhere in the same run.

    outputs: for each of `feeds`, with the graph's names and layout.
    """
    found = {}
    for feed, given in zip(feeds, outputs, strict=False):
        arrays = {**feed.arrays, **given}
        sizes: dict[str, int] = {}
        for value in (*graph.graph.inputs, *graph.graph.outputs):
            if str(value.name) not in arrays:
                continue
            dims, shape = known_dims(value), np.shape(arrays[str(value.name)])
            if dims is None or len(dims) != len(shape):
                continue
            for dim, size in zip(dims, shape, strict=True):
                if isinstance(dim, str) and sizes.setdefault(dim, size) != size:
                    text = ", ".join("?" if d is None else str(d) for d in dims)
                    found[str(value.name)] = (
                        f"the source declares {value.name!r} as [{text}], and gives [{', '.join(map(str, shape))}] "
                        f"where {dim} is {sizes[dim]}"
                    )
    return list(found.values())
