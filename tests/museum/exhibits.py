"""The models in an archive that a maker wrote, converted to ONNX and compared with what their writer computed."""

from __future__ import annotations

import json
import re
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import convert
from convert.errors import ConvertError, ParityError

INPUTS_NEEDED = ("pt", "ptl", "pth", "ckpt", "caffe2")
"""Suffixes of models that do not say which inputs they take."""


@dataclass(frozen=True)
class Exhibit:
    """A model, `name`, in an archive. `stem` names the arrays beside it."""

    archive: Path
    name: str

    @property
    def stem(self) -> str:
        return self.name.partition(".")[0]

    @property
    def id(self) -> str:
        return f"{self.archive.stem}-{self.name}"

    def extract(self, folder: Path) -> Path:
        """Return the model's path after extracting it."""
        with zipfile.ZipFile(self.archive) as opened:
            opened.extractall(folder, [m for m in opened.namelist() if m.split("/")[0] == self.name])
        return folder / self.name

    def arrays(self) -> tuple[list[Any], list[Any]]:
        """Return the inputs, and the outputs that the writer computed."""
        found = self._saved()
        return tuple([found[f"{side}{i}"] for i in range(len(found)) if f"{side}{i}" in found] for side in "xy")  # type: ignore[return-value]

    def options(self) -> dict[str, Any]:
        """Return the options without which the model is refused, such as the signature that is meant."""
        found = self._saved()
        return dict(json.loads(str(found["options"]))) if "options" in found else {}

    def _saved(self) -> dict[str, Any]:
        with zipfile.ZipFile(self.archive) as opened, np.load(opened.open(f"{self.stem}.npz")) as saved:
            return {key: saved[key] for key in saved.files}


def exhibits(archive: Path) -> Iterator[Exhibit]:
    """Yield the models of an archive."""
    with zipfile.ZipFile(archive) as opened:
        names = sorted({name.split("/")[0] for name in opened.namelist()})
    yield from (Exhibit(archive, name) for name in names if not name.endswith(".npz"))


def outcome(exhibit: Exhibit, folder: Path) -> tuple[str, str]:
    """Return "right", "wrong", "refused" or "reference", with the reason, for the conversion of a model to ONNX.

    "reference" means that a runtime of today gives the conversion's numbers for the file, and not those of the writer.
    Either the exporter of an ONNX file changed the model, or the kernels of TensorFlow Lite round otherwise. It also
    stands for a file that onnxruntime runs neither before nor after the conversion.
    """
    inputs, expected = exhibit.arrays()
    source, target = exhibit.extract(folder), folder / "converted.onnx"
    try:
        convert.convert(source, "onnx", target, verify=False, **_needed(exhibit, inputs))
    except ConvertError as error:
        return "refused", _shortened(error)
    try:
        got = run(target, inputs)
    except Exception as error:  # the errors of onnxruntime have no common class
        if source.suffix == ".onnx" and _tried(run, source, inputs) is None:
            return "reference", f"onnxruntime runs neither the file nor the conversion: {str(error)[:200]}"
        raise
    problem = difference(got, expected)
    if problem and _computed_by_reference(source, inputs, got):
        return "reference", problem
    return ("wrong", problem) if problem else ("right", "")


def _computed_by_reference(source: Path, inputs: list[Any], got: list[Any]) -> bool:
    """Return whether a runtime of today loads a file and computes these outputs."""
    if source.suffix not in (".onnx", ".tflite"):
        return False
    runs = [run] if source.suffix == ".onnx" else [partial(_run_kernels, kernels) for kernels in KERNELS]
    found = (_tried(again, source, inputs) for again in runs)
    return any(outputs is not None and not difference(got, outputs) for outputs in found)


def _tried(again: Callable[[Path, list[Any]], list[Any]], source: Path, inputs: list[Any]) -> list[Any] | None:
    """Return the outputs of a file, or None if the runtime does not run it."""
    try:
        return again(source, inputs)
    except Exception:  # the errors of runtimes have no common class; the reference kernels lack new versions of Tile
        return None


KERNELS = ("BUILTIN_REF", "BUILTIN")
"""Sets of kernels of TensorFlow Lite: those that define what an operator computes, and XNNPACK's. They round unlike."""


def _run_kernels(kernels: str, path: Path, inputs: list[Any]) -> list[Any]:
    """Return the outputs of a TensorFlow Lite file by a set of kernels."""
    from ai_edge_litert.interpreter import Interpreter, OpResolverType

    interpreter = Interpreter(str(path), experimental_op_resolver_type=OpResolverType[kernels])
    interpreter.allocate_tensors()
    for described, array in zip(interpreter.get_input_details(), inputs, strict=True):
        interpreter.set_tensor(described["index"], array)
    interpreter.invoke()
    return [interpreter.get_tensor(described["index"]) for described in interpreter.get_output_details()]


def verdict(exhibit: Exhibit, folder: Path, to: str) -> tuple[str, str]:
    """Return "PASS", "FAIL", "INCONCLUSIVE" or "refused", with the reason, for the verified conversion of a model."""
    given = _needed(exhibit, exhibit.arrays()[0])
    try:
        found = convert.convert(exhibit.extract(folder), to, folder / "converted", verify=True, **given).verdict
    except ParityError as error:
        return "FAIL", _shortened(error)
    except ConvertError as error:
        return "refused", _shortened(error)
    assert found is not None
    return found.status, "" if found.status == "PASS" else " ".join(found.reason.split())[:400]


def _shortened(error: ConvertError) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())[:400]}"


def _needed(exhibit: Exhibit, inputs: list[Any]) -> dict[str, Any]:
    """Return the options without which a model is refused: its own, and inputs where a file does not name them."""
    options = exhibit.options()
    if exhibit.name.endswith(tuple(f".{suffix}" for suffix in INPUTS_NEEDED)):
        options["inputs"] = _described(exhibit, inputs)
    return options


def _described(exhibit: Exhibit, inputs: list[Any]) -> list[Any]:
    """Return the inputs as the reader of a model gets them: arrays for PyTorch, which runs it, else their shapes."""
    if not exhibit.name.endswith(".caffe2"):
        return inputs
    return [f"{array.dtype}[{','.join(map(str, array.shape))}]" for array in inputs]


def run(path: Path, inputs: list[Any]) -> list[Any]:
    """Return the outputs of an ONNX file; states follow those of the source.

    Some exporters change the order of inputs, so those that are called x0, x1, … get the arrays by name.
    """
    import onnxruntime

    options = onnxruntime.SessionOptions()
    # It fuses quantized operators into integer kernels, which round ties otherwise than the operators do.
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    names = [value.name for value in session.get_inputs()]
    numbered = [match and int(match[1]) for match in (re.fullmatch(r"x(\d+)(:0)?", name) for name in names)]
    if sorted(n for n in numbered if n is not None) == list(range(len(names))):
        inputs = [inputs[n] for n in numbered if n is not None]
    return session.run(None, dict(zip(names, inputs, strict=False)))


def difference(got: list[Any], expected: list[Any]) -> str:
    """Return in what the outputs differ, or an empty text."""
    if len(got) < len(expected):
        return f"{len(got)} outputs instead of {len(expected)}"
    for number, (ours, theirs) in enumerate(zip(got, expected, strict=False)):
        if ours.shape != theirs.shape:
            return f"output {number} has the shape {ours.shape} instead of {theirs.shape}"
        try:
            np.testing.assert_allclose(ours, theirs, 1e-4, 1e-5)
        except AssertionError:
            off = np.abs(ours.astype(np.float64) - theirs).max()
            return f"output {number} is off by {off:.3g} where the largest is {np.abs(theirs).max():.3g}"
    return ""
