"""Has OpenVINO's converter make an IR of an ONNX file, in a process of its own."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

from convert import plugin
from convert.activity import doing
from convert.errors import ConvertError, Unsupported
from convert.files.scratch import scratch_folder
from convert.processes.interpreter import module_command

if TYPE_CHECKING:
    import onnx_ir as ir

    from convert.outcome.report import Report
    from convert.request.options import Options

_LACKING = "ONNX operations"
"""Words in OpenVINO's message about operators that it does not convert."""


def convert_file(model: ir.Model, path: Path, options: Options, report: Report) -> None:
    """Write the IR of a graph to the folder `path`. Raises `Unsupported` for operators that OpenVINO lacks."""
    with scratch_folder() as folder:
        file = folder / "model.onnx"
        plugin.backend_for("onnx").write(model, file, "onnx", options, report)
        path.mkdir()
        command = module_command("convert.backends.openvino.child", str(file), str(path / "model.xml"))
        with doing("running OpenVINO's converter"):
            done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if line.strip()]
        text = " ".join(" ".join(lines[-8:]).split())[-600:] or f"it ended with {done.returncode}"
        kind = Unsupported if _LACKING in done.stderr else ConvertError
        raise kind(f"OpenVINO's converter does not take the ONNX file that was written for it: {text}")
