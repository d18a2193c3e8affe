"""The JAX frontend: files of jax.export, StableHLO modules, and functions, modules and programs in memory."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from convert.plugin import Kind, Operator
from convert.rules.listing import lazy_attributes, operator_rows

from .beginnings import BYTECODE, PORTABLE
from .differences import DIFFERENCES as DIFFERENCES

if TYPE_CHECKING:
    import onnx_ir as ir

    from convert.outcome.report import Report
    from convert.request.options import Options
    from convert.request.source import Source

    from .rules import stablehlo_op as stablehlo_op  # type checkers do not look into __getattr__

KINDS = {
    "jax-export": "a program of jax.export, saved as Exported.serialize() gives it",
    "stablehlo": "a StableHLO module: MLIR text (.mlir) or bytecode (.mlirbc)",
    "jax-export-object": "a jax.export.Exported in memory",
    "jax-function-object": "a function of jax.jit in memory, with inputs",
    "jax-module-object": "a module of Flax (NNX, or Linen bound to its variables), Equinox, or Keras on JAX, in memory",
}

READS: dict[str, tuple[str, ...]] = {}

_SEARCHED = 64 << 20


def _is_export(path: Path, head: bytes) -> bool:
    """Return whether a flatbuffer holds a portable artefact: its first number points to a table near the beginning."""
    root = int.from_bytes(head[:4], "little")
    if len(head) < 64 or not 4 <= root < len(head) - 4 or head.startswith(BYTECODE):
        return False
    if PORTABLE in head:
        return True
    with path.open("rb") as file:
        return PORTABLE in file.read(_SEARCHED)


def _is_module(path: Path, head: bytes) -> bool:
    """Return whether a file is MLIR bytecode, or text with a module or a function in StableHLO's syntax."""
    if head.startswith(BYTECODE):
        return True
    words = (b"stablehlo.", b"func.func", b"chlo.", b"vhlo.")
    lines = [line.strip() for line in head.splitlines()]
    text = next((line for line in lines if line and not line.startswith((b"//", b"#", b"!"))), b"")
    return text.startswith((b"module", b"func.func")) and any(word in head for word in words)


SNIFF = (
    Kind("jax-export", (".jax", ".jaxexport", ".jax_export"), _is_export),
    Kind("stablehlo", (".mlir", ".mlirbc", ".stablehlo"), _is_module),
)

# The first class found among an object's bases decides.
_CLASSES = {
    "jax._src.export._export.Exported": "jax-export-object",
    "jaxlib._jax.PjitFunction": "jax-function-object",
    "jaxlib.xla_extension.PjitFunction": "jax-function-object",
    "flax.nnx.transforms.compilation.JitFn": "jax-function-object",
    "flax.nnx.transforms.compilation.JitWrapped": "jax-function-object",
    "flax.nnx.module.Module": "jax-module-object",
    "flax.linen.module.Module": "jax-module-object",
    "equinox._module._module.Module": "jax-module-object",
    "equinox._module.Module": "jax-module-object",
    "keras.src.backend.jax.layer.JaxLayer": "jax-module-object",
}


def claims(model: Any) -> str | None:
    """Return the kind of an object in memory, decided by the names of its classes, or None."""
    for base in type(model).__mro__:
        if kind := _CLASSES.get(f"{base.__module__}.{base.__qualname__}"):
            return kind
    return None


def read(source: Source, options: Options, report: Report) -> ir.Model:
    """Lower the program to the shared graph. Raises `BadInput`, `ResourceLimit`, `Unsupported`, `UsageError`."""
    from .reader import read_jax

    return read_jax(source, options, report)


EMBEDDED = ("stablehlo",)


def embedded(kind: str) -> Any:
    """Return the functions that check and lower StableHLO programs inside the models of other frameworks
    (`embedding.py`).
    """
    from . import embedding

    return embedding


def prepare(source: Source, options: Options) -> None:
    """Import JAX, because its libraries start threads that belong to the whole program."""
    import contextlib
    import importlib

    with contextlib.suppress(ImportError):  # reading reports the error
        for name in ("jax.export",) if source.kind != "stablehlo" else ("jaxlib.mlir.ir",):
            importlib.import_module(name)


def names_operator(operator: str) -> bool:
    """Return whether a name has the form of these operators: `stablehlo.add`, `chlo.erf`, `@lapack_spotrf_ffi`."""
    return operator.startswith(("stablehlo.", "chlo.", "@"))


def skeleton(operator: str) -> str:
    """The beginning of a rule for `operator`."""
    from convert.rules.skeleton import skeleton as written

    from . import ops  # noqa: F401  (fills the table)
    from .rules import stablehlo_op

    return written(stablehlo_op, operator.removeprefix("stablehlo."), None, "", __name__, "stablehlo_op")


def preload() -> None:
    """Import the modules needed for reading, without starting a thread, because warm workers fork afterwards."""


def operators() -> Iterable[Operator]:
    """The rows of `convert ops --from jax`."""
    from . import ops  # noqa: F401  (fills the table)
    from .rules import stablehlo_op

    return operator_rows(stablehlo_op, differences=DIFFERENCES)


# The decorator for custom rules.
__getattr__ = lazy_attributes(__name__, {"stablehlo_op": ".rules"})
