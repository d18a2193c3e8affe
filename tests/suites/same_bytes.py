"""Whether the same model is the same bytes: any hash seed, any folder, any time, in every format and variant of one.

`python tests/suites/same_bytes.py [--sources …] [--variants …] [--seeds 1 2 3]` converts each source to each variant,
twice in a process, in folders of other names, for each seed in a process of its own, and prints the files that differ.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

import convert
from convert import plugin
from convert.errors import Unsupported

FIXTURES = Path(__file__).parents[2] / "fixtures"

SOURCES = {
    "onnx": "mnist_cnn.onnx",
    "export": "mnist_cnn.pt2",
    "module": "super_resolution.pt",
    "script": "mnist_cnn_scripted.pt",
    "savedmodel": "mnist_cnn.savedmodel",
    "keras": "mnist_cnn.keras",
    "loops": "tensorflow1/bidirectional.pb",
    "cells": "tensorflow1/stacked_lengths.pb",
    "branches": "tensorflow1/cond.pb",
}
"""Files of models; those of TensorFlow 1 have functions, whose names TensorFlow numbers, and layers that repeat."""

VARIANTS: dict[str, tuple[str, dict[str, Any]]] = {
    "onnx": ("onnx", {}),
    "onnx, external data": ("onnx", {}),
    "tf": ("tf", {}),
    "tf, constants": ("tf", {"weights": "constants"}),
    "tf-frozen": ("tf-frozen", {}),
    "keras": ("keras", {}),
    "tflite": ("tflite", {}),
    "tflite, float16": ("tflite", {"dtype": "float16"}),
    "tflite, int8": ("tflite", {"quantize": "int8"}),
    "tflite, calibrated": ("tflite", {"quantize": "int8"}),
    "caffe2": ("caffe2", {}),
    "caffe2, metanet": ("caffe2", {"caffe2_layout": "metanet"}),
    "caffe2, mobile": ("caffe2", {"caffe2_layout": "mobile"}),
}
"""Format and options."""

Hashes = dict[str, dict[str, str]]
"""Of each file of an output, by the names of source and variant; or the first line of why there is none."""


def hashes_of(output: Path) -> dict[str, str]:
    """The files beside and in an output, by their names from its folder on."""
    files = sorted(p for p in output.parent.rglob("*") if p.is_file())
    return {p.relative_to(output.parent).as_posix(): hashlib.sha256(p.read_bytes()).hexdigest() for p in files}


def convert_all(sources: Sequence[str], variants: Sequence[str], folder: Path) -> Hashes:
    """Every source in every variant, each in a folder of its own in `folder`."""
    from convert.backends.onnx import writer

    found: Hashes = {}
    for source in sources:
        for variant in variants:
            form, options = VARIANTS[variant]
            output = folder / f"{source} {variant}" / ("m" + plugin.formats()[form].suffix)
            usual = writer.write_model.__kwdefaults__["limit"]
            if variant == "onnx, external data":
                writer.write_model.__kwdefaults__["limit"] = 0
            try:
                path = FIXTURES / SOURCES[source]
                more = {"calibrate": _samples(path)} if variant == "tflite, calibrated" else {}
                convert.convert(path, form, output, verify=False, **options, **more)
                found[f"{source} → {variant}"] = hashes_of(output)
            except Unsupported as error:
                found[f"{source} → {variant}"] = {"unsupported": error.message.splitlines()[0]}
            finally:
                writer.write_model.__kwdefaults__["limit"] = usual
    return found


def _samples(source: Path) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    found = {}
    for tensor in convert.inspect(source).inputs:
        shape = [size if isinstance(size, int) else 4 for size in tensor.shape or []]
        found[tensor.name] = rng.normal(size=shape).astype(tensor.dtype)
    return found


def compare(runs: Sequence[Hashes]) -> list[str]:
    """The files that are not the same in all runs."""
    wrong = []
    for name in runs[0]:
        files = dict.fromkeys(file for run in runs for file in run[name])
        wrong += [f"{name}: {file}" for file in files if len({run[name].get(file) for run in runs}) > 1]
    return wrong


def run_in_process(seed: int, sources: Sequence[str], variants: Sequence[str], folder: Path) -> list[Hashes]:
    """Two runs of a process with this hash seed."""
    asked = json.dumps(
        [list(sources), list(variants), str(folder / f"{seed}"), str(folder / "another place" / f"{seed}")]
    )
    done = subprocess.run(
        [sys.executable, __file__, "--child", asked],
        env={**os.environ, "PYTHONHASHSEED": str(seed), "TF_CPP_MIN_LOG_LEVEL": "3"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    runs: list[Hashes] = json.loads(done.stdout.splitlines()[-1])
    return runs


def main() -> None:
    """Print what differs; exit code 1 if anything does."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sources", nargs="+", choices=SOURCES, default=list(SOURCES))
    parser.add_argument("--variants", nargs="+", choices=VARIANTS, default=list(VARIANTS))
    parser.add_argument("--seeds", nargs="+", type=int, default=[1, 2, 3])
    parser.add_argument("--child", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        sources, variants, *folders = json.loads(options.child)
        print(json.dumps([convert_all(sources, variants, Path(folder)) for folder in folders]))
        return
    runs: list[Hashes] = []
    with tempfile.TemporaryDirectory() as folder:
        for seed in options.seeds:
            runs += run_in_process(seed, options.sources, options.variants, Path(folder))
            print(f"seed {seed}: {len(runs[-1])} outputs, {len(compare(runs))} files differ so far", flush=True)
    for name, files in runs[0].items():
        if "unsupported" in files:
            print(f"not written: {name}: {files['unsupported']}")
    wrong = compare(runs)
    print("\n".join([*wrong, f"{len(wrong)} files differ"]))
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
