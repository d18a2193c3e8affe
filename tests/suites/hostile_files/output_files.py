"""Outputs, pages and saved inputs of a good model, to be written where something else exists."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import onnx

from tests.suites.hostile_files.case import FIXTURES, Canary, Case

GOOD = FIXTURES / "mnist_cnn.onnx"
PAGE = '<!doctype html>\n<meta charset="utf-8"><meta name="generator" content="convert"/>\n'


def _filled(here: Path, canary: Canary) -> None:
    """Make a folder of things that belong to the user."""
    mine = canary.marker.parent / "mine"
    mine.mkdir(exist_ok=True)
    (mine / "key").write_text("key")
    shutil.copy(GOOD, here / "m.onnx")
    os.link(here / "m.onnx", here / "hard.onnx")
    os.link(here / "m.onnx", here / "hard.html")
    os.symlink("m.onnx", here / "soft.onnx")
    model = onnx.load(GOOD)
    onnx.save(model, here / "apart.onnx", save_as_external_data=True, location="weights.onnx", size_threshold=16)
    os.link(here / "weights.onnx", here / "weights.html")
    np.savez(here / "c.npz", image=np.zeros((1, 1, 28, 28), "f4"))
    np.savez(here / "mine.npz", image=np.ones((3, 3)))
    (here / "notes.onnx").write_text("notes of mine")
    shutil.copy(FIXTURES / "mnist_cnn_state.pt", here / "weights.pt")
    for name in ("notes.savedmodel/saved_model.pb", "notes.torch/model.py", "notes.torch/model.safetensors"):
        (here / name).parent.mkdir(exist_ok=True)
        (here / name).write_text("notes of mine")
    (here / "page.html").write_text("a page of mine")
    (here / "old.html").write_text(PAGE)
    (here / "rules.py").write_text("# rules of mine\n")
    os.symlink(mine / "key", here / "key.html")
    os.symlink(mine / "page.html", here / "gone.html")
    os.symlink(mine, here / "mine")
    os.symlink("/dev/full", here / "full.html")
    for name in ("pipe.html", "pipe.npz", "pipe.onnx"):
        os.mkfifo(here / name)
    (here / "work").mkdir()
    (here / "work" / "model.py").write_text("work of mine")
    (here / "work" / "thesis.txt").write_text("work of mine")


KEPT = (
    "m.onnx", "apart.onnx", "weights.onnx", "c.npz", "mine.npz", "page.html", "rules.py", "notes.onnx", "weights.pt",
    "notes.savedmodel/saved_model.pb", "notes.torch/model.py", "work/model.py", "work/thesis.txt",
)  # fmt: skip

_CONVERT: dict[str, tuple[str, ...]] = {
    "over a hard link of the source": ("-o", "hard.onnx", "--force"),
    "over a link to the source": ("-o", "soft.onnx", "--force"),
    "over the source by another way": ("-o", "work/../m.onnx", "--force"),
    "over notes": ("-o", "notes.onnx", "--force", "--to", "torch-code"),
    "over notes that are called a model": ("-o", "notes.onnx", "--force"),
    "over notes that are called a model's files": ("-o", "notes.savedmodel", "--force", "--to", "tf"),
    "over code that is called a model's": ("-o", "notes.torch", "--force", "--to", "torch-code"),
    "over weights of a training": ("-o", "weights.pt", "--force", "--to", "torch-script"),
    "over a folder of work": ("-o", "work", "--force", "--to", "torch-code"),
    "a page over a hard link of the source": ("--report", "hard.html"),
    "a page over the user's": ("--report", "page.html"),
    "a page over a link to the user's": ("--report", "key.html"),
    "a page on a full disk": ("--report", "full.html"),
    "a page into a pipe": ("--report", "pipe.html"),
    "a page over the output": ("--report", "model.onnx"),
    "inputs over calibration": ("--quantize", "int8", "--calibrate", "c.npz", "--save-inputs", "c.npz"),
    "inputs over calibration by another way": (
        "--quantize", "int8", "--calibrate", "c.npz", "--save-inputs", "work/../c.npz"),
    "inputs over rules": ("--rules", "rules.py", "--save-inputs", "rules.py"),
    "inputs over the output": ("--save-inputs", "model.onnx"),
    "inputs over the page": ("--save-inputs", "new.html", "--report", "new.html"),
    "reduced parts over the output": ("--reduce", "model.onnx"),
    "passes over the output": ("--dump-passes", "model.onnx"),
    "a page in a file": ("--report", "m.onnx/page.html"),
    "a page over the inputs by another way": ("--report", "work/../new.npz", "--save-inputs", "new.npz"),
    "inputs into a pipe": ("--save-inputs", "pipe.npz"),
    "inputs over arrays": ("--save-inputs", "mine.npz"),
    "an output that is a pipe": ("-o", "pipe.onnx", "--force"),
    "an output of control characters": ("-o", "\x1b[31m\u202e\x9b2J.onnx"),
    **{f"an output of no text, {form}": ("--to", form, "-o", f"\udcff{suffix}", "--report", "\udcff.html")
       for form, suffix in (("tf", ".savedmodel"), ("torch", ".pt2"), ("torch-code", ""), ("caffe2", ".caffe2"))},
    "passes into a folder of work": ("--dump-passes", "work"),
    "passes through a link": ("--dump-passes", "mine"),
    "passes over the source": ("--dump-passes", "m.onnx"),
}  # fmt: skip
_APART: dict[str, tuple[str, ...]] = {
    "over weights of the source": ("-o", "weights.onnx", "--force"),
    "a page over weights of the source": ("--report", "weights.html"),
    "weights beside the source": ("-o", "work/../apart.onnx", "--force"),
}


def _batches(here: Path) -> dict[str, Callable[[Path], object]]:
    def link(target: str) -> Callable[[Path], object]:
        return lambda path: os.symlink(target, path)

    def holes(path: Path) -> None:
        path.write_bytes(b'{"event": ')
        os.truncate(path, 1 << 40)

    return {"a pipe": os.mkfifo, "a device": link("/dev/zero"), "a link": link("../m.onnx"), "holes": holes,
            "a folder": Path.mkdir,
            "noise": lambda path: path.write_bytes(b'{"event": "started", "output": [[')}  # fmt: skip


def output_files(folder: Path, canary: Canary) -> Iterator[Case]:
    """Write each kind of occupied path: for a conversion, for a page in the place of weights, and for a batch's
    journal.
    """
    here = folder / "here"
    here.mkdir()
    _filled(here, canary)
    for name, words in (_CONVERT | _APART).items():
        path = here / ("apart.onnx" if name in _APART else "m.onnx")
        # The path is relative to the command's folder.
        yield Case(name, Path(path.name), words, GOOD, here=here, verbs=("convert",), kept=KEPT)
    for number, (name, make) in enumerate(_batches(here).items()):
        place = folder / f"batch{number}"
        place.mkdir()
        shutil.copy(GOOD, place / "m.onnx")
        (place / "out").mkdir()
        make(place / "out" / "journal.jsonl")
        yield Case(f"a journal: {name}", Path("m.onnx"), batch=True, here=place, kept=("m.onnx",))
