"""Working directories with modules, libraries and links that a conversion of a good model must not load."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

from convert.files.own_folders import folder_for
from tests.suites.hostile_files.case import FIXTURES, Canary, Case, file_name

GOOD = FIXTURES / "mnist_cnn.onnx"
TARGETS = ("onnx", "tf", "keras", "tflite", "caffe2", "torch", "torch-script", "torch-code", "tf-frozen")
MODULES = ("numpy", "onnx", "onnx_ir", "onnxruntime", "torch", "tensorflow", "keras", "h5py", "google", "json", "ssl",
           "caffe2", "sitecustomize", "usercustomize", "convert_rules", "conftest", "readline")  # fmt: skip
STARTED = ("convert", "convert.processes.child", "convert.processes.fork_server", "convert.batch.child",
           "convert.backends.tensorflow.lite.converter_process",
           "convert.frontends.tensorflow.runner.hdf5_check", "convert.frontends.jax.files.parse_check")  # fmt: skip
"""Modules that are run as programs: TensorFlow once took their names in the command line for a path."""
PLATFORM = b'\0S\\s":^p*L}__x86_64__=1\0'
"""Bytes by which TensorFlow recognizes a library of kernels."""


def _modules(folder: Path, canary: Canary) -> None:
    code = f"open({str(canary.marker)!r}, 'w').close()\n"
    for number, name in enumerate(MODULES):
        if number % 2:
            (folder / f"{name}.py").write_text(code)
        else:
            (folder / name).mkdir()
            (folder / name / "__init__.py").write_text(code)


def _kernels(folder: Path, canary: Canary) -> None:
    for name in STARTED:
        for place in (f"{name}/tensorflow/core/kernels", f"{name}.runfiles/org_tensorflow/tensorflow/core/kernels"):
            (folder / place).mkdir(parents=True)
            (folder / place / "libtfkernel_odd.so").write_bytes(b"\x7fELF" + bytes(60) + PLATFORM)


def _configurations(folder: Path, canary: Canary) -> None:
    for name in ("matplotlibrc", ".env", ".pdbrc", "pyvenv.cfg", "python311._pth", "setup.cfg", "pyproject.toml",
                 "convert.toml", ".keras/keras.json", ".npmrc", "odd.pth", ".condarc", "_ops.py.src"):  # fmt: skip
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(f"import os; open({str(canary.marker)!r}, 'w')\n")
    for name in ("_ops.py", "_classes.py", "model.onnx.data"):
        os.mkfifo(folder / name)


def _left_folders(folder: Path, canary: Canary) -> None:
    """Return folders as a killed run leaves them, with links to the user's files, which the cleanup must not move."""
    mine = canary.marker.parent / "mine"
    mine.mkdir(exist_ok=True)
    (mine / "key").touch()
    for name in ("key", "other"):
        left = folder_for(folder / name)
        left.mkdir()
        os.symlink(mine, left / "old")
    (folder / ".convert-0123456789abcdef").symlink_to(mine)


def _outputs(folder: Path, canary: Canary) -> None:
    """Return folders as a batch leaves them: a journal with invalid records, and links to the user's files."""
    mine = canary.marker.parent / "mine"
    mine.mkdir(exist_ok=True)
    (folder / "out").mkdir()
    ended = {"event": "ended", "key": "", "outcome": "\x1b[31m", "seconds": "x", "peak": [], "report": 5}
    lines = [json.dumps({**ended, "output": f"{name}.{target}"}) for name in ("onnx", "tf") for target in TARGETS]
    (folder / "out" / "journal.jsonl").write_text("\n".join([*lines, "[" * 100_000, '{"a":' * 100_000]))
    for target in TARGETS:
        os.symlink(mine / "key", folder / f"m.{target}")
        os.symlink(mine, folder / "out" / f"{target}.savedmodel")


KINDS: dict[str, Callable[[Path, Canary], None]] = {
    "modules": _modules,
    "libraries of kernels": _kernels,
    "configurations and pipes": _configurations,
    "folders of killed runs": _left_folders,
    "outputs of others": _outputs,
}


def folder_files(folder: Path, canary: Canary) -> Iterator[Case]:
    """Write each kind of folder for each target, with a good model, which lies in such a folder too."""
    for kind, fill in KINDS.items():
        here = folder / file_name(kind)
        here.mkdir()
        fill(here, canary)
        for target in TARGETS:
            path = here / f"{target}.onnx"
            shutil.copy(GOOD, path)
            yield Case(f"{kind}, to {target}", path, arguments=("--to", target, "-o", f"m.{target}"), here=here)
