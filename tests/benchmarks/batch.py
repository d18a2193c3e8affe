"""What a batch costs: a zoo of small models with one job and with two, and a task in a warm worker and in a cold one.

    python tests/benchmarks/batch.py [--models 24] [--no-verify] [--cold] [--only zoo|tasks]

The zoo is of convolutional and dense PyTorch networks of different sizes, each to ONNX or to a SavedModel. `convert
batch` runs over it with `--jobs 1` and `--jobs 2`: wall seconds and CPU seconds of all processes, start of the warm
process included, and the ratio of the throughputs. The second table is CPU seconds for one task, by pair: in a new
interpreter (cold), and in a fork of a warm process, whose own start is a line of its own.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import nn

from convert.batch.plan import Task
from convert.batch.processes import family
from convert.batch.warm import nursery
from convert.batch.worker import GOOD, run

PAIRS = (("onnx", "onnx"), ("onnx", "tf"), ("pt", "onnx"), ("pt", "tf"), ("pt", "caffe2"))


def network(i: int) -> nn.Module:
    """One of the zoo: every third is dense."""
    torch.manual_seed(i)
    width = 8 + 4 * (i % 5)
    if i % 3 == 2:
        layers = [m for _ in range(2 + i % 4) for m in (nn.Linear(width, width), nn.GELU(), nn.LayerNorm(width))]
        return nn.Sequential(*layers, nn.Linear(width, 5)).eval()
    layers = [m for _ in range(1 + i % 4) for m in (nn.Conv2d(width, width, 3, padding=1), nn.ReLU())]
    head = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, 10)]
    return nn.Sequential(nn.Conv2d(3, width, 3, 2, 1), nn.BatchNorm2d(width), nn.ReLU(), *layers, *head).eval()


def write(folder: Path, count: int, verify: bool) -> Path:
    """The models and their manifest."""
    rows = [f"[defaults]\nverify = {str(verify).lower()}\n"]
    for i in range(count):
        module = network(i)
        torch.save(module, folder / f"{i}.pt")
        shape = "batch,3,32,32" if isinstance(module[0], nn.Conv2d) else f"batch,{module[0].in_features}"
        form = "tf" if i % 2 else "onnx"
        rows.append(f'[[models]]\nsource = "{i}.pt"\nto = "{form}"\ninput = ["input:float32[{shape}]"]\n')
    (folder / "zoo.toml").write_text("\n".join(rows))
    return folder / "zoo.toml"


def zoo(count: int, verify: bool, cold: bool) -> None:
    """One job, two jobs, and how many times faster two are."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        manifest, walls = write(folder, count, verify), []
        for jobs in (1, 2):
            command = [sys.executable, "-m", "convert", "batch", str(manifest), "-o", str(folder / f"out{jobs}"),
                       "--jobs", str(jobs), "-q", *(["--cold"] if cold else [])]  # fmt: skip
            wall, cpu = timed(lambda command=command: subprocess.run(command, check=True, stdout=subprocess.DEVNULL))
            walls.append(wall)
            print(f"{count} models, {jobs} job(s): {wall:.1f} s, {cpu:.1f} CPU s", flush=True)
        how = f"{'cold' if cold else 'warm'}, {'verified' if verify else 'not verified'}"
        print(f"two jobs ({how}): {walls[0] / walls[1]:.2f} times the throughput of one on {os.cpu_count()} cores")


def tasks(verify: bool) -> None:
    """CPU seconds of one task of each pair, cold, and in the second of two forks; then those of the warm start."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        torch.save(network(0), folder / "net.pt")
        spec = "input:float32[batch,3,32,32]"
        subprocess.run([sys.executable, "-m", "convert", str(folder / "net.pt"), "--input", spec, "-o",
                        str(folder / "net.onnx"), "--no-verify", "-q"], check=True)  # fmt: skip

        def one(source: str, form: str, address: str) -> None:
            options: dict[str, Any] = {"input": [spec]} if source == "pt" else {}
            if not verify:
                options["verify"] = False
            path = folder / f"net.{source}"
            ending = run(Task("net", path, form, folder / f"out-{source}.{form}", options), None, address)
            assert ending.outcome in GOOD, (source, form, ending.reason)

        cold = {pair: timed(lambda pair=pair: one(*pair, ""))[1] for pair in PAIRS}

        print(f"{'pair':<14} {'cold':>6} {'warm':>6}   CPU s a task, {'verified' if verify else 'not verified'}")
        before = _children()
        with nursery(("onnx", "torch-module"), ("onnx", "tf", "caffe2")) as address:
            assert address
            (warm,) = family(os.getpid())[1:]
            for pair in PAIRS:
                one(*pair, address)
                start = _reaped(warm)
                one(*pair, address)
                print(f"{'→'.join(pair):<14} {cold[pair]:>6.2f} {_reaped(warm) - start:>6.2f}", flush=True)
            forks = _reaped(warm)
        print(f"start of the warm process: {_children() - before - forks:.1f} CPU s")


def _reaped(pid: int) -> float:
    """CPU seconds of the children that a process has waited for, and theirs."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[13]) + int(fields[14])) / os.sysconf("SC_CLK_TCK")


def timed(work: Callable[[], object]) -> tuple[float, float]:
    """Wall seconds, and CPU seconds of all child processes."""
    start, before = time.monotonic(), _children()
    work()
    return time.monotonic() - start, _children() - before


def _children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", type=int, default=24)
    parser.add_argument("--verify", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--cold", action="store_true")
    parser.add_argument("--only", choices=["zoo", "tasks"])
    args = parser.parse_args()
    if args.only != "tasks":
        zoo(args.models, args.verify, args.cold)
    if args.only != "zoo":
        tasks(args.verify)


if __name__ == "__main__":
    main()
