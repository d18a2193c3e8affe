"""The runner on the reference executor, for `convert verify` where no Caffe2 is configured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np

    from convert.options import Options
    from convert.source import Source

KINDS: Sequence[str] = ("caffe2",)


def available() -> str:
    """Empty: the executor needs nothing beside the project."""
    return ""


def run(
    source: Source, feeds: Sequence[Mapping[str, np.ndarray]], *, precision: str, options: Options
) -> list[dict[str, np.ndarray]]:
    """Run the nets in the folder `source` on each of `feeds`, as `reference.execute` says."""
    from .executor import execute

    return execute(source.file, feeds, wide=precision == "float64")
