"""What an artefact says of its inputs and outputs before it is run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class DeclaredEnd:
    """An input or output: its name, its dtype as ONNX calls it in lower case (empty where it has none), and its dims.

    dims: None for a dim of any size, and None as a whole where the rank is open.
    """

    name: str
    dtype: str
    dims: tuple[int | None, ...] | None


@dataclass(frozen=True)
class DeclaredEnds:
    """Both sides, in the artefact's order, by which callers may go instead of names."""

    inputs: Sequence[DeclaredEnd]
    outputs: Sequence[DeclaredEnd]
