"""MLIR's context with the dialects that JAX's modules use; this needs jaxlib alone, and JAX is not imported."""

from __future__ import annotations

from functools import cache

from jaxlib.mlir import ir as mlir
from jaxlib.mlir._mlir_libs import _jax_mlir_ext
from jaxlib.mlir.dialects import chlo, sdy, stablehlo
from jaxlib.mlir.passmanager import PassManager

from convert.errors import Unsupported


def make_context() -> mlir.Context:
    """Return a context that parses in the calling thread only."""
    context = mlir.Context()
    registry = mlir.DialectRegistry()
    _jax_mlir_ext.register_dialects(registry)
    context.append_dialect_registry(registry)
    context.load_all_available_dialects()
    context.enable_multithreading(False)
    for dialect in (sdy, chlo, stablehlo):
        dialect.register_dialect(context)
    return context


@cache
def register_passes() -> None:
    """Let the passes of StableHLO be called by their names."""
    stablehlo.register_stablehlo_passes()


def load_quantized_types(context: mlir.Context) -> None:
    """Let a context parse quantized types: jaxlib 0.10 does not offer their dialect, but one of its passes loads it."""
    register_passes()
    with context, mlir.Location.unknown():
        PassManager.parse("builtin.module(vhlo-legalize-to-stablehlo)").run(mlir.Module.create().operation)


def has_quantized_types(module: mlir.Module) -> bool:
    """Return whether any value of a module has a quantized type."""
    return "!quant." in str(module)


def separate_quantization(module: mlir.Module) -> None:
    """Replace operators on quantized tensors by `uniform_dequantize`, floating-point ones and `uniform_quantize`."""
    register_passes()
    with module.context, mlir.Location.unknown():
        PassManager.parse("builtin.module(func.func(stablehlo-legalize-quantized-op-to-qdq))").run(module.operation)


def compute_quantization(module: mlir.Module) -> None:
    """Replace quantized types in a module by integers and arithmetic, as XLA needs it. Raises `Unsupported`."""
    if "!quant.uniform<u" in str(module):  # StableHLO of jaxlib 0.10 turns unsigned integers into signed ones
        raise Unsupported("a program with unsigned quantized types cannot be run")
    register_passes()
    passes = "func.func(stablehlo-legalize-quant-to-math,chlo-legalize-to-stablehlo)"
    with module.context, mlir.Location.unknown():
        PassManager.parse(f"builtin.module({passes})").run(module.operation)
