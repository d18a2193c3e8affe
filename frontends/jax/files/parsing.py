"""StableHLO modules from bytes: text, bytecode, portable artefacts, and the wrapper of jax.export."""

from __future__ import annotations

from jaxlib.mlir import ir as mlir
from jaxlib.mlir.dialects import stablehlo

from convert.errors import BadInput

from ..beginnings import BYTECODE, PORTABLE
from ..context import has_quantized_types, load_quantized_types, make_context, separate_quantization

GET_AGAIN_HINT = "get the file again, or export the program again"


def artefact_in(data: bytes, label: str) -> bytes:
    """Return the portable artefact in a flatbuffer of jax.export: a vector of bytes after its length. Raises
    `BadInput`.
    """
    at = data.find(PORTABLE)
    size = int.from_bytes(data[at - 4 : at], "little") if at >= 4 else 0
    if at < 4 or not 0 < size <= len(data) - at:
        raise BadInput(f"{label} is no whole program of jax.export", hint=GET_AGAIN_HINT)
    return data[at : at + size]


QUANTIZED = b"quant"
"""Name of the dialect of quantized types: every module with such types contains it, and others may contain it too."""


def parse_module(data: bytes, label: str) -> mlir.Module:
    """Parse text or bytecode. Raises `BadInput` with MLIR's message.

    Only `uniform_quantize`, `uniform_dequantize` and constants have quantized types in the result.
    """
    context = make_context()
    quantized = QUANTIZED in data
    try:
        if quantized:
            load_quantized_types(context)
        with context:
            if data.startswith(PORTABLE):
                module = stablehlo.deserialize_portable_artifact(context, data)
            else:
                module = mlir.Module.parse(data if data.startswith(BYTECODE) else data.decode())
            if quantized and has_quantized_types(module):
                separate_quantization(module)
            return module
    except (mlir.MLIRError, ValueError, UnicodeDecodeError) as error:
        text = " ".join(str(error).split())[:400]
        raise BadInput(f"{label} holds no module that MLIR reads: {text}", hint=GET_AGAIN_HINT) from None
