"""Convert the models that packages ship to every target, and print a table.

    python tests/suites/packaged_table.py --targets keras --json out.jsonl

Each model is converted and verified by the command, in a process of its own. The outcome is verified, refused (with the
reason), inconclusive or failed. Models whose outcome is in the file already are not run again, so an interrupted run
continues; `--again failed late` runs those outcomes again. `--folder` has packages that are unpacked already, each in a
folder of the package's name; otherwise pip and npm download them (`packaged.downloaded`). `packaged_rows` lists the
models, and those that are left out with the reason.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import zipfile
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import pytest

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.suites.packaged import downloaded
from tests.suites.packaged_rows import ARCHIVES, INPUTS, MODELS, PACKAGES, UNREAD

ROOT = Path(__file__).resolve().parents[2]
TARGETS = {
    "onnx": ".onnx",
    "torch": ".pt2",
    "tf": "",
    "tf-frozen": ".pb",
    "keras": ".keras",
    "tflite": ".tflite",
    "caffe2": "",
}
"""Formats, and the suffixes of their files."""

STATUSES = {0: "verified", 3: "failed", 4: "refused", 7: "inconclusive"}
"""Outcomes by exit code; any other code is a failure."""


@dataclass(frozen=True)
class Row:
    """The outcome of one model and target."""

    package: str
    model: str
    target: str
    status: str
    text: str = ""

    @property
    def key(self) -> tuple[str, str, str]:
        """The key of a row."""
        return self.package, self.model, self.target


def measure(package: str, model: str, path: Path, target: str, seconds: float) -> Row:
    """Convert and verify with two seeds."""
    specs = [part for spec in INPUTS.get(path.name, ()) for part in ("--input", spec)]
    if path.name in MODELS:
        specs += ["--model", str(ROOT / MODELS[path.name])]
    with tempfile.TemporaryDirectory(prefix="convert-packaged-") as folder:
        output = f"{folder}/model{TARGETS[target]}"
        command = [sys.executable, "-m", "convert", str(path), "--to", target, "--seeds", "2", *specs, "-o", output]
        command += ["--timeout", f"{seconds:.0f}"]
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "2000"}
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder, env=environment)
    lines = [line.strip() for line in (done.stderr + done.stdout).splitlines() if not line.endswith(" …")]
    text = "" if done.returncode == 0 else " ".join(lines)[:2400]
    late = done.returncode == 6 and "timeout" in text
    return Row(package, model, target, "late" if late else STATUSES.get(done.returncode, "failed"), text)


def unpacked(package: str, folder: Path | None, scratch: Path) -> Path | None:
    """Return the folder of a package's files, or None if no registry is reachable."""
    name = re.sub(r"[^a-z0-9]+", "_", re.split(r"==|(?<=.)@(?=\d)", package.removeprefix("npm:"))[0].lower())
    root = None if folder is None else folder.resolve() / name.strip("_")
    if root is None or not root.exists():
        try:
            root = downloaded(package, scratch)
        except pytest.skip.Exception as why:
            print(f"{package}: {why}", flush=True)
            return None
    for path in root.glob(ARCHIVES[package]) if package in ARCHIVES else ():
        with zipfile.ZipFile(path) as archive:
            archive.extractall(root / path.stem)
    return root


def summary(rows: Sequence[Row]) -> str:
    """Return counts by target and outcome, then the models that did not verify, by reason."""
    statuses = ("verified", "refused", "inconclusive", "late", "failed")
    lines = [f"{'':12}" + "".join(f"{s:>14}" for s in statuses)]
    for target in TARGETS:
        counts = Counter(row.status for row in rows if row.target == target)
        lines.append(f"{target:12}" + "".join(f"{counts[s]:14}" for s in statuses))
    for status in statuses[1:]:
        reasons: dict[str, list[str]] = defaultdict(list)
        for row in rows:
            if row.status == status:
                reasons[row.text].append(f"{row.model} --to {row.target}")
        lines += [f"{status}: {', '.join(names)}\n    {text}" for text, names in reasons.items()]
    lines += [f"left out: {what}: {why}" for what, why in UNREAD.items()]
    return "\n".join(lines)


def kept(file: Path | None, again: Iterable[str], only: str) -> list[Row]:
    """Return the rows in `file`; those to run again are removed from it."""
    if file is None or not file.exists():
        return []
    found = [Row(**json.loads(line)) for line in file.read_text().splitlines()]
    rows = [row for row in found if row.status not in set(again) or only not in f"{row.package} {row.model}"]
    file.write_text("".join(json.dumps(asdict(row)) + "\n" for row in rows))
    return rows


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table; return 0 if nothing failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--targets", nargs="+", choices=list(TARGETS), default=list(TARGETS))
    parser.add_argument("--only", default="", help="models whose package and path hold this")
    parser.add_argument("--folder", type=Path, help="unpacked packages")
    parser.add_argument("--seconds", type=float, default=600.0, help="the most that one conversion takes")
    parser.add_argument("--json", type=Path, help="one line of JSON a row: what it holds is kept, the rest added")
    parser.add_argument("--again", nargs="*", default=[], metavar="STATUS", help="of what it holds, run these anew")
    chosen = parser.parse_args(arguments)
    rows = kept(chosen.json, chosen.again, chosen.only)
    done = {row.key for row in rows}
    for package, models in PACKAGES.items():
        asked = [m for m in models if chosen.only in f"{package} {m}"]
        waiting = [(m, t) for m in asked for t in chosen.targets if (package, m, t) not in done]
        with tempfile.TemporaryDirectory(prefix="convert-wheel-") as scratch:
            root = unpacked(package, chosen.folder, Path(scratch)) if waiting else None
            if root is None:
                continue
            for model, target in waiting:
                rows.append(row := measure(package, model, root / model, target, chosen.seconds))
                print(f"{row.status:13} {package} {model} --to {target}: {row.text}", flush=True)
                if chosen.json:
                    with chosen.json.open("a") as stream:
                        stream.write(json.dumps(asdict(row)) + "\n")
    print(summary(rows))
    return int(any(row.status == "failed" for row in rows))


if __name__ == "__main__":
    sys.exit(main())
