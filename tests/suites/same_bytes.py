"""Check that the same model becomes the same bytes with any hash seed, folder, time and processor, in every format.

    python tests/suites/same_bytes.py [--sources …] [--variants …] [--seeds 1 2 3] [--processors …]

Each source is converted to each variant twice in a process, in folders with different names, for each seed in a process
of its own. The first seed is also run for each of `tests/support/processors.py`. The files that differ are printed.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

import convert
from convert import plugin
from convert.errors import Unsupported, UsageError

FIXTURES = Path(__file__).parents[2] / "fixtures"
sys.path.insert(0, str(FIXTURES.parent))

from tests.support.processors import PROCESSORS  # noqa: E402

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
    "constants": "",
    "parts": "",
}
"""Files of models; those of TensorFlow 1 have functions, whose names TensorFlow numbers, and layers that repeat.

`constants` is a traced module that computes with its weights alone, which is folded, and is made for this. So is
`parts`, an encoder with a decoder, which is written as three files.
"""

VARIANTS: dict[str, tuple[str, dict[str, Any]]] = {
    "onnx": ("onnx", {}),
    "onnx, external data": ("onnx", {}),
    "onnx, float16": ("onnx", {"dtype": "float16"}),
    "onnx, int8": ("onnx", {"quantize": "int8"}),
    "onnx, int4": ("onnx", {"quantize": "int4"}),
    "torch": ("torch", {}),
    "torch-script": ("torch-script", {}),
    "torch-code": ("torch-code", {}),
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

NAMES_FOLDER = ": names a folder of this machine"

Hashes = dict[str, dict[str, str]]
"""Hashes of the files of an output by source and variant, or the first line of the error."""


def hashes_of(output: Path) -> dict[str, str]:
    """Return the hashes of the files in and beside an output, by relative path."""
    files = sorted(p for p in output.parent.rglob("*") if p.is_file())
    return {p.relative_to(output.parent).as_posix(): hashlib.sha256(p.read_bytes()).hexdigest() for p in files}


def convert_all(sources: Sequence[str], variants: Sequence[str], folder: Path) -> Hashes:
    """Convert every source to every variant, each in a folder of its own in `folder`."""
    from convert.backends.onnx import writer

    found: Hashes = {}
    for source in sources:
        for variant in variants:
            form, options = VARIANTS[variant]
            parts = source == "parts"
            output = folder / f"{source} {variant}" / ("m" if parts else "m" + plugin.formats()[form].suffix)
            usual = writer.write_model.__kwdefaults__["limit"]
            if variant == "onnx, external data":
                writer.write_model.__kwdefaults__["limit"] = 0
            try:
                path = _made_source(source, folder)
                more: dict[str, Any] = {"calibrate": _samples(path)} if variant == "tflite, calibrated" else {}
                more |= {"task": "text2text-generation-with-past"} if parts else {}
                convert.convert(path, form, output, verify=False, **options, **more)
                found[f"{source} → {variant}"] = {
                    **hashes_of(output),
                    **{file + NAMES_FOLDER: "" for file in files_that_name(folder, output)},
                }
            except (Unsupported, UsageError) as error:
                found[f"{source} → {variant}"] = {"unsupported": error.message.splitlines()[0].replace(str(folder), "")}
            finally:
                writer.write_model.__kwdefaults__["limit"] = usual
    return found


def files_that_name(folder: Path, output: Path) -> list[str]:
    """Return the files of an output, or members of its archives, that contain its path or the source's."""
    wanted, found = str(folder).encode(), []
    for path in sorted(p for p in output.parent.rglob("*") if p.is_file()):
        contents = [path.read_bytes()]
        if zipfile.is_zipfile(path):
            with zipfile.ZipFile(path) as archive:
                contents += [archive.read(name) for name in archive.namelist()]
        if any(wanted in content or str(FIXTURES).encode() in content for content in contents):
            found.append(path.relative_to(output.parent).as_posix())
    return found


def _made_source(source: str, folder: Path) -> Path:
    made = {"parts": _encoder_with_decoder, "constants": _constants}
    return made[source](folder) if source in made else FIXTURES / SOURCES[source]


def _constants(folder: Path) -> Path:
    """Write a traced module with exact products and functions of its weights, once for `folder`."""
    import torch

    place = folder / "source" / "constants.pt"
    if place.exists():
        return place
    place.parent.mkdir(parents=True, exist_ok=True)
    i = torch.arange(1, 1025, dtype=torch.float64)
    weight = ((i * (i + 3) * 7919 % 10007) / 10007 - 0.5).float().reshape(32, 32)

    class Constants(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            w = torch.tanh(weight @ weight) + torch.softmax(weight, 1) + torch.exp(weight) + torch.erf(weight)
            return x @ (w + torch.sin(weight) + torch.pow(weight.abs() + 0.1, 1.7)) * torch.logsumexp(weight, 1)

    torch.jit.trace(Constants().eval(), torch.zeros(2, 32)).save(place)
    return place


def _encoder_with_decoder(folder: Path) -> Path:
    """Write a T5 of one layer as a Hugging Face folder, once for each `folder`."""
    place = folder / "source" / "t5"
    if not place.exists():
        import torch

        from tests.support.timm_helper import declare_torchvision_operators

        declare_torchvision_operators()
        import transformers

        torch.manual_seed(0)
        size = {"vocab_size": 50, "d_model": 16, "d_kv": 4, "d_ff": 16, "num_layers": 1, "num_heads": 2}
        config = transformers.T5Config(**size, decoder_start_token_id=0)
        transformers.T5ForConditionalGeneration(config).eval().save_pretrained(place)
    return place


def _samples(source: Path) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    found = {}
    for tensor in convert.inspect(source).inputs:
        shape = [size if isinstance(size, int) else 4 for size in tensor.shape or []]
        found[tensor.name] = rng.normal(size=shape).astype(tensor.dtype)
    return found


def compare(runs: Sequence[Hashes]) -> list[str]:
    """Return the files that differ between runs, or contain the path of one."""
    wrong = []
    for name in runs[0]:
        files = dict.fromkeys(file for run in runs for file in run[name])
        wrong += [f"{name}: {file}" for file in files if len({run[name].get(file) for run in runs}) > 1]
        wrong += [f"{name}: {file}" for file in files if file.endswith(NAMES_FOLDER)]
    return wrong


def run_in_process(
    seed: int, sources: Sequence[str], variants: Sequence[str], folder: Path, processor: str = "this one"
) -> list[Hashes]:
    """Run a process twice with this hash seed, and the settings of that processor."""
    name = f"{seed} {processor}"
    asked = json.dumps([list(sources), list(variants), str(folder / name), str(folder / "another place" / name)])
    variables = {"PYTHONHASHSEED": str(seed), "TF_CPP_MIN_LOG_LEVEL": "3", **PROCESSORS[processor]}
    done = subprocess.run(
        [sys.executable, __file__, "--child", asked],
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    runs: list[Hashes] = json.loads(done.stdout.splitlines()[-1])
    return runs


def main() -> None:
    """Print the differences; return 1 if there are any."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sources", nargs="+", choices=SOURCES, default=list(SOURCES))
    parser.add_argument("--variants", nargs="+", choices=VARIANTS, default=list(VARIANTS))
    parser.add_argument("--seeds", nargs="+", type=int, default=[1, 2, 3])
    parser.add_argument("--processors", nargs="+", choices=PROCESSORS, default=list(PROCESSORS))
    parser.add_argument("--child", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        sources, variants, *folders = json.loads(options.child)
        print(json.dumps([convert_all(sources, variants, Path(folder)) for folder in folders]))
        return
    runs: list[Hashes] = []
    with tempfile.TemporaryDirectory() as folder:
        rounds = [(seed, "this one") for seed in options.seeds]
        rounds += [(options.seeds[0], name) for name in options.processors if name != "this one"]
        for seed, processor in rounds:
            runs += run_in_process(seed, options.sources, options.variants, Path(folder), processor)
            far = f"{len(runs[-1])} outputs, {len(compare(runs))} files differ so far"
            print(f"seed {seed}, {processor}: {far}", flush=True)
    for name, files in runs[0].items():
        if "unsupported" in files:
            print(f"not written: {name}: {files['unsupported']}")
    wrong = compare(runs)
    print("\n".join([*wrong, f"{len(wrong)} files differ"]))
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
