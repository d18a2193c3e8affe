"""Convert the model files under a folder to ONNX, and compare with the expected outputs in the folder.

    python -m tests.suites.model_files FOLDER [--only TEXT] [--jobs N] [--files]

The folder is a checkout with test data, such as that of onnx, onnxruntime, OpenCV, tract, burn, tflite-micro or MNN.
Inputs and outputs are found in these places:

| beside | files |
|---|---|
| FOLDER/NAME.onnx | FOLDER/test_data_set_*/input_0.pb and output_0.pb, as onnx and onnxruntime store them |
| models/NAME.onnx | data/input_NAME.npy or .pb and output_NAME.npy or .pb in the same folder, as OpenCV stores them |
| NAME.tflite | NAME_inp.npy and NAME_out_*.npy, as OpenCV stores them |

The outcomes: right, wrong, converted (no expected outputs), refused, error (another exception, or a result that
onnxruntime does not run), crash, timeout. `--files` prints a line per file. The exit code is 1 after an outcome of
wrong, error or crash.

Runs of 2026-11-30 on the code of commits ddbd0fd7 to 7286ca5c:

| files | right | converted | refused | wrong | error | causes |
|---|---|---|---|---|---|---|
| onnx 1.23, onnxruntime 1.31, torch 2.13, silero_vad | 134 | 17 | 13 | 0 | 6 | no described inputs |
| onnx 1.8.1 | 882 | 0 | 1 | 9 | 21 | onnxruntime gives the same 9 from the files themselves |
| sonos/tract | 0 | 20 | 0 | 0 | 0 | |
| tracel-ai/burn | 0 | 0 | 56 | 0 | 0 | weights without a model |
| tracel-ai/burn-onnx | 0 | 544 | 9 | 0 | 0 | initializers that are no inputs (read since) |
| tensorflow/tflite-micro | 0 | 132 | 12 | 0 | 0 | LSTM that clips its cells; operators of a signal library |
| webonnx/wonnx | 0 | 2 | 0 | 0 | 0 | |

The errors are operators and locales that onnxruntime lacks.
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper

from tests.suites.onnx_node_worker import Answer, run_all, serve

SUFFIXES = (".onnx", ".tflite", ".pt", ".pth", ".ptl", ".pt2", ".pb", ".h5", ".hdf5", ".keras", ".mlir")
NEED_INPUTS = (".pt", ".pth", ".ptl")
RTOL, ATOL = 1e-3, 1e-5
"""The tolerances of ONNX's own runner of these files, but for an absolute one that is above the noise of float32."""

Data = list[tuple[list[Any], list[Any]]]
"""Pairs of inputs and expected outputs, in order."""


def model_paths(folder: Path, only: str = "") -> Iterator[Path]:
    """Yield the models under a folder: files, and the folders of SavedModels and of Caffe2's nets."""
    for path in sorted(folder.rglob("*")):
        if only not in str(path) or not path.is_file():
            continue
        if path.name in ("saved_model.pb", "predict_net.pb"):
            yield path.parent
        elif path.suffix in SUFFIXES and not _is_data(path):
            yield path


def _is_data(path: Path) -> bool:
    return path.suffix == ".pb" and bool(re.search(r"(^|_)(in|out)put_|^init_net", path.stem))


def data_beside(path: Path) -> Data:
    """Return the inputs and the expected outputs that lie beside a model."""
    if path.suffix == ".onnx":
        sets = [_numbered(folder, "") for folder in sorted(path.parent.glob("test_data_set_*"))]
        sets.append(_numbered(path.parent.parent / "data", f"_{path.stem}"))
    elif path.suffix == ".tflite":
        sides = [sorted(path.parent.glob(f"{path.stem}_{side}*.npy")) for side in ("inp", "out_")]
        sets = [([_array(file) for file in sides[0]], [_array(file) for file in sides[1]])]
    else:
        sets = []
    return [(given, expected) for given, expected in sets if expected]


def _numbered(folder: Path, name: str) -> tuple[list[Any], list[Any]]:
    """Return the arrays of the inputs, input{name} or input{name}_0, input{name}_1, …, and of the outputs."""

    def arrays(side: str) -> list[Any]:
        pattern = re.compile(rf"{side}{re.escape(name)}(?:_(\d+))?\.(?:npy|pb)")
        found = {match[1]: file for file in folder.glob(f"{side}*") if (match := pattern.fullmatch(file.name))}
        # With a file without a number, NAME_1 is the data of another model, which is called so.
        return [_array(found[None])] if None in found else [_array(found[n]) for n in sorted(found, key=int)]

    return arrays("input"), arrays("output")


def _array(file: Path) -> Any:
    """Return the array in a file. A sequence is a list, and an optional that is absent is None."""
    if file.suffix == ".npy":
        return np.load(file)
    content = file.read_bytes()
    for kind, read in (
        (onnx.TensorProto, numpy_helper.to_array),
        (onnx.SequenceProto, numpy_helper.to_list),
        (onnx.OptionalProto, numpy_helper.to_optional),
    ):
        message = kind()
        try:
            message.ParseFromString(content)
            return read(message)  # type: ignore[operator]
        except Exception:
            continue
    raise ValueError(f"{file} is no tensor, sequence or optional")


def answer_to(path: str) -> Answer:
    """Convert a file; the answer's status is an outcome, and its text says why."""
    import convert
    from convert.errors import ConvertError, Unsupported

    source = Path(path)
    try:
        data = data_beside(source)
    except Exception as error:
        return Answer("error", f"the data beside the model: {type(error).__name__}: {error}")
    needed = {"inputs": data[0][0]} if data and source.suffix in NEED_INPUTS else {}
    try:
        with tempfile.TemporaryDirectory() as folder:
            target = Path(folder) / "converted.onnx"
            convert.convert(source, "onnx", target, verify=False, **needed)
            if not data:
                return Answer("converted")
            problem = next(filter(None, (_difference(target, *pair) for pair in data)), "")
            return Answer("wrong", problem) if problem else Answer("right")
    except Unsupported as error:
        return Answer("refused", str(error), problems=tuple((p.at.operator, p.why) for p in error.problems))
    except ConvertError as error:
        return Answer("refused", f"{error.code}: {error.message}")
    except Exception as error:
        return Answer("error", f"{type(error).__name__}: {error}"[:2000])


def _difference(target: Path, given: list[Any], expected: list[Any]) -> str:
    """Return in what the outputs of a converted model differ from the expected ones, or an empty text."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(target, options, providers=["CPUExecutionProvider"])
    names = [value.name for value in session.get_inputs()]
    if len(given) > len(names):
        return f"{len(names)} inputs instead of {len(given)}"
    made = session.run(None, dict(zip(names, given, strict=False)))
    if len(made) < len(expected):
        return f"{len(made)} outputs instead of {len(expected)}"
    for number, (ours, theirs) in enumerate(zip(made, expected, strict=False)):
        try:
            _assert_close(ours, theirs)
        except AssertionError as error:
            return f"output {number}: {' '.join(str(error).split())[:200]}"
    return ""


def _assert_close(ours: Any, theirs: Any) -> None:
    if isinstance(theirs, list):
        assert len(ours) == len(theirs), f"{len(ours)} elements instead of {len(theirs)}"
        for one, other in zip(ours, theirs, strict=True):
            _assert_close(one, other)
    elif theirs is None or np.asarray(theirs).dtype.kind in "OUS":
        np.testing.assert_array_equal(ours, theirs)
    else:
        assert np.shape(ours) == np.shape(theirs), f"shape {np.shape(ours)} instead of {np.shape(theirs)}"
        np.testing.assert_allclose(ours, theirs, RTOL, ATOL)


def causes(answer: Answer) -> list[str]:
    """Return why a file has its outcome: a text per operator that is refused, without names and numbers."""
    texts = [f"{operator}: {why}" for operator, why in answer.problems] or [answer.text]
    return sorted({re.sub(r"'[^']*'|\S*/\S*|\d+(\.\d+)?(e-?\d+)?", "…", text.split("\n")[0])[:160] for text in texts})


def table(answers: Sequence[tuple[str, Answer]]) -> str:
    """Return the tables: files by outcome, and files by cause, with the first file of each."""
    counts = Counter(answer.status for _, answer in answers)
    lines = ["| outcome | files |", "|---|---|", *(f"| {status} | {count} |" for status, count in counts.most_common())]
    found: dict[tuple[str, str], list[str]] = defaultdict(list)
    for name, answer in answers:
        for cause in causes(answer) if answer.status not in ("right", "converted") else ():
            found[answer.status, cause].append(name)
    lines += ["", "| outcome | cause | files | the first |", "|---|---|---|---|"]
    for (status, cause), names in sorted(found.items(), key=lambda row: (row[0][0], -len(row[1]))):
        lines.append(f"| {status} | {cause} | {len(names)} | {names[0]} |")
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the tables and return 1 if an outcome is a defect."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", default="", help="paths that contain this text")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--files", action="store_true", help="print a line per file")
    chosen = parser.parse_args(arguments)
    answers: list[tuple[str, Answer]] = []

    def done(name: str, answer: Answer) -> None:
        answers.append((name, answer))
        if chosen.files:
            print(f"{answer.status} {name} {' '.join(answer.text.split())[:300]}".rstrip(), flush=True)

    paths = list(model_paths(chosen.folder, chosen.only))
    requests = [(str(path.relative_to(chosen.folder)), (str(path),)) for path in paths]
    command = [sys.executable, "-m", "tests.suites.model_files", "--serve"]
    run_all(requests, chosen.jobs, {"PYTHONWARNINGS": "ignore"}, done, command)
    print(table(sorted(answers, key=lambda row: row[0])))
    return any(answer.status in ("wrong", "error", "crash") for _, answer in answers)


if __name__ == "__main__":
    if sys.argv[1:] == ["--serve"]:
        serve(answer_to)
    else:
        sys.exit(main())
