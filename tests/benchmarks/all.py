"""Run the benchmarks and write one table as Markdown and JSON, with a peer's figure next to each of ours.

    python tests/benchmarks/all.py [--minutes 60] [--only startup capture …] [--output DIR]
                                   [--tf2onnx PYTHON] [--onnx2tf PYTHON] [--optimum PYTHON]

The scripts run one after another. Each gets arguments that limit its work, and a share of the time that is left. A
script that exceeds its share is ended and keeps the figures that it has; time that a script does not use goes to the
others. Scripts that did not finish, or whose peer has no environment, are listed below the table.

PYTHON is the interpreter of an environment with that peer. All figures are of this machine, and the figures of a row
are of one run. `benchmarks.md`, which begins with a summary to quote, and `benchmarks.json` are written into DIR, again
after each script.

Each peer needs an environment of its own, because they ask for different versions of the frameworks:

    pip install tf2onnx
    pip install onnx2tf tf_keras
    pip install "optimum[onnx]"
"""

from __future__ import annotations

import argparse
import contextlib
import fnmatch
import json
import os
import platform
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

from clocks import RECORDS

HERE = Path(__file__).resolve().parent
_GRAPHS = ["onnxruntime", "tf", "tf-frozen", "tf-frozen session", "twin frozen"]
SCRIPTS: dict[str, tuple[float, list[str]]] = {
    "startup": (6, ["--rounds", "1"]),
    "capture": (11, ["--rounds", "1", "--models", "resnet50", "bert", "vit"]),
    "verification": (5, ["--models", "mnist", "lstm", "bert-tiny", "mobilenetv2", "resnet50"]),
    "latency": (16, ["--rounds", "1", "--runs", "9", "--graphs", *_GRAPHS]),
    "onnx_peers": (12, []),
    "lite": (6, []),
    "torch_programs": (4, ["--batches", "1", "--runs", "10"]),
    "reader": (3, ["--rounds", "1", "--networks", "ResNet50", "MobileNetV2"]),
    "savedmodel": (3, ["--rounds", "1", "--networks", "resnet50"]),
    "exporters": (5, ["--only", "gpt2", "llama", "t5", "bert"]),
    "batch": (5, ["--models", "12", "--rounds", "1", "--only", "zoo"]),
    "scaling": (5, ["--nodes", "1000", "10000", "--gigabytes", "0.1", "1", "--from", "onnx", "--to", "onnx", "tf"]),
    "large": (3, ["--gigabytes", "1", "--to", "onnx", "tf", "torch", "torch-script"]),
    "narrow": (2, ["--runs", "10"]),
    "caffe2": (2, ["--runs", "5"]),
    "localize": (2, []),
    "kernels": (4, ["--runs", "10"]),
    "exact_forms": (2, ["--runs", "10"]),
    "channels": (1, ["--rounds", "10"]),
    "norms": (2, []),
    "variables": (5, ["--batches", "1"]),
    "language_models": (3, ["--billions", "2"]),
}
"""The share of each script and the arguments that limit its time; the scripts that matter most to users come first.

TensorFlow graphs under `jit_compile=True` are left to `latency.py`: networks with depthwise convolutions take 12 to 20
times as long there, and would use up the time of the others.
"""
PEERS = {
    "onnx_peers": "tf2onnx",
    "lite": "onnx2tf",
    "reader": "tf2onnx",
    "savedmodel": "onnx2tf",
    "exporters": "optimum",
}
ALONE = {"onnx_peers", "lite", "exporters"}
"""Scripts that print rows even without the environment of their peer."""

SUMMARY = (
    ("Commands, seconds of wall time", "startup", "wall time of a command", "", ""),
    ("PyTorch → ONNX, CPU time", "capture", "CPU time of PyTorch → ONNX", "torch.onnx", ""),
    ("SavedModel → ONNX, CPU time", "reader", "CPU time of SavedModel → ONNX", "tf2onnx", ""),
    ("PyTorch → SavedModel, CPU time", "savedmodel", "CPU time of PyTorch → SavedModel", "onnx2tf", ""),
    ("ONNX from PyTorch, a run", "onnx_peers", "CPU time of a run in ONNX Runtime", "torch.onnx", ""),
    ("ONNX from TensorFlow, a run", "onnx_peers", "CPU time of a run in ONNX Runtime", "tf2onnx", ""),
    ("frozen TensorFlow with oneDNN, a run", "latency", "CPU time of a run", "onnxruntime", "tf-frozen, *oneDNN 1"),
    ("frozen TensorFlow without oneDNN, a run", "latency", "CPU time of a run", "twin frozen", "tf-frozen, *oneDNN 0"),
    ("TensorFlow Lite, a run", "lite", "CPU time of a run in LiteRT", "onnx2tf", ""),
    ("TensorFlow Lite, a run", "lite", "CPU time of a run in LiteRT", "TensorFlow's converter", ""),
)
"""The lines of the summary: text, benchmark, measure, peer, and a pattern of the cases."""

PACKAGES = ("torch", "tensorflow", "keras", "onnx", "onnxruntime", "numpy")


def processor() -> str:
    """Return the processor's name, the number of cores, and the instruction sets by which kernels are chosen."""
    lines = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    fields = dict(line.split(":", 1) for line in reversed(lines) if ":" in line)
    known = {name.strip(): value for name, value in fields.items()}
    flags = [f for f in ("avx2", "avx512f", "avx512_vnni", "amx_tile") if f in known.get("flags", "").split()]
    return f"{known.get('model name', platform.machine()).strip()}, {os.cpu_count()} cores, {' '.join(flags)}"


def versions() -> dict[str, str]:
    """Return the versions of Python and of the packages that the figures depend on."""
    return {"python": platform.python_version()} | {name: metadata.version(name) for name in PACKAGES}


def run(name: str, words: list[str], seconds: float) -> tuple[str, list[dict[str, Any]]]:
    """Run one script; return an error text, empty if there is none, and the figures that it recorded."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder, "records")
        environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"} | {RECORDS: str(place)}
        command = [sys.executable, str(HERE / f"{name}.py"), *words]
        with Path(folder, "errors").open("w+") as errors:
            # A session of its own, so that its child processes are ended with it.
            started = subprocess.Popen(command, env=environment, stderr=errors, start_new_session=True)
            try:
                code = started.wait(seconds)
                errors.seek(0)
                lines = errors.read().strip().splitlines() or [""]
                wrong = f"ended with {code}: {lines[-1][:200]}" if code else ""
            except subprocess.TimeoutExpired:
                wrong = f"was ended after {seconds:.0f} s, its share"
            finally:
                _end(started)
        records = [json.loads(line) for line in place.read_text().splitlines()] if place.exists() else []
    return wrong, [{"benchmark": name, **row} for row in records]


def _end(started: subprocess.Popen) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(started.pid, signal.SIGKILL)
    started.wait()


def summary(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return a line for each entry of `SUMMARY`: geometric mean, minimum, maximum and number of its ratios."""
    lines = []
    for what, benchmark, measure, peer, pattern in SUMMARY:
        found = [
            row
            for row in rows
            if (row["benchmark"], row["measure"], row["against"]) == (benchmark, measure, peer)
            and fnmatch.fnmatch(row["case"], f"*{pattern}*")
        ]
        if not peer:
            told = ", ".join(f"{row['case']} {row['ours']:.2f}" for row in found if row["ours"] is not None)
            lines.append(f"- {what}: {told or 'not measured'}")
            continue
        ratios = {row["case"]: row["ours"] / row["other"] for row in found if row["ours"] and row["other"]}
        if not ratios:
            lines.append(f"- {what}, against {peer}: not measured")
            continue
        worst = max(ratios, key=lambda case: ratios[case])
        told = f"{statistics.geometric_mean(ratios.values()):.2f} × {peer}"
        ends = f"{min(ratios.values()):.2f} to {ratios[worst]:.2f}, the most with {worst}"
        lines.append(f"- {what}: {told} ({len(ratios)} of {len(found)}; {ends})")
    return lines


def markdown(found: Mapping[str, Any]) -> str:
    """Return the table, below the machine and the versions that it was measured with."""
    made = ", ".join(f"{name} {version}" for name, version in found["versions"].items())
    text = [f"# Benchmarks, {found['date']}", "", f"{found['processor']}; {made}; {found['minutes']:.0f} minutes.", ""]
    text += ["Ours as a multiple of a peer's, each from one run; the geometric mean, how many cases, and the ends:", ""]
    text += [*summary(found["rows"]), ""]
    text += ["| benchmark | case | measure | ours | other | ratio | against |", "|---|---|---|---|---|---|---|"]
    for row in found["rows"]:
        failed = "failed" if row["against"] else ""
        ours, other = (f"{row[k]:.3g} {row['unit']}" if row[k] is not None else failed for k in ("ours", "other"))
        ratio = f"{row['ours'] / row['other']:.2f}" if row["other"] and row["ours"] else ""
        cells = (row["benchmark"], row["case"], row["measure"], ours, other, ratio, row["against"])
        text.append(f"| {' | '.join(cells)} |")
    return "\n".join([*text, "", *(f"- {line}" for line in found["missing"]), ""])


def main() -> None:
    """Run what fits and write both files."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--only", nargs="+", choices=SCRIPTS, default=list(SCRIPTS))
    parser.add_argument("--output", type=Path, default=Path())
    for peer in dict.fromkeys(PEERS.values()):
        parser.add_argument(f"--{peer}", metavar="PYTHON")
    args = parser.parse_args()
    args.output.mkdir(parents=True, exist_ok=True)
    began = time.monotonic()
    rows: list[dict[str, Any]] = []
    missing: list[str] = []
    for place, name in enumerate(args.only):
        peer, words = PEERS.get(name), list(SCRIPTS[name][1])
        python = getattr(args, peer) if peer else None
        if python:
            words += [f"--{peer}", python]
        if name == "caffe2" and not os.environ.get("CONVERT_CAFFE2_PYTHON"):
            missing.append("caffe2: no Caffe2 here (CONVERT_CAFFE2_PYTHON)")
            continue
        if peer and not python:
            missing.append(f"{name}: no --{peer}")
            if name not in ALONE:
                continue
        left = 60 * args.minutes - (time.monotonic() - began)
        shares = [SCRIPTS[other][0] for other in args.only[place:]]
        print(f"\n== {name} {' '.join(words)}", flush=True)
        start = time.monotonic()
        wrong, figures = run(name, words, left * shares[0] / sum(shares))
        print(f"== {time.monotonic() - start:.0f} s {wrong}", flush=True)
        rows += figures
        missing += [f"{name}: {wrong}"] if wrong else []
        write(args.output, {
            "date": time.strftime("%Y-%m-%d"), "processor": processor(), "versions": versions(),
            "minutes": (time.monotonic() - began) / 60, "rows": rows, "missing": missing,
        })  # fmt: skip
    if rows:
        print((args.output / "benchmarks.md").read_text())


def write(folder: Path, found: Mapping[str, Any]) -> None:
    """Write both files with the figures so far."""
    (folder / "benchmarks.json").write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n")
    (folder / "benchmarks.md").write_text(markdown(found))


if __name__ == "__main__":
    main()
