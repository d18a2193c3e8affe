"""Opens files: reads the content, once another process has parsed the module, and the metadata of jax.export."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from convert import limits
from convert.errors import BadInput, ResourceLimit
from convert.request.source import Source

from . import parse_check
from .parsing import GET_AGAIN_HINT, artefact_in


def read_bytes(path: Path) -> bytes:
    """Return the content of a file. Raises `ResourceLimit` if it is larger than a module may be."""
    size = path.stat().st_size
    if size > limits.STABLEHLO_BYTES:
        raise ResourceLimit(
            f"{path} has {size:,} bytes, and a module may have {limits.STABLEHLO_BYTES:,}",
            hint="a program can set convert.limits.STABLEHLO_BYTES",
        )
    return path.read_bytes()


def module_bytes(source: Source, confined: bool) -> bytes:
    """Return the module in a file; MLIR has parsed it in another process, unless `confined`. Raises `BadInput`."""
    data = read_bytes(source.file)
    module = artefact_in(data, source.label) if source.kind == "jax-export" else data
    if not (source.written_here or confined):
        parse_check.check(source.file, source.kind)
    return module


def deserialize(data: bytes, label: str) -> Any:
    """Return the `Exported` in a file. Raises `BadInput` if JAX does not read it."""
    from jax import export

    try:
        return export.deserialize(bytearray(data))
    except Exception as error:  # any exception: the flatbuffer is untrusted
        text = " ".join(f"{type(error).__name__}: {error}".split())[:300]
        raise BadInput(f"{label} is not read by jax.export: {text}", hint=GET_AGAIN_HINT) from error
