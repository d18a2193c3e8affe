"""Threads of a program convert at the same time, each as if it were alone."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

FIXTURES = Path(__file__).parents[2] / "fixtures"
SCRIPT = """
import json, sys, threading
from pathlib import Path
import convert
from convert.plugin import formats

fixtures, folder = Path(sys.argv[1]), Path(sys.argv[2])
work = [("mnist_cnn.pt2", "onnx"), ("super_resolution.pt2", "onnx"), ("mnist_cnn.keras", "torch"),
        ("mnist_cnn.pt", "tf"), ("mnist_cnn.onnx", "keras"), ("mnist_cnn_scripted.pt", "torch")]
found = {}


def one(name, target, turn):
    try:
        convert.convert(fixtures / name, target, folder / f"{turn}-{name}{formats()[target].suffix}", verify=False)
        found[f"{name} {turn}"] = "converted"
    except Exception as error:
        found[f"{name} {turn}"] = f"{type(error).__name__}: {error}"[:300]


for turn in range(3):
    threads = [threading.Thread(target=one, args=(*each, turn)) for each in work]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
print("its stream of errors is open", file=sys.stderr)
print(json.dumps(found))
"""


@pytest.mark.slow
def test_conversions_in_threads(tmp_path: Path) -> None:
    """torch.export.load and capture keep state that all threads share, and the first thread imports a framework."""
    command = [sys.executable, "-c", SCRIPT, str(FIXTURES), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert not done.returncode, done.stderr
    found = json.loads(done.stdout)
    assert len(found) == 18
    assert {name: what for name, what in found.items() if what != "converted"} == {}
    assert done.stderr.splitlines()[-1] == "its stream of errors is open"
