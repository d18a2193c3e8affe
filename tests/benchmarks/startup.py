"""Measure a small conversion beside the imports that it needs: wall and CPU seconds.

    python tests/benchmarks/startup.py [--rounds 3]

`convert` runs as in a shell, on the trained network of fixtures/, with verification. Each figure is the least of the
rounds, the commands in turn. The project's bytecode is written first, as pip does: the confined worker of a command
cannot write it, and compiling its 330 modules takes 0.6 s of CPU time each time. Then a program converts four times,
and the wall time of each conversion is printed.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from clocks import record

MODEL = Path(__file__).resolve().parents[2] / "fixtures" / "mnist_cnn.pt"
IMPORTS = ("click", "torch", "tensorflow", "onnxruntime")
CONVERT = {
    "to tf": [str(MODEL), "--to", "tf", "-o", "out.savedmodel", "--force"],
    "to tf, not verified": [str(MODEL), "--to", "tf", "-o", "out.savedmodel", "--force", "--no-verify"],
    "to tflite": [str(MODEL), "--to", "tflite", "-o", "out.tflite", "--force"],
    "to onnx": [str(MODEL), "--to", "onnx", "-o", "out.onnx", "--force"],
    "to onnx, not verified": [str(MODEL), "--to", "onnx", "-o", "out.onnx", "--force", "--no-verify"],
    "verify onnx onnx": ["verify", "out.onnx", "out.onnx"],
    "formats": ["formats"],
    "--help": ["--help"],
    "a usage error": ["model.pt", "--to", "nothing"],
}
PROGRAM = """
import sys, time
import convert
for turn in range(4):
    start = time.monotonic()
    convert.convert(sys.argv[1], "tf", "program.savedmodel", force=True)
    print(time.monotonic() - start)
"""


def seconds(command: list[str], folder: str) -> tuple[float, float]:
    """Return wall and CPU seconds of a command and its descendants."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    subprocess.run(command, cwd=folder, env=environment, check=False, capture_output=True)
    wall, after = time.monotonic() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def write_bytecode() -> None:
    """Compile the modules of the project, as the installation of a package does."""
    root = Path(__file__).resolve().parents[2]
    places = [str(root / name) for name in ("convert", "frontends", "backends")]
    subprocess.run([sys.executable, "-m", "compileall", "-q", *places], check=True)


def main() -> None:
    """Print a row for each command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    rounds = parser.parse_args().rounds
    commands = {f"import {name}": [sys.executable, "-c", f"import {name}"] for name in IMPORTS}
    commands |= {name: [sys.executable, "-m", "convert", *words] for name, words in CONVERT.items()}
    print(f"{'command':<24} {'wall s':>7} {'CPU s':>7}")
    write_bytecode()
    with tempfile.TemporaryDirectory() as folder:
        program = [sys.executable, "-c", PROGRAM, str(MODEL)]
        found = subprocess.run(program, cwd=folder, check=True, capture_output=True, text=True)
        turns = [float(line) for line in found.stdout.split()]
        taken = [{name: seconds(command, folder) for name, command in commands.items()} for _ in range(rounds)]
    for name in commands:
        wall, cpu = (min(row[name][i] for row in taken) for i in (0, 1))
        record(name, "wall time of a command", "s", wall)
        record(name, "CPU time of a command", "s", cpu)
        print(f"{name:<24} {wall:7.2f} {cpu:7.2f}", flush=True)
    for number, wall in enumerate(turns, 1):
        record(f"to tf, number {number} in a program", "wall time of a command", "s", wall)
        print(f"{f'number {number} in a program':<24} {wall:7.2f}", flush=True)


if __name__ == "__main__":
    main()
