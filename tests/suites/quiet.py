"""Count the lines that fourteen ordinary conversions print beside their result, each in a process of its own.

    python tests/suites/quiet.py [--only WORD]

For each conversion it prints the lines on stderr, and the notes of the report by level. The exit code is 1 if there is
more than one line on stderr, or one that is neither the assumed input nor a note to act on. The sources are those of
`fixtures/`, and a small network of transformers in its folder.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

CONVERSIONS = (
    "mnist_cnn.pt --to tf",
    "mnist_cnn.pt --to onnx",
    "mnist_cnn.pt --to torch-script -o scripted.pt",
    "mnist_cnn_state.pt --model mnist_model.py:build --to onnx",
    "mnist_cnn.pt2 --to tflite",
    "mnist_cnn_scripted.pt --to onnx",
    "mnist_cnn.onnx --to tf",
    "mnist_cnn.onnx --to keras",
    "mnist_cnn.keras --to onnx",
    "mnist_cnn.keras --to torch",
    "mnist_cnn.savedmodel --to onnx",
    "mnist_cnn_frozen.pb --to tflite",
    "super_resolution.onnx --to caffe2",
    "bert --to onnx -o bert-onnx/model.onnx",
)
"""Command lines, in a folder with the sources."""

_BERT = """from transformers import BertConfig, BertModel
config = BertConfig(vocab_size=100, hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64)
BertModel(config).save_pretrained("bert")
"""


_SITE = "from tests.support import timm_helper\n\ntimm_helper.declare_torchvision_operators()\n"
"""transformers imports torchvision, whose operators may be missing although it is installed."""


@dataclass(frozen=True)
class Printed:
    """The lines of a conversion on stderr, and its notes by level."""

    exit_code: int
    lines: list[str]
    levels: Counter[str]

    @property
    def quiet(self) -> bool:
        """Return whether the conversion succeeded with at most one line, which the user can act on."""
        return not self.exit_code and len(self.lines) <= 1 and all(map(is_actionable, self.lines))


def is_actionable(line: str) -> bool:
    """Return whether a line is the assumed input, or a note that names something to type."""
    return line.startswith("assuming input: ") or (line.startswith("note: ") and ("--" in line or "-o " in line))


def prepare(folder: Path) -> None:
    """Put the sources into a folder."""
    for path in (ROOT / "fixtures").iterdir():
        (folder / path.name).symlink_to(path)
    (folder / "site").mkdir()
    (folder / "site" / "sitecustomize.py").write_text(_SITE)
    subprocess.run([sys.executable, "-c", _BERT], cwd=folder, env=environment(folder), check=True, capture_output=True)


def environment(folder: Path) -> dict[str, str]:
    """Return the environment of each command."""
    return {**os.environ, "NO_COLOR": "1", "PYTHONPATH": f"{folder / 'site'}:{ROOT}"}


def run(words: str, folder: Path) -> Printed:
    """Convert once with default options, and once to get the notes of every level."""
    command = [sys.executable, "-m", "convert", *words.split(), "--force"]
    env = environment(folder)
    plain = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True)
    told = subprocess.run([*command, "--json", "--no-verify"], cwd=folder, env=env, capture_output=True)
    notes = json.loads(told.stdout)["notes"] if told.stdout else []
    return Printed(plain.returncode, plain.stderr.splitlines(), Counter(note["level"] for note in notes))


def main() -> int:
    """Run them and print a table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", default="", metavar="WORD", help="those with this word")
    only = parser.parse_args().only
    loud = 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        prepare(folder)
        print(f"{'lines':>5} {'action':>6} {'info':>5} {'detail':>6}  conversion")
        for words in (w for w in CONVERSIONS if only in w):
            found = run(words, folder)
            counts = [found.levels[level] for level in ("action", "info", "detail")]
            print(f"{len(found.lines):>5} {counts[0]:>6} {counts[1]:>5} {counts[2]:>6}  {words}", flush=True)
            if not found.quiet:
                loud += 1
                print("\n".join(f"      {line}" for line in (f"exit code {found.exit_code}", *found.lines)), flush=True)
    print(f"{loud} of {len(CONVERSIONS)} are loud")
    return 1 if loud else 0


if __name__ == "__main__":
    sys.exit(main())
