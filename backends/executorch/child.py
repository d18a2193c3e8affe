"""The process in which ExecuTorch lowers: `python … convert.backends.executorch.child FOLDER MODEL.pte`.

FOLDER holds the program and its facts: the names of inputs and outputs, and bounds of the dims.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

NAMES = "convert_names"
"""A method of the file that returns the names of inputs and outputs, as bytes of JSON: ExecuTorch keeps none."""


def lower(folder: Path, target: Path) -> None:
    """Lower the program for XNNPACK; operators that XNNPACK does not take run in ExecuTorch's own kernels."""
    import numpy as np
    import torch
    from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
    from executorch.exir import ExecutorchBackendConfig, to_edge_transform_and_lower
    from executorch.exir.passes.sym_shape_eval_pass import ConstraintBasedSymShapeEvalPass

    facts = json.loads((folder / "facts.json").read_text())
    program = _bounded(torch.export.load(folder / "model.pt2"), facts["bounds"])
    text = json.dumps({"inputs": facts["inputs"], "outputs": facts["outputs"]}).encode()
    names = torch.from_numpy(np.frombuffer(text, np.uint8).copy())
    edge = to_edge_transform_and_lower(program, partitioner=[XnnpackPartitioner()], constant_methods={NAMES: names})
    # By default ExecuTorch reserves memory for the example's sizes, and refuses a larger batch at run time.
    config = ExecutorchBackendConfig(sym_shape_eval_pass=ConstraintBasedSymShapeEvalPass())
    target.write_bytes(edge.to_executorch(config).buffer)


def _bounded(program: Any, bounds: list[list[list[int] | None]]) -> Any:
    """Return the program, exported again with these bounds of its dims: a saved program has lost the upper bounds."""
    import torch
    from torch.export import Dim

    values = {node.name: node.meta["val"] for node in program.graph.nodes if node.op == "placeholder"}
    examples, dynamic = [], []
    for name, row in zip(program.graph_signature.user_inputs, bounds, strict=True):
        sizes = [int(size) if bound is None else bound[1] for size, bound in zip(values[name].shape, row, strict=True)]
        examples.append(torch.zeros(sizes, dtype=values[name].dtype))
        dynamic.append({axis: Dim.AUTO(min=b[0], max=b[1]) for axis, b in enumerate(row) if b is not None})
    return torch.export.export(program.module(), tuple(examples), dynamic_shapes=tuple(dynamic))


if __name__ == "__main__":
    lower(Path(sys.argv[1]), Path(sys.argv[2]))
