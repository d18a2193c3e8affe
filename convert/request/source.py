"""A model as the user named it: a path with the kind that sniffing found, or an object in memory."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from convert.errors import UsageError

_TEXT_PATHS = frozenset((
    "torch-module", "torch-state-dict", "safetensors", "torchscript", "torch-export", "torch-code", "hf-folder",
    "diffusers-folder", "tflite",
))  # fmt: skip
"""Kinds that libraries open by the path that they are given, which has to be UTF-8."""
_WHOLE_PATHS = frozenset(("savedmodel", "tf-meta", "caffe2"))
"""Kinds that TensorFlow and Caffe2 open by the whole path, from the root of the file system on."""


def check_path_text(kind: str, path: Path) -> None:
    """Raise `UsageError` for a path whose bytes are not UTF-8, if the libraries that open this kind accept no other
    paths.
    """
    try:
        str(os.path.abspath(path) if kind in _WHOLE_PATHS else path).encode()
    except UnicodeEncodeError:
        if kind in _TEXT_PATHS | _WHOLE_PATHS:
            raise UsageError(
                f"the path of {path} is not valid UTF-8, which the libraries that open such a model require",
                hint="rename the file or folder, or use a symbolic link with another name",
            ) from None


@dataclass(frozen=True)
class Source:
    """`kind` is one of `sniff.KINDS` for a path, or the kind that a frontend's `claims` gave to the object `model`."""

    kind: str
    path: Path | None = None
    model: Any = None
    written_here: bool = False
    """Whether this run wrote the artefact at the path from data, so that any code in it is ours."""
    opened_ns: int = field(default_factory=time.time_ns, compare=False, repr=False)
    """Time in ns at which reading began; files with a later time have changed since."""

    def __post_init__(self) -> None:
        """Raise `UsageError` as `check_path_text` does."""
        if self.path is not None:
            check_path_text(self.kind, self.path)

    @property
    def label(self) -> str:
        """The name that messages use."""
        return str(self.path) if self.path is not None else f"a {type(self.model).__name__} in memory"

    @property
    def file(self) -> Path:
        """The path; raises ValueError for an object in memory."""
        if self.path is None:
            raise ValueError(f"{self.label} has no path")
        return self.path
