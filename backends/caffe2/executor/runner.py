"""The runner of the reference executor, for `convert verify` without a configured Caffe2."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np

    from convert.request.options import Options
    from convert.request.source import Source

KINDS: Sequence[str] = ("caffe2",)


def available() -> str:
    """Return an empty string: the executor has no further requirements."""
    return ""


def run(
    source: Source, feeds: Sequence[Mapping[str, np.ndarray]], *, precision: str, options: Options
) -> list[dict[str, np.ndarray]]:
    """Run the nets in the folder `source` on each of `feeds`, as `reference.execute` does."""
    from .executor import execute

    return execute(source.file, feeds, wide=precision == "float64")
