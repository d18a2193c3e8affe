"""The ONNX backend: writes .onnx files of opset 7 to 28, with external data where the weights need it."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from convert.naming import TargetNames
from convert.plugin import Format, Operator
from convert.storage import CALIBRATE, DTYPE, QUANTIZE

from .differences import DIFFERENCES
from .options import BLOCK_SIZE, KEEP_IO, OPSET

if TYPE_CHECKING:
    import onnx
    import onnx_ir as ir

    from convert.options import Options
    from convert.report import Report

FORMATS = {
    "onnx": Format(
        "onnx",
        ".onnx",
        False,
        "ONNX, opset 7 to 28 (--opset, default 20)",
        kind="onnx",
        title="ONNX",
        narrow=("float32", "float16", "bfloat16", "int8", "int4"),
        lacks=("bfloat16",),
        names=TargetNames(),
    )
}
OPTIONS = (OPSET, DTYPE, KEEP_IO, QUANTIZE, CALIBRATE, BLOCK_SIZE)


def check(model: ir.Model, format: str, options: Options) -> None:
    """Raise one `Unsupported` that lists everything the opset asked for lacks; changes nothing."""
    from .lower import lower

    lower(model.clone(), OPSET.of(options), options.dump_passes)


def write(model: ir.Model, path: Path, format: str, options: Options, report: Report) -> None:
    """Write `path`, and `<path>.data` beside it where the weights would not fit into one file.

    Raises `Unsupported` before anything is written, `UsageError` for an opset that cannot be written.
    """
    from convert.graph.names import rename_ends

    from .lower import lower
    from .writer import write_model

    opset, dtype, quantize = OPSET.of(options), DTYPE.of(options), QUANTIZE.of(options)
    rename_ends(model, FORMATS[format].names, report)
    for option, needs, there in ((KEEP_IO, "--dtype", dtype), (BLOCK_SIZE, "--quantize int4", quantize == "int4")):
        if option.of(options) != option.default and not there:
            report.note(f"--{option.name.replace('_', '-')} changes nothing without {needs}", code="unread-option")
    if dtype or quantize:
        from .narrow_floats import check_opset

        check_opset(opset, f"--dtype {dtype}" if dtype else f"--quantize {quantize}")
    lower(model, opset, options.dump_passes)
    if dtype:
        from .narrow_floats import narrow_floats

        narrow_floats(model, dtype, opset, KEEP_IO.of(options), report)
    if quantize:
        from .quantize import quantize_file

        quantize_file(model, path, quantize, CALIBRATE.of(options), BLOCK_SIZE.of(options), report)
    else:
        from .kernel_dtypes import note_lacking_kernels

        if not dtype:
            note_lacking_kernels(model, report)
        write_model(model, path, report)


def to_proto(model: ir.Model, options: Options) -> onnx.ModelProto:
    """The lowered model as a ModelProto with its weights in it; `model` stays as it is.

    Raises `Unsupported`, and `ResourceLimit` for more weights than a ModelProto can be serialized with.
    """
    from convert.graph.names import rename_ends
    from convert.report import Report

    from .lower import lower
    from .writer import model_proto

    copy = model.clone()
    rename_ends(copy, FORMATS["onnx"].names, Report("convert"))
    lower(copy, OPSET.of(options))
    return model_proto(copy)


def preload() -> None:
    """Import what writing takes, without starting a thread: warm workers are forked after it."""
    from . import lower, writer  # noqa: F401


def operators(format: str) -> Iterable[Operator]:
    """Every operator of the canonical opset; what an older opset lacks is said when it is asked for."""
    import onnx

    from convert.differences import reasons_by_operator
    from convert.graph import OPSET

    differs = reasons_by_operator(DIFFERENCES[format])
    for name in sorted({s.name for s in onnx.defs.get_all_schemas_with_history() if s.domain == ""}):
        try:
            if not onnx.defs.get_schema(name, OPSET, "").deprecated:
                yield Operator(name, differs=differs.get(name, ""))
        except onnx.defs.SchemaError:
            continue
