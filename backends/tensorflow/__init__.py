"""The TensorFlow backend: SavedModels with trainable variables, frozen graphs and TensorFlow Lite models."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from convert.plugin import Format, Operator
from convert.request.naming import IDENTIFIER, Naming, TargetNames
from convert.request.storage import CALIBRATE, CALIBRATION_METHOD, DTYPE, IO_DTYPE, KEEP_FLOAT, POSTPROCESS, QUANTIZE
from convert.rules.listing import lazy_attributes, operator_rows

from .differences import DIFFERENCES
from .options import IMAGE_INPUT, LABELS, WEIGHTS

if TYPE_CHECKING:
    import onnx_ir as ir

    from convert.outcome.report import Report
    from convert.request.options import Options

    from .rules import onnx_op as onnx_op  # type checkers do not look into __getattr__

# Inputs are keyword arguments. TensorFlow sorts them, then replaces characters that identifiers cannot have.
_SIGNATURE = TargetNames(IDENTIFIER, Naming())
# Names of nodes, which a tf.Graph compares case-insensitively.
_NODE = Naming(r"[^A-Za-z0-9._/-]|(?<=/)/", r"[A-Za-z0-9.]", "/", fold=True)
_LITE = TargetNames(Naming(reserved=("self",)), Naming())

FORMATS = {
    "tf": Format(
        "tf",
        ".savedmodel",
        True,
        "TensorFlow SavedModel with trainable variables, or constants (--weights)",
        kind="savedmodel",
        title="TensorFlow SavedModel",
        folder_files=("saved_model.pb", "fingerprint.pb", "variables/variables.index", "variables/variables.data-*"),
        names=_SIGNATURE,
        aliases=("tensorflow", "savedmodel", "saved-model", "tf-savedmodel", "tf2", "tensorflow2"),
    ),
    "tf-frozen": Format(
        "tf-frozen",
        ".pb",
        False,
        "TensorFlow frozen GraphDef",
        kind="frozen-graph",
        title="TensorFlow frozen graph",
        names=TargetNames(_NODE, _NODE),
        aliases=("pb", "frozen", "graphdef", "frozen-graph", "frozen-pb", "tf1", "tensorflow1"),
    ),
    "tflite": Format(
        "tflite",
        ".tflite",
        False,
        "TensorFlow Lite model of built-in operators",
        kind="tflite",
        title="TensorFlow Lite",
        narrow=("float16", "int8", "int8-weights", "int16x8"),
        missing_dtypes=("float16", "bfloat16"),
        names=_LITE,
        aliases=("lite", "tf-lite", "tensorflow-lite", "litert"),
    ),
}
OPTIONS = (
    WEIGHTS, DTYPE, QUANTIZE, CALIBRATE, CALIBRATION_METHOD, IO_DTYPE, KEEP_FLOAT, LABELS, IMAGE_INPUT, POSTPROCESS
)  # fmt: skip


def check(model: ir.Model, format: str, options: Options) -> None:
    """Raise one `Unsupported` that lists every operator and dtype that `write` could not emit. Changes nothing."""
    from convert.runtimes.start_tensorflow import import_tensorflow

    import_tensorflow()
    from . import ops  # noqa: F401  (fills the table)
    from .emit import check as check_coverage
    from .passes.legalize import legalize

    copy = model.clone()
    if format == "tflite":
        from .lite.writer import check_tflite

        check_tflite(copy, options)
        return
    legalize(copy, options)
    check_coverage(copy)


def write(model: ir.Model, path: Path, format: str, options: Options, report: Report) -> None:
    """Write `model` to `path` as a SavedModel, a frozen graph or a TensorFlow Lite model. The model is changed.

    Raises `Unsupported` with every operator that has no rule, and `ResourceLimit` if a single protobuf message would
    exceed 2 GB.
    """
    from convert.runtimes.start_tensorflow import import_tensorflow

    import_tensorflow()
    from convert.graph.names import rename_io

    from .writer.savedmodel import write_frozen, write_saved_model

    rename_io(model, FORMATS[format].names, report)
    if format == "tflite":
        from .lite.writer import write_tflite

        write_tflite(model, path, options, report)
        return
    writers = {"tf": write_saved_model, "tf-frozen": write_frozen}
    writers[format](model, path, options, report)


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
    from . import ops  # noqa: F401
    from .lite import writer  # noqa: F401
    from .passes import legalize  # noqa: F401
    from .writer import savedmodel  # noqa: F401


def operators(format: str) -> Iterable[Operator]:
    """Yield the ONNX operators that this backend writes in a format, and those that it declares as gaps."""
    from convert.runtimes.start_tensorflow import import_tensorflow

    import_tensorflow()
    from convert.legalize.write_out import operators_written_out

    from . import ops  # noqa: F401  (fills the table)
    from .lite.gaps import GAPS, LIMITS, WRITTEN_OUT
    from .rules import onnx_op

    gaps, limits, lacking = (GAPS, LIMITS, WRITTEN_OUT) if format == "tflite" else ({}, {}, ())
    return operator_rows(onnx_op, gaps, limits, DIFFERENCES[format], operators_written_out(), lacking)


# The decorator for custom rules. Its old name stays for one release.
__getattr__ = lazy_attributes(__name__, {"onnx_op": ".rules"}, renamed={"onnx": "onnx_op"})
