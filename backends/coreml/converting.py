"""Runs coremltools in its own process to convert a PyTorch program, and compares the package with the request."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import onnx_ir as ir

from convert import plugin
from convert.activity import doing
from convert.errors import ConvertError, Unsupported
from convert.files.scratch import scratch_folder
from convert.graph.dim_bounds import bounded_shapes
from convert.graph.metadata import STATE_KEY
from convert.outcome.report import Report
from convert.processes.interpreter import module_command

if TYPE_CHECKING:
    from convert.request.options import Options

FLOAT, HALF, INTEGER = "float32", "float16", "int32"
INPUT_DTYPES = {"float32": FLOAT, "float16": HALF, "int32": INTEGER, "int64": INTEGER, "bool": INTEGER}
"""The dtypes of inputs in the model, and their dtypes in a package."""
_RANK = 5
"""Maximum number of dims in Core ML."""


def described_inputs(model: ir.Model) -> list[dict[str, Any]]:
    """Return name, dtype and shape of each input in a package. Raises `UsageError` for a dim without a maximum size."""
    shapes = bounded_shapes(model, "Core ML")
    return [
        {"name": str(value.name), "dtype": INPUT_DTYPES.get(_dtype(value), ""), "shape": shape}
        for value, shape in zip(model.graph.inputs, shapes, strict=True)
    ]


def check_io(model: ir.Model) -> None:
    """Raise `Unsupported` for inputs and outputs of kinds that Core ML lacks, and for float64."""
    for value in model.graph.inputs:
        if _dtype(value) not in INPUT_DTYPES:
            raise Unsupported(f"Core ML has no inputs of {_dtype(value)}, as {value.name} is")
        if value.shape is not None and not 1 <= len(value.shape) <= _RANK:
            raise Unsupported(f"Core ML takes inputs of 1 to {_RANK} dims, and {value.name} has {len(value.shape)}")
        if value.is_graph_output():
            raise Unsupported(f"coremltools does not write an output that is an input: {value.name}")
    for node in model.graph.all_nodes():
        for value in node.outputs:
            if value.dtype == ir.DataType.DOUBLE:
                raise Unsupported(f"Core ML does not compute in float64, as {node.op_type} does here ({value.name})")


def convert_file(model: ir.Model, path: Path, options: Options, report: Report) -> None:
    """Write the package of a graph to the folder `path`, and read it back.

    Raises `Unsupported` for operators that coremltools does not convert, and `ConvertError` if the package differs from
    what was requested.
    """
    inputs, outputs = described_inputs(model), [(str(v.name), _dtype(v)) for v in model.graph.outputs]
    dtypes = {str(value.name): _dtype(value) for value in model.graph.inputs}
    check_io(model)
    model.metadata_props.pop(STATE_KEY, None)  # Core ML would round its own state to float16: it stays an input
    with scratch_folder() as folder:
        _write_program(model, folder / "model.pt2", options, report)
        (folder / "facts.json").write_text(json.dumps({"inputs": inputs, "outputs": [name for name, _ in outputs]}))
        answer = _run_child(folder)
        if "error" in answer:
            raise Unsupported(f"coremltools does not convert the program that was written for it: {answer['error']}")
        _compare(inputs, [name for name, _ in outputs], answer)
        shutil.move(folder / "model.mlpackage", path)
    _note_dtypes(dtypes, dict(outputs), answer, report)
    _note_checks(answer, report)


def _write_program(model: ir.Model, path: Path, options: Options, report: Report) -> None:
    """Write the program, which has PyTorch's names, and the names that the package should have."""
    inner = Report("convert")
    plugin.backend_for("torch").write(model, path, "torch", options, inner)
    for note in inner.notes:
        if getattr(note, "code", "") != "renamed":
            report.note(note)


def _run_child(folder: Path) -> dict[str, Any]:
    """Return the child's description of the package that it wrote. Raises the child's error."""
    command = module_command("convert.backends.coreml.child", str(folder))
    environment = {**os.environ, "TMPDIR": str(folder)}  # coremltools does not remove its own folder if it is killed
    with doing("running coremltools"):
        done = subprocess.run(
            command, capture_output=True, text=True, errors="replace", check=False, env=environment
        )  # fmt: skip
    answer = folder / "answer.json"
    if not answer.exists():
        lines = [line for line in done.stderr.replace("\r", "\n").splitlines() if line.strip()]
        text = " ".join(" ".join(lines[-4:]).split())[-600:] or f"it ended with {done.returncode}"
        return {"error": text}
    found: dict[str, Any] = json.loads(answer.read_text())
    return found


def _compare(inputs: list[dict[str, Any]], outputs: list[str], answer: Mapping[str, Any]) -> None:
    """Raise `ConvertError` unless a package has these inputs and outputs and all weights can be read from it."""
    wanted = [(row["name"], row["dtype"], row["shape"]) for row in inputs]
    found = [(row["name"], row["dtype"], row["shape"]) for row in answer["inputs"]]
    shapes = [(name, dtype, [d if isinstance(d, int) else list(d[1:]) for d in shape]) for name, dtype, shape in wanted]
    if shapes != found:
        raise ConvertError(f"the inputs that coremltools wrote are not those of the model: {found}, not {shapes}")
    if [row["name"] for row in answer["outputs"]] != outputs:
        names = [row["name"] for row in answer["outputs"]]
        raise ConvertError(f"the outputs that coremltools wrote are not those of the model: {names}, not {outputs}")


def _note_dtypes(
    inputs: Mapping[str, str], outputs: Mapping[str, str], answer: Mapping[str, Any], report: Report
) -> None:
    """Add a note about inputs and outputs that have another dtype in the package."""
    for side, own in (("input", inputs), ("output", outputs)):
        for row in answer[f"{side}s"]:
            dtype = own[row["name"]]
            if row["dtype"] != dtype:
                report.note(
                    f"the {side} {row['name']!r} of {dtype} is {row['dtype']} in the package: Core ML has no arrays of"
                    f" {dtype}",
                    code="other-dtype",
                )


def _note_checks(answer: Mapping[str, Any], report: Report) -> None:
    """Add a note about what was checked, and about how to compare results if Core ML does not run here."""
    runner = plugin.runner_for("coreml")
    if runner is None or runner.available():
        same, every = answer["weights"]["same"], answer["weights"]["all"]
        kept = f"all {every} weights" if same == every else f"{same} of {every} weights (coremltools joins the others)"
        command = f" On a Mac: convert verify {report.source} {Path(report.target).name}"
        command = command if Path(report.source).exists() else ""  # a model in memory has no name to type
        report.note(
            f"Core ML runs on macOS only. Inputs, outputs and {kept} were read back, and the numbers were not compared."
            f"{command}",
            code="other-machine",
        )


def _dtype(value: ir.Value) -> str:
    return "unknown" if value.dtype is None else value.dtype.numpy().name
