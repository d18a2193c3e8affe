"""What a maker of hostile files gives."""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

FIXTURES = Path(__file__).resolve().parents[3] / "fixtures"


@dataclass(frozen=True)
class Canary:
    """What betrays that a file had its way: a file that is made, and a port of this machine that is called."""

    marker: Path
    port: int


@dataclass(frozen=True)
class Case:
    """One hostile file: where it is, with which options it is read, and a good model that it passes for.

    here: a folder whose content lies in the one that the command is run in; `kept` names what of it must stay.
    verbs: those that it is for, all of them by default. swap: a link, and where else it leads now and then while the
    command runs.
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
    """A name that a file can have."""
    return "".join(c if c.isalnum() else "_" for c in name)[:60]


def members(path: Path) -> dict[str, bytes]:
    """The content of each entry of an archive."""
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def stored(path: Path, content: dict[str, bytes]) -> Path:
    """An archive of these entries, as PyTorch writes them."""
    with zipfile.ZipFile(path, "w") as archive:
        for name, part in content.items():
            archive.writestr(zipfile.ZipInfo(name), part)
    return path
