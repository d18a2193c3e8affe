"""A sample of the zoo of PyTorch models, as a manifest that one command converts to three frameworks."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

pytestmark = pytest.mark.long

# The cheapest of six kinds: a CNN, a vision transformer's folder, segmentation, recurrent layers, sound, detection.
CHOSEN = ("mobilenetv4_conv_small_035", "dinov2", "unet", "lstm-tagger", "conv-tasnet", "yolos")
FORMATS = ("onnx", "tf", "caffe2")


def test_a_sample_goes_to_every_framework_in_one_command(tmp_path: Path) -> None:
    zoo = Path(__file__).parents[2] / "suites" / "zoo.py"
    subprocess.run([sys.executable, str(zoo), "--save", str(tmp_path / "zoo"), *CHOSEN], check=True)
    done = subprocess.run(
        [sys.executable, "-m", "convert", "batch", str(tmp_path / "zoo/zoo.toml"), *(f"--to={f}" for f in FORMATS),
         "-o", str(tmp_path / "out"), "--json", "--report", str(tmp_path / "zoo.html")],
        capture_output=True,
        text=True,
    )  # fmt: skip
    *rows, last = map(json.loads, done.stdout.splitlines())
    assert [(r["name"], r["format"], r["outcome"], r["reason"]) for r in rows if r["outcome"] != "verified"] == []
    assert Counter((r["name"], r["format"]) for r in rows) == Counter((n, f) for n in CHOSEN for f in FORMATS)
    assert all(Path(r["output"]).exists() for r in rows)
    assert last["summary"]["outcomes"] == {"verified": len(CHOSEN) * len(FORMATS)}
    assert done.returncode == 0
