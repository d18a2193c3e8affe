"""The ONNX backend: writes .onnx files of opset 7 to 28, with external data if the weights need it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from convert.errors import UsageError
from convert.files.part_names import MERGED
from convert.plugin import Format, Operator
from convert.request.naming import TargetNames
from convert.request.storage import CALIBRATE, DTYPE, QUANTIZE

from .differences import DIFFERENCES
from .layouts import LAYOUTS, note_missing_files
from .options import ACCURACY_LEVEL, BLOCK_SIZE, KEEP_IO, OPSET, RUNTIME, ZERO_POINTS

if TYPE_CHECKING:
    import onnx
    import onnx_ir as ir

    from convert.outcome.report import Report
    from convert.request.options import Options

FORMATS = {
    "onnx": Format(
        "onnx",
        ".onnx",
        False,
        "ONNX, opset 7 to 28 (--opset, default 20)",
        kind="onnx",
        title="ONNX",
        narrow=("float32", "float16", "bfloat16", "int8", "int8-weights", "int4"),
        missing_dtypes=("bfloat16",),
        names=TargetNames(),
    )
}
JOINED = {"onnx": {MERGED: ("decoder_model", "decoder_with_past_model")}}
OPTIONS = (OPSET, DTYPE, KEEP_IO, QUANTIZE, CALIBRATE, BLOCK_SIZE, ZERO_POINTS, ACCURACY_LEVEL, RUNTIME)

_BLOCK_OPTIONS = (BLOCK_SIZE, ZERO_POINTS, ACCURACY_LEVEL)


def check(model: ir.Model, format: str, options: Options) -> None:
    """Raise one `Unsupported` that lists everything that the requested opset lacks. Changes nothing."""
    from .lower import lower

    lower(model.clone(), OPSET.of(options), options)


def restrict(model: ir.Model, format: str, options: Options) -> None:
    """Note which calls a file for onnxruntime-genai takes."""
    if RUNTIME.of(options) == "genai":
        from .genai import note_calls

        note_calls(model)


def folder_of_runtime(format: str, options: Options) -> str | None:
    """Return the folder of the ONNX files in a folder that the requested runtime reads."""
    runtime = RUNTIME.of(options)
    return LAYOUTS[runtime].folder if runtime else None


def write(model: ir.Model, path: Path, format: str, options: Options, report: Report) -> None:
    """Write `path`, and `<path>.data` next to it if the weights do not fit into one file.

    Raises `Unsupported` before anything is written, and `UsageError` for an opset that cannot be written.
    """
    from convert.graph.names import rename_io

    from .lower import lower
    from .writer import write_model

    opset, dtype, quantize = OPSET.of(options), DTYPE.of(options), QUANTIZE.of(options)
    rename_io(model, FORMATS[format].names, report)
    if RUNTIME.of(options):
        _prepare_for_runtime(model, RUNTIME.of(options), dtype, report)
    bits = _bits_of_blocks(options)
    blocks = ("--quantize int4 or int8-weights", bits)
    for option, needs, there in ((KEEP_IO, "--dtype", dtype), *((o, *blocks) for o in _BLOCK_OPTIONS)):
        if option.of(options) != option.default and not there:
            report.note(f"--{option.name.replace('_', '-')} changes nothing without {needs}", code="unread-option")
    if dtype or quantize:
        from .narrow_floats import check_opset

        check_opset(opset, f"--dtype {dtype}" if dtype else f"--quantize {quantize}")
    lower(model, opset, options)
    if dtype:
        from .narrow_floats import narrow_floats

        narrow_floats(model, dtype, opset, KEEP_IO.of(options), report)
    if quantize and not bits:
        from .quantize import quantize_file

        quantize_file(model, path, CALIBRATE.of(options), report)
        return
    if bits:
        _quantize_products(model, bits, options)
    elif not dtype:
        from .runtimes.kernel_dtypes import note_lacking_kernels

        note_lacking_kernels(model, report)
    write_model(model, path, report)


def _bits_of_blocks(options: Options) -> int:
    """Return the bits of weights that are stored in blocks, 0 if none are.

    genai's kernels for int8 multiply blocks, as its builder writes them. With `--calibrate`, every operator that has an
    8-bit form gets one instead.
    """
    quantize = QUANTIZE.of(options)
    if quantize == "int8" and RUNTIME.of(options) == "genai" and not CALIBRATE.of(options):
        return 8
    return {"int4": 4, "int8-weights": 8}.get(quantize, 0)


def _quantize_products(model: ir.Model, bits: int, options: Options) -> None:
    """Store the weights of products in `bits`, as the options ask for."""
    from .block_weights import Blocks, quantize_products

    if CALIBRATE.of(options):
        asked = f"--quantize {QUANTIZE.of(options)}"
        raise UsageError(f"{asked} stores weights, and takes no --calibrate", hint="leave it out")
    level = ACCURACY_LEVEL.of(options) or ("4" if RUNTIME.of(options) == "genai" else "0")
    quantize_products(model, Blocks(bits, BLOCK_SIZE.of(options), ZERO_POINTS.of(options), int(level)))


def _prepare_for_runtime(model: ir.Model, runtime: str, dtype: str, report: Report) -> None:
    """Change `model` to what `runtime` runs, and note the files that it needs beside the model."""
    from convert.files.companions import companion_folder
    from convert.graph.metadata import COMPANIONS_KEY

    from .fused.decoder import fuse_decoder
    from .genai import add_genai_config, context_length, note_windows

    place = Path(report.target)
    folder = companion_folder(place)
    if runtime == "genai":
        shared = fuse_decoder(model, context_length(model), bool(dtype))
        add_genai_config(model, place.relative_to(folder).as_posix(), shared)
        note_windows(model, report)
    inputs = [str(v.name) for v in model.graph.inputs]
    note_missing_files(runtime, inputs, model.meta.get(COMPANIONS_KEY, {}), folder, report)


def join(files: Sequence[Path], path: Path, report: Report) -> None:
    """Write a decoder for the first token and one with a cache, which are `files`, to `path` as one."""
    from .merged_decoders import merge_decoders

    first, further = files
    merge_decoders(first, further, path, report)


def to_proto(model: ir.Model, options: Options) -> onnx.ModelProto:
    """Return the lowered model as a ModelProto that includes its weights; `model` is not changed.

    Raises `Unsupported`, and `ResourceLimit` if the weights exceed what a ModelProto can be serialized with.
    """
    from convert.graph.names import rename_io
    from convert.outcome.report import Report

    from .lower import lower
    from .writer import model_proto

    copy = model.clone()
    rename_io(copy, FORMATS["onnx"].names, Report("convert"))
    lower(copy, OPSET.of(options))
    return model_proto(copy)


def preload() -> None:
    """Import the modules needed for writing, without starting a thread, because warm workers fork afterwards."""
    from . import lower, writer  # noqa: F401


def operators(format: str) -> Iterable[Operator]:
    """Yield every operator of the canonical opset. A request for an older opset reports what that opset lacks."""
    import onnx

    from convert.graph import OPSET
    from convert.runtimes.differences import reasons_by_operator

    differs = reasons_by_operator(DIFFERENCES[format])
    for name in sorted({s.name for s in onnx.defs.get_all_schemas_with_history() if s.domain == ""}):
        try:
            if not onnx.defs.get_schema(name, OPSET, "").deprecated:
                yield Operator(name, difference=differs.get(name, ""))
        except onnx.defs.SchemaError:
            continue
