"""Measure the cost of a batch: a zoo with one job and with two, and one task in a warm and in a cold worker.

    python tests/benchmarks/batch.py [--models 24] [--rounds 2] [--tiny] [--no-verify] [--cold] [--only PART]

PART is zoo, tasks, driver or cluster:

- zoo: PyTorch networks with 0.2 to 2 million parameters (MobileNet V1 of several widths, VGG with batch norms,
  transformer encoders; with --tiny networks of a few layers), each to ONNX or to a SavedModel. `convert batch` runs
  over it with `--jobs 1` and `--jobs 2`. The table has wall seconds, CPU seconds of all processes, the start of the
  first task and the time of a task, all with the start of the warm processes, then the ratio of the throughputs. Each
  figure is the best of the rounds; the first round fills the page cache.
- tasks: CPU seconds of one task, by source and target: in a new interpreter (cold), and in a fork of a warm process.
  The start of the warm process is a line of its own.
- driver: the time that the process which drives a batch spends on each task. A large cluster waits for it.
- cluster: an ONNX file of two layers, copied `--models` times, from ONNX to ONNX on a Ray cluster that is started here
  with 4 workers. The overhead of a task is the time between the ends of the first and the last task, times the workers
  by the tasks, without the time that workers report: what engine and cluster add. Only this part needs Ray.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from clocks import record
from torch import nn

import convert
from convert.batch.fork_server_pool import fork_server_socket
from convert.batch.journal import Journal
from convert.batch.plan import Task
from convert.batch.processes import process_tree, task_memory
from convert.batch.task_key import compute_key, versions
from convert.batch.worker import SUCCESSES, run
from convert.processes.marks import new_mark

PAIRS = (("onnx", "onnx"), ("onnx", "tf"), ("pt", "onnx"), ("pt", "tf"), ("pt", "caffe2"))

SIZE = 64
"""Height and width of the pictures that the zoo's networks take."""


def tiny(i: int) -> tuple[nn.Module, str]:
    """Return a network of a few layers and the dims of its input; every third network is dense."""
    width = 8 + 4 * (i % 5)
    if i % 3 == 2:
        layers = [m for _ in range(2 + i % 4) for m in (nn.Linear(width, width), nn.GELU(), nn.LayerNorm(width))]
        return nn.Sequential(*layers, nn.Linear(width, 5)), f"batch,{width}"
    layers = [m for _ in range(1 + i % 4) for m in (nn.Conv2d(width, width, 3, padding=1), nn.ReLU())]
    return nn.Sequential(*block(3, width, 2), *layers, *head(width)), "batch,3,32,32"


def small(i: int) -> tuple[nn.Module, str]:
    """Return a network of one of the zoo's three kinds, and the dims of its input."""
    if i % 3 == 0:
        return mobilenet(8 + 2 * (i % 8)), f"batch,3,{SIZE},{SIZE}"
    if i % 3 == 1:
        return vgg(12 + 2 * (i % 8)), f"batch,3,{SIZE},{SIZE}"
    width = 64 + 16 * (i % 4)
    layer = nn.TransformerEncoderLayer(width, 4, 4 * width, dropout=0.0, activation="gelu", batch_first=True)
    return nn.Sequential(nn.TransformerEncoder(layer, 3 + i % 3), nn.LayerNorm(width), nn.Linear(width, 10)), (
        f"batch,16,{width}"
    )


def mobilenet(width: int) -> nn.Module:
    """Thirteen pairs of a depthwise and a pointwise convolution (https://arxiv.org/abs/1704.04861, table 1)."""
    channels = [width * n for n in (1, 2, 4, 4, 8, 8, *(16,) * 6, 32, 32)]
    layers = block(3, width, 2)
    for n, (before, after) in enumerate(pairwise(channels)):
        layers += block(before, before, 2 if n in (1, 3, 5, 11) else 1, before) + block(before, after, 1, 1, 1)
    return nn.Sequential(*layers, *head(channels[-1]))


def vgg(width: int) -> nn.Module:
    """Eight convolutions with batch norms (https://arxiv.org/abs/1409.1556, table 1, column A)."""
    channels = [3, width, 2 * width, *(4 * width,) * 2, *(8 * width,) * 4]
    layers: list[nn.Module] = []
    for n, (before, after) in enumerate(pairwise(channels)):
        layers += block(before, after) + ([nn.MaxPool2d(2)] if n in (0, 1, 3, 5, 7) else [])
    return nn.Sequential(*layers, *head(channels[-1]))


def block(before: int, after: int, stride: int = 1, groups: int = 1, size: int = 3) -> list[nn.Module]:
    """A convolution, its batch norm and ReLU."""
    convolution = nn.Conv2d(before, after, size, stride, size // 2, groups=groups, bias=False)
    return [convolution, nn.BatchNorm2d(after), nn.ReLU()]


def head(channels: int) -> list[nn.Module]:
    """Return the last layers, from images to ten numbers."""
    return [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, 10)]


def network(i: int, make: Callable[[int], tuple[nn.Module, str]] = tiny) -> tuple[nn.Module, str]:
    """Return a network of the zoo in eval mode.

    Its batch norms are calibrated, else the output hardly depends on the input.
    """
    torch.manual_seed(i)
    module, dims = make(i)
    for part in module.modules():
        if isinstance(part, nn.BatchNorm2d):
            part.momentum = 1.0
    with torch.no_grad():
        module.train()(torch.randn(8, *map(int, dims.split(",")[1:])))
    return module.eval(), dims


def write(folder: Path, count: int, verify: bool, make: Callable[[int], tuple[nn.Module, str]]) -> Path:
    """Write the models and their manifest."""
    rows = [f"[defaults]\nverify = {str(verify).lower()}\n"]
    for i in range(count):
        module, dims = network(i, make)
        torch.save(module, folder / f"{i}.pt")
        form = "tf" if i % 2 else "onnx"
        rows.append(f'[[models]]\nsource = "{i}.pt"\nto = "{form}"\ninput = ["input:float32[{dims}]"]\n')
    (folder / "zoo.toml").write_text("\n".join(rows))
    return folder / "zoo.toml"


def zoo(count: int, rounds: int, verify: bool, cold: bool, make: Callable[[int], tuple[nn.Module, str]]) -> None:
    """Measure one job and two jobs, and print how many times faster two are."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        manifest = write(folder, count, verify, make)
        best = {1: float("inf"), 2: float("inf")}
        for number in range(rounds):
            for jobs in best:
                out = folder / f"out{number}{jobs}"
                command = [sys.executable, "-m", "convert", "batch", str(manifest), "-o", str(out),
                           "--jobs", str(jobs), "-q", *(["--cold"] if cold else [])]  # fmt: skip
                began = time.time()
                wall, cpu = timed(lambda command=command: subprocess.run(command, check=True))
                best[jobs] = min(best[jobs], wall)
                print(
                    f"{count} models, {jobs} job(s): {wall:.1f} s, {cpu:.1f} CPU s; {journal(out, began)}", flush=True
                )
        how = f"{make.__name__}, {'cold' if cold else 'warm'}, {'verified' if verify else 'not verified'}"
        record(f"{count} models, {how}", "wall time of a batch with two jobs", "s", best[2], best[1], "one job")
        print(f"two jobs ({how}): {best[1] / best[2]:.2f} times the throughput of one on {os.cpu_count()} cores")


def journal(out: Path, began: float) -> str:
    """Return the start of the first task and the time of all tasks."""
    records = [json.loads(line) for line in (out / "journal.jsonl").read_text().splitlines()]
    first = min(r["time"] for r in records) - began
    seconds = [r["seconds"] for r in records if r["event"] == "ended"]
    return f"the first task after {first:.1f} s, {sum(seconds) / len(seconds):.2f} s each"


def tasks(verify: bool) -> None:
    """Print CPU seconds of one task of each pair, cold and in the second of two forks, then those of the warm start."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        torch.save(network(0)[0], folder / "net.pt")
        spec = "input:float32[batch,3,32,32]"
        subprocess.run([sys.executable, "-m", "convert", str(folder / "net.pt"), "--input", spec, "-o",
                        str(folder / "net.onnx"), "--no-verify", "-q"], check=True)  # fmt: skip

        def one(source: str, form: str, address: str) -> None:
            options: dict[str, Any] = {"input": [spec]} if source == "pt" else {}
            if not verify:
                options["verify"] = False
            path = folder / f"net.{source}"
            ending = run(Task("net", path, form, folder / f"out-{source}.{form}", options), None, address)
            assert ending.outcome in SUCCESSES, (source, form, ending.reason)

        cold = {pair: timed(lambda pair=pair: one(*pair, ""))[1] for pair in PAIRS}

        print(f"{'pair':<14} {'cold':>6} {'warm':>6}   CPU s a task, {'verified' if verify else 'not verified'}")
        before = _children()
        with fork_server_socket(("onnx", "torch-module"), ("onnx", "tf", "caffe2")) as address:
            assert address
            (warm,) = process_tree(os.getpid())[1:]
            for pair in PAIRS:
                one(*pair, address)
                start = _reaped(warm)
                one(*pair, address)
                spent = _reaped(warm) - start
                record("→".join(pair), "CPU time of a task in a warm worker", "s", spent, cold[pair], "a cold one")
                print(f"{'→'.join(pair):<14} {cold[pair]:>6.2f} {spent:>6.2f}", flush=True)
            forks = _reaped(warm)
        print(f"start of the warm process: {_children() - before - forks:.1f} CPU s")


def driver() -> None:
    """Measure the time that the process which drives a batch spends on each task."""
    with tempfile.TemporaryDirectory() as place:
        folder, count, size = Path(place), 200, 256 << 20
        (folder / "small.onnx").write_bytes(b"\x08\x0a")
        (folder / "large.onnx").write_bytes(bytes(size))
        by = versions()
        task, large = (Task(n, folder / f"{n}.onnx", "onnx", folder / n) for n in ("small", "large"))
        _print("its key", lambda: [compute_key(task, by) for _ in range(count)], count, 1e3, "ms of CPU a task")
        _print("its key", lambda: compute_key(large, by), size, 1e9, "ns of CPU for each byte of the source")

        def note() -> None:
            with Journal(folder) as journal:
                for _ in range(count):
                    journal.started("key", task.output)
                    journal.end({"key": "key", "outcome": "converted"}, task.output)

        start = time.monotonic()
        note()
        print(f"its lines in the journal: {(time.monotonic() - start) / count * 1e3:.3g} ms of wall time a task")
        mark = "0" * len(new_mark())
        _print(
            "looks at it", lambda: [task_memory(os.getpid(), mark) for _ in range(count)], count, 1e3, "ms of CPU each"
        )


WORKERS = 4
"""Workers of the cluster."""


def cluster(count: int, verify: bool) -> None:
    """Run small tasks on a Ray cluster that is started for them, and print what each of them costs beyond its work."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        layers = nn.Sequential(nn.Linear(8, 8), nn.ReLU())
        torch.save(layers, folder / "net.pt")
        convert.convert(folder / "net.pt", "onnx", folder / "net.onnx", inputs=["input:float32[batch,8]"], verify=False)
        rows = [f"[defaults]\nverify = {str(verify).lower()}\n"]
        for i in range(count):
            shutil.copyfile(folder / "net.onnx", folder / f"{i}.onnx")
            rows.append(f'[[models]]\nsource = "{i}.onnx"\nto = "onnx"\n')
        (folder / "zoo.toml").write_text("\n".join(rows))
        share = str((os.cpu_count() or 1) / WORKERS)
        command = [sys.executable, "-m", "convert", "batch", str(folder / "zoo.toml"), "-o", str(folder / "out"),
                   "--engine", "ray", "--cpus", share, "-q"]  # fmt: skip
        wall, _ = timed(lambda: subprocess.run(command, check=True))
        records = [json.loads(line) for line in (folder / "out" / "journal.jsonl").read_text().splitlines()]
    ended = [r for r in records if r["event"] == "ended"]
    first, last = min(r["time"] for r in ended), max(r["time"] for r in ended)
    work = sum(r["seconds"] for r in ended) / len(ended)
    each = (last - first) * WORKERS / (len(ended) - 1)
    began, case = min(r["time"] for r in records), f"{count} small tasks, {WORKERS} workers"
    record(case, "overhead of a task on a Ray cluster", "s", each - work, 0.3, "0.3 s")
    print(f"{case}: {wall:.1f} s, the first end after {first - began:.1f} s")
    print(f"a task: {each:.3f} s of a worker's time, of which it works {work:.3f}, overhead {each - work:.3f}")


def _print(what: str, work: Callable[[], object], count: int, unit: float, text: str) -> None:
    start = time.process_time()
    work()
    print(f"{what}: {(time.process_time() - start) / count * unit:.3g} {text}", flush=True)


def _reaped(pid: int) -> float:
    """Return CPU seconds of all ended descendants of a process."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[13]) + int(fields[14])) / os.sysconf("SC_CLK_TCK")


def timed(work: Callable[[], object]) -> tuple[float, float]:
    """Return wall seconds, and CPU seconds of all child processes."""
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
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--tiny", action="store_true", help="networks of a few layers")
    parser.add_argument("--verify", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--cold", action="store_true")
    parser.add_argument("--only", choices=["zoo", "tasks", "driver", "cluster"])
    args = parser.parse_args()
    if args.only in (None, "zoo"):
        zoo(args.models, args.rounds, args.verify, args.cold, tiny if args.tiny else small)
    if args.only in (None, "tasks"):
        tasks(args.verify)
    if args.only in (None, "driver"):
        driver()
    if args.only == "cluster":
        cluster(args.models, args.verify)


if __name__ == "__main__":
    main()
