"""Parses a StableHLO module. `check` runs it as a program, because MLIR's parsers may crash on a damaged module."""

from __future__ import annotations

import sys
from pathlib import Path

from convert import limits
from convert.errors import BadInput
from convert.processes.parser_check import begin_check, check_file, check_parses

_MODULE = "convert.frontends.jax.files.parse_check"


def check(path: Path, kind: str) -> None:
    """Raise `BadInput` if MLIR does not parse the module in a file."""
    check_file(path, _MODULE, "MLIR", _patience(path.stat().st_size), kind)


def check_bytes(module: bytes, label: str) -> None:
    """Raise `BadInput` if MLIR does not parse a module that is a part of a file."""
    check_parses(label, _MODULE, "MLIR", _patience(len(module)), content=module)


def _patience(size: int) -> float:
    return limits.STABLEHLO_SECONDS + size / limits.STABLEHLO_BYTES_PER_SECOND


def _parse(path: str = "", kind: str = "") -> None:
    from .parsing import artefact_in, parse_module

    data = Path(path).read_bytes() if path else sys.stdin.buffer.read()
    try:
        parse_module(artefact_in(data, path) if kind == "jax-export" else data, path or "the module")
    except BadInput as error:
        sys.exit(error.sentence)


if __name__ == "__main__":
    _parse(*begin_check())
