"""Runs ExecuTorch in its own process to lower a PyTorch program."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

from convert import plugin
from convert.activity import doing
from convert.errors import Unsupported
from convert.files.scratch import scratch_folder
from convert.graph.dim_bounds import bounded_shapes
from convert.processes.interpreter import module_command

if TYPE_CHECKING:
    import onnx_ir as ir

    from convert.outcome.report import Report
    from convert.request.options import Options


def dim_bounds(model: ir.Model) -> list[list[list[int] | None]]:
    """Return the minimum and maximum size of each dim of each input; None for a fixed dim.

    Raises `UsageError` for a dim without a maximum size, because ExecuTorch plans its memory for that size.
    """
    shapes = bounded_shapes(model, "ExecuTorch")
    return [[None if isinstance(dim, int) else list(dim[1:]) for dim in shape] for shape in shapes]


def lower_file(model: ir.Model, path: Path, options: Options, report: Report) -> None:
    """Write a graph as .pte. Raises `UsageError` for an unbounded dim, and `Unsupported` for operators that ExecuTorch
    lacks.
    """
    facts = {
        "inputs": [str(value.name) for value in model.graph.inputs],
        "outputs": [str(value.name) for value in model.graph.outputs],
        "bounds": dim_bounds(model),
    }
    with scratch_folder() as folder:
        program = folder / "model.pt2"
        plugin.backend_for("torch").write(model, program, "torch", options, report)
        (folder / "facts.json").write_text(json.dumps(facts))
        command = module_command("convert.backends.executorch.child", str(folder), str(path))
        with doing("running ExecuTorch's lowering"):
            done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    if done.returncode or not path.exists():
        lines = [line for line in done.stderr.splitlines() if line.strip()]
        text = " ".join(" ".join(lines[-4:]).split())[-600:] or f"it ended with {done.returncode}"
        raise Unsupported(f"ExecuTorch does not lower the program that was written for it: {text}")
