"""Measure the conversion of a large ONNX file to every format that can hold it, beside a copy of its weights.

    python tests/benchmarks/large.py [--gigabytes 6] [--to onnx tf …] [--folder DIR]

The model is a stack of square matrices. Each conversion is a new process that first converts a tiny model to the same
format, so that imports are not counted; nothing is verified. The copy is made in Python, which leaves it to the kernel,
and is measured again before each conversion. Both write to the disk before the clock stops. `private` is the peak of
memory that belongs to no file, above that at the start; the system can drop pages of mapped files. The folder needs
space for the model twice.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import tempfile
import time
from pathlib import Path

import scaling
from clocks import child, measured, record
from language_models import private_memory

TARGETS = ("onnx", "tf", "torch", "torch-script", "torch-code", "keras", "caffe2", "openvino")
"""Formats without a limit of 2 GB, which frozen graphs and TensorFlow Lite have."""


def convert_one(target: str, source: Path, small: Path, folder: Path) -> dict[str, float]:
    """Convert the small model, then the large one; return CPU and wall seconds, and MiB of private memory."""
    import convert
    from convert.plugin import formats

    suffix = formats()[target].suffix
    convert.convert(small, target, folder / f"small{suffix}", verify=False)
    with measured() as found, private_memory(found):
        start = time.monotonic()
        convert.convert(source, target, folder / f"large{suffix}", verify=False)
        found["wall"] = time.monotonic() - start
    return found


def copy(source: Path, to: Path) -> dict[str, float]:
    """Copy the model, and return CPU and wall seconds."""
    with measured() as found:
        start = time.monotonic()
        for path in sorted(source.parent.glob(f"{source.stem}*")):
            shutil.copyfile(path, to / path.name)
            with (to / path.name).open("rb") as file:
                os.fsync(file)
        found["wall"] = time.monotonic() - start
    return found


def main() -> None:
    """Print a row for each format."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gigabytes", type=float, default=6)
    parser.add_argument("--to", nargs="+", choices=TARGETS, default=list(TARGETS))
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--one", nargs=4, help=argparse.SUPPRESS)
    parser.add_argument("--make", nargs=2, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.one:
        print(json.dumps(convert_one(args.one[0], *map(Path, args.one[1:]))))
        return
    if args.make:
        scaling.make("onnx", 0, int(args.make[0]), Path(args.make[1]))
        print("{}")
        return
    count = round(args.gigabytes * 1e9 / (4 * scaling.WIDTH**2))
    columns = ("CPU s", "wall s", "copy CPU s", "copy wall s", "CPU ratio", "wall ratio", "private/weights")
    print(f"{'to':<12} " + " ".join(f"{column:>11}" for column in columns))
    with tempfile.TemporaryDirectory(dir=args.folder) as name:
        folder = Path(name)
        source, small = folder / "large.onnx", folder / "small.onnx"
        for matrices, path in ((count, source), (4, small)):
            child(__file__, "--make", str(matrices), str(path))
        for target in args.to:
            row(target, source, small, count * 4 * scaling.WIDTH**2)


def row(target: str, source: Path, small: Path, weights: int) -> None:
    """Measure one format and print its row."""
    with tempfile.TemporaryDirectory(dir=source.parent) as out:
        beside = copy(source, Path(out))
    with tempfile.TemporaryDirectory(dir=source.parent) as out:
        try:
            found = child(__file__, "--one", target, str(source), str(small), out)
        except SystemExit as error:
            print(f"{target:<12} failed: {str(error).strip().splitlines()[-1][:150]}", flush=True)
            return
    private = found["private"] * 2**20 / weights
    case = f"onnx → {target}, {weights / 1e9:.1f} GB"
    record(case, "CPU time of a conversion", "s", found["seconds"], beside["seconds"], "a copy")
    record(case, "peak of private memory", "of the weights", private)
    figures = [found["seconds"], found["wall"], beside["seconds"], beside["wall"]]
    figures += [figures[0] / figures[2], figures[1] / figures[3], private]
    print(f"{target:<12} " + " ".join(f"{figure:>11.3g}" for figure in figures), flush=True)


if __name__ == "__main__":
    main()
