"""Take screenshots of the pages and of the terminal, to look at.

    python -m tests.suites.pictures DIR       pages as HTML and PNG (Chromium), the terminal as SVG and PNG

The pages are a conversion, a verification that fails, a model with its graph, a batch with a failure, and a page of one
of its models. The terminal shows a conversion, a FAIL and an error. All models are from `fixtures/`.
"""

from __future__ import annotations

import argparse
import io
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
from onnx import numpy_helper
from rich.console import Console
from rich.text import Text

from tests.support.browser import BROWSER, NO_BROWSER, browse

ROOT = Path(__file__).resolve().parents[2]
PAGES = {
    "conversion": ("mnist_cnn.pt", "--to", "onnx", "-o", "mnist.onnx", "--force", "--report", "conversion.html"),
    "mismatch": ("verify", "mnist_cnn.onnx", "wrong.onnx", "--report", "mismatch.html"),
    "model": ("inspect", "super_resolution.onnx", "--report", "model.html"),
    "batch": ("batch", "zoo", "--to", "onnx", "--to", "tf", "-o", "converted", "--report", "batch.html"),
    "missing": ("missing.pt", "--to", "tf"),
}
"""Commands that run in the folder of the pictures; each gives a screenshot of the terminal."""


def prepare(folder: Path) -> None:
    """Prepare the models: fixtures, one of them with a wrong weight, and a zoo with a broken file."""
    (folder / "zoo").mkdir(parents=True, exist_ok=True)
    for name in ("mnist_cnn.pt", "mnist_cnn.onnx", "super_resolution.onnx"):
        shutil.copy(ROOT / "fixtures" / name, folder / name)
    for name in ("mnist_cnn.keras", "mnist_cnn_frozen.pb", "super_resolution.onnx"):
        shutil.copy(ROOT / "fixtures" / name, folder / "zoo" / name)
    (folder / "zoo" / "broken.onnx").write_bytes((folder / "mnist_cnn.onnx").read_bytes()[:999])
    model = onnx.load(folder / "mnist_cnn.onnx")
    weight = numpy_helper.to_array(model.graph.initializer[0]).copy()
    weight.flat[3] *= np.float32(1.02)
    model.graph.initializer[0].CopyFrom(numpy_helper.from_array(weight, model.graph.initializer[0].name))
    onnx.save(model, folder / "wrong.onnx")


def draw_terminal(name: str, words: tuple[str, ...], folder: Path) -> None:
    """Run a command and draw its output, with stderr, on a terminal of 110 columns."""
    command = [sys.executable, "-m", "convert", *words]
    done = subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    console = Console(record=True, width=110, file=io.StringIO())
    console.print(Text(f"$ convert {' '.join(words)}\n{done.stdout}$ echo $?\n{done.returncode}"))
    console.save_svg(str(folder / f"terminal-{name}.svg"), title="convert")


def draw_page(page: Path, size: str, what: str = "") -> None:
    """Write a screenshot of a page as a PNG beside it. what: the suffix of its name."""
    picture = page.with_name(f"{page.stem}{what}.png")
    browse(page, page.parent / "profile", f"--window-size={size}", f"--screenshot={picture}")


def main() -> None:
    """Make all of them."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path, metavar="DIR")
    folder = parser.parse_args().folder
    if not BROWSER:
        sys.exit(NO_BROWSER)
    prepare(folder)
    for name, words in PAGES.items():
        draw_terminal(name, words, folder)
        draw_page(folder / f"terminal-{name}.svg", "1400,900")
    for page in [*folder.glob("*.html"), *(folder / "batch.pages").glob("*.html")]:
        draw_page(page, "1100,2800")
        draw_page(page, "500,3600", "-phone")
    print("\n".join(str(path) for path in sorted(folder.rglob("*.png"))))


if __name__ == "__main__":
    main()
