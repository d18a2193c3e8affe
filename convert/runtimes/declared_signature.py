"""The inputs and outputs that an artefact declares before it is run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class DeclaredTensor:
    """An input or output: its name, its dtype (ONNX's name in lower case, or ""), and its dims.

    A dim of any size is None; `dims` is None if the rank is unknown.
    """

    name: str
    dtype: str
    dims: tuple[int | None, ...] | None


@dataclass(frozen=True)
class DeclaredSignature:
    """The inputs and outputs in the artefact's order, which callers may use instead of names."""

    inputs: Sequence[DeclaredTensor]
    outputs: Sequence[DeclaredTensor]
