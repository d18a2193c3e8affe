"""Every benchmark in one run: one table of ours beside what we compare with, in Markdown and JSON.

    python tests/benchmarks/all.py [--minutes 60] [--only startup capture …] [--output DIR]
                                   [--tf2onnx PYTHON] [--onnx2tf PYTHON] [--optimum PYTHON]

The scripts run one after another, each bounded so that all of them fit the time; what does not begin in time, or lacks
the environment of a peer, is named in the table. PYTHON is the interpreter of an environment with that peer. Figures
are of this machine, and those of a row are of one run. `benchmarks.md` and `benchmarks.json` are written into DIR.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

from clocks import RECORDS

HERE = Path(__file__).resolve().parent
SCRIPTS: dict[str, list[str]] = {
    "startup": [],
    "capture": ["--rounds", "1"],
    "verification": ["--models", "mnist", "lstm", "bert-tiny", "mobilenetv2", "resnet50"],
    "latency": ["--rounds", "1", "--runs", "10"],
    "torch_programs": ["--batches", "1", "--runs", "10"],
    "reader": ["--rounds", "1", "--networks", "ResNet50", "MobileNetV2"],
    "savedmodel": ["--rounds", "1", "--networks", "resnet50"],
    "exporters": ["--only", "gpt2", "llama", "t5", "bert"],
    "batch": ["--models", "12", "--rounds", "1", "--only", "zoo"],
    "scaling": ["--nodes", "1000", "10000", "--gigabytes", "0.1", "1", "--from", "onnx", "--to", "onnx", "tf"],
    "narrow": ["--runs", "10"],
    "caffe2": ["--runs", "5"],
    "localize": [],
    "kernels": ["--networks", "resnet50", "--runs", "10"],
    "exact_forms": ["--runs", "10"],
    "channels": ["--rounds", "10"],
    "norms": [],
    "variables": ["--batches", "1"],
    "language_models": ["--billions", "2"],
}
"""The scripts with what bounds their time, those first that say most to a user."""
PEERS = {"reader": "tf2onnx", "savedmodel": "onnx2tf", "exporters": "optimum"}
PACKAGES = ("torch", "tensorflow", "keras", "onnx", "onnxruntime", "numpy")


def processor() -> str:
    """The processor's name, the number of cores, and the sets of instructions that kernels are chosen by."""
    lines = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    fields = dict(line.split(":", 1) for line in reversed(lines) if ":" in line)
    known = {name.strip(): value for name, value in fields.items()}
    flags = [f for f in ("avx2", "avx512f", "avx512_vnni", "amx_tile") if f in known.get("flags", "").split()]
    return f"{known.get('model name', platform.machine()).strip()}, {os.cpu_count()} cores, {' '.join(flags)}"


def versions() -> dict[str, str]:
    """Of this Python and of what the figures depend on."""
    return {"python": platform.python_version()} | {name: metadata.version(name) for name in PACKAGES}


def run(name: str, words: list[str], seconds: float) -> tuple[str, list[dict[str, Any]]]:
    """Run one script: what went wrong, if anything, and the figures that it recorded."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder, "records")
        environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"} | {RECORDS: str(place)}
        command = [sys.executable, str(HERE / f"{name}.py"), *words]
        try:
            done = subprocess.run(command, env=environment, timeout=seconds, stderr=subprocess.PIPE, text=True)
            lines = done.stderr.strip().splitlines() or [""]
            wrong = f"ended with {done.returncode}: {lines[-1][:200]}" if done.returncode else ""
        except subprocess.TimeoutExpired:
            wrong = f"was not done in {seconds:.0f} s"
        records = [json.loads(line) for line in place.read_text().splitlines()] if place.exists() else []
    return wrong, [{"benchmark": name, **row} for row in records]


def markdown(found: Mapping[str, Any]) -> str:
    """The table, below what it was measured with."""
    made = ", ".join(f"{name} {version}" for name, version in found["versions"].items())
    text = [f"# Benchmarks, {found['date']}", "", f"{found['processor']}; {made}; {found['minutes']:.0f} minutes.", ""]
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
    for peer in PEERS.values():
        parser.add_argument(f"--{peer}", metavar="PYTHON")
    args = parser.parse_args()
    began = time.monotonic()
    rows: list[dict[str, Any]] = []
    missing: list[str] = []
    for name in args.only:
        words, peer, left = list(SCRIPTS[name]), PEERS.get(name), 60 * args.minutes - (time.monotonic() - began)
        python = getattr(args, peer) if peer else None
        if python:
            words += [f"--{peer}", python]
        if name == "caffe2" and not os.environ.get("CONVERT_CAFFE2_PYTHON"):
            missing.append("caffe2: no Caffe2 here (CONVERT_CAFFE2_PYTHON)")
        elif peer and not python and name != "exporters":
            missing.append(f"{name}: no --{peer}")
        elif left < 1:
            missing.append(f"{name}: no time was left")
        else:
            print(f"\n== {name} {' '.join(words)}", flush=True)
            start = time.monotonic()
            wrong, figures = run(name, words, left)
            print(f"== {time.monotonic() - start:.0f} s {wrong}", flush=True)
            rows += figures
            missing += [f"{name}: {wrong}"] if wrong else []
    found = {
        "date": time.strftime("%Y-%m-%d"), "processor": processor(), "versions": versions(),
        "minutes": (time.monotonic() - began) / 60, "rows": rows, "missing": missing,
    }  # fmt: skip
    (args.output / "benchmarks.json").write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n")
    (args.output / "benchmarks.md").write_text(markdown(found))
    print(markdown(found))


if __name__ == "__main__":
    main()
