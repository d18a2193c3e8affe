"""The result of a maker of hostile files."""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

FIXTURES = Path(__file__).resolve().parents[3] / "fixtures"


@dataclass(frozen=True)
class Canary:
    """Detect executed code by its traces: a file that it creates, and a local port that it connects to."""

    marker: Path
    port: int


@dataclass(frozen=True)
class Case:
    """One hostile file: its place, the options for reading it, and a good model that it pretends to be.

    here: a folder whose content is put into the command's working directory; `kept` names the files that must stay.
    verbs: the verbs that the case is for, all of them by default. swap: a link, and the other target that it gets now
    and then while the command runs.
    """

    name: str
    path: Path
    arguments: tuple[str, ...] = ()
    good: Path = FIXTURES / "mnist_cnn.onnx"
    batch: bool = False
    here: Path | None = None
    verbs: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()
    swap: tuple[Path, Path] | None = None


Maker = Callable[[Path, Canary], Iterator[Case]]


def file_name(name: str) -> str:
    """Return a legal file name."""
    return "".join(c if c.isalnum() else "_" for c in name)[:60]


def members(path: Path) -> dict[str, bytes]:
    """Return the content of each entry of an archive."""
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def stored(path: Path, content: dict[str, bytes]) -> Path:
    """Return an archive of these entries, as PyTorch writes it."""
    with zipfile.ZipFile(path, "w") as archive:
        for name, part in content.items():
            archive.writestr(zipfile.ZipInfo(name), part)
    return path
