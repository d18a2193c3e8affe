"""The Keras backend: `.keras` files of Keras's own layers and operations, trainable, without custom objects."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from convert.plugin import Format, Operator
from convert.request.naming import TargetNames
from convert.rules.listing import lazy_attributes, operator_rows

from .differences import DIFFERENCES
from .layer_names import LAYER

if TYPE_CHECKING:
    import onnx_ir as ir

    from convert.outcome.report import Report
    from convert.request.options import Options

    from .rules import onnx_op as onnx_op  # type checkers do not look into __getattr__

FORMATS = {
    "keras": Format(
        "keras",
        ".keras",
        False,
        "Keras 3 model of Keras's own layers, trainable",
        kind="keras",
        title="Keras",
        names=TargetNames(LAYER, LAYER),
        aliases=("keras3",),
        suffix_needed=True,
        single_size_branch=True,
    ),
}


def check(model: ir.Model, format: str, options: Options) -> None:
    """Raise one `Unsupported` that lists every node that Keras cannot express. Changes nothing."""
    from convert.runtimes.start_tensorflow import import_tensorflow

    import_tensorflow()
    from .emit import emit
    from .lazy_weights import run_without_content
    from .passes.legalize import legalize

    copy = model.clone()
    legalize(copy, options)
    run_without_content(lambda: emit(copy))


def write(model: ir.Model, path: Path, format: str, options: Options, report: Report) -> None:
    """Write `model` to `path`; the model is changed. Raises `Unsupported` with every node that Keras cannot express."""
    from convert.runtimes.start_tensorflow import import_tensorflow

    import_tensorflow()
    from convert.graph.names import rename_io
    from convert.passes.tidy.size_checks import checked_conditions, note_lost_checks

    from .passes.legalize import legalize
    from .writer import write_keras

    rename_io(model, FORMATS[format].names, report)
    note_lost_checks(checked_conditions(model), "Keras", report)
    legalize(model, options)
    write_keras(model, path, report)


def skeleton(operator: str) -> str:
    """Return the first lines of a rule for the ONNX operator, made from ONNX's schema."""
    from convert.runtimes.start_tensorflow import import_tensorflow

    import_tensorflow()
    from convert.rules.onnx_schemas import onnx_skeleton

    from . import ops  # noqa: F401  (fills the table)
    from .rules import onnx_op

    return onnx_skeleton(onnx_op, operator, __name__)


def preload() -> None:
    """Import the modules needed to write and run, without starting a thread, because warm workers fork afterwards."""
    from convert.runtimes.start_tensorflow import import_tensorflow

    import_tensorflow(start=False)
    from . import emit, ops, writer  # noqa: F401
    from .passes import legalize  # noqa: F401


def operators(format: str) -> Iterable[Operator]:
    """Yield the ONNX operators that this backend writes, and those that it declares as gaps."""
    from convert.runtimes.start_tensorflow import import_tensorflow

    import_tensorflow()
    from convert.legalize.write_out import operators_written_out

    from . import ops  # noqa: F401  (fills the table)
    from .limits import LIMITS
    from .rules import onnx_op

    limits = {operator: "; ".join(reasons) for operator, reasons in LIMITS.items()}
    differences = DIFFERENCES[format]
    return operator_rows(onnx_op, limits=limits, differences=differences, written_out=operators_written_out())


# The decorator for custom rules. Its old name stays for one release.
__getattr__ = lazy_attributes(__name__, {"onnx_op": ".rules"}, renamed={"onnx": "onnx_op"})
