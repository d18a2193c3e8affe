"""Reads PyTorch models: modules, checkpoints with their factory, exported programs, TorchScript, files or objects."""

from __future__ import annotations

import contextlib
import importlib
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from convert import limits
from convert.rules.listing import lazy_attributes, operator_rows

from .differences import DIFFERENCES
from .files.hugging_face_tasks import ADAPTER, PART, TASK, has_sentence_modules, parts_of_task

if TYPE_CHECKING:
    from pathlib import Path

    import onnx_ir as ir

    from convert.outcome.report import Report, Tensor
    from convert.plugin import Operator
    from convert.request.options import Options
    from convert.request.source import Source

    from .rules import torch_op as torch_op  # type checkers do not look into __getattr__

KINDS = {
    "torch-module": "a module saved whole with torch.save",
    "torch-state-dict": "weights saved with torch.save, with --model for the code",
    "safetensors": "weights without pickle, with --model for the code",
    "hf-folder": "a folder of a Hugging Face model: config.json and weights, through transformers",
    "diffusers-folder": "a folder of diffusers: a pipeline, part by part, or one model, through diffusers",
    "torchscript": "a TorchScript archive, traced or scripted",
    "torch-export": "a program saved with torch.export.save (.pt2)",
    "torch-code": "a folder of code and its weights, as `--to torch-code` writes it; it is executed: with --trust",
    "torch-module-object": "a torch.nn.Module in memory",
    "torchscript-object": "a TorchScript module or function in memory",
    "torch-export-object": "an ExportedProgram in memory",
}

READS = {
    "model": tuple(KINDS),
    "model_args": ("torch-state-dict", "safetensors", "torch-module"),
    "code": ("torch-module", "torch-state-dict"),
    "trace": tuple(KINDS),
}
FIXED_VALUES = True
OPTIONS = (TASK, PART, ADAPTER)

# The first class found among an object's bases decides: a ScriptModule is a Module too.
_CLASSES = {
    "torch.jit._script.ScriptModule": "torchscript-object",
    "torch.jit._script.RecursiveScriptModule": "torchscript-object",
    "torch.jit.ScriptFunction": "torchscript-object",
    "torch.jit.torch.jit.ScriptFunction": "torchscript-object",  # as PyTorch 2.13 names it
    "torch.export.exported_program.ExportedProgram": "torch-export-object",
    "torch.nn.modules.module.Module": "torch-module-object",
}


def parts(source: Source, options: Options, single: bool = False) -> dict[str, dict[str, str]]:
    """Return the files that a source is written as, by stem, with the options that select each; empty for a single
    file.

    A pipeline of diffusers gives a file for each model in it, and two for an autoencoder. An encoder with a decoder
    gives two or three files if the requested task generates. It gives three if the model's class generates and neither
    a task, inputs nor a `single` file are requested.
    """
    import json

    if source.kind == "diffusers-folder":
        return {} if PART.of(options) else _diffusers_parts(source)
    file = source.file / "config.json" if source.path is not None else None
    one = single or options.inputs or options.examples
    if source.kind != "hf-folder" or PART.of(options) or (one and not TASK.of(options)):
        return {}
    if file is None or not file.is_file() or has_sentence_modules(file.parent, TASK.of(options)):
        return {}
    try:
        with open(file, "rb") as stream:
            config = json.loads(stream.read(limits.FOLDER_CONFIG_BYTES))
    except (OSError, ValueError):
        return {}  # reading reports what is wrong with it
    found = parts_of_task(config, TASK.of(options)) if isinstance(config, dict) else {}
    return {stem: {"part": part} for stem, part in found.items()}


def _diffusers_parts(source: Source) -> dict[str, dict[str, str]]:
    from .files.diffusers_folder import refuse_unknown_parts
    from .files.diffusers_index import parts_of_folder

    refuse_unknown_parts(source.file)
    return {f"{part}/model": {"part": part} for part in parts_of_folder(source.file)}


def shared_files(source: Source) -> dict[str, Path]:
    """Return the files that belong to all parts of a source, by relative path: those of a pipeline's scheduler."""
    if source.kind != "diffusers-folder":
        return {}
    from .files.diffusers_index import shared_files as found

    return found(source.file)


def claims(model: Any) -> str | None:
    """Return the kind of an object in memory, by the names of its classes, or None."""
    for base in type(model).__mro__:
        kind = _CLASSES.get(f"{base.__module__}.{base.__qualname__}")
        if kind:
            return kind
    return None


def read(source: Source, options: Options, report: Report) -> ir.Model:
    """Lower the model to the shared graph.

    Raises `BadInput`, `UnsafeInput`, `ResourceLimit`, `Unsupported`, `UsageError`.
    """
    from convert.errors import ResourceLimit

    try:
        from .reader import read as read_source
    except (ImportError, AttributeError) as error:  # from a private part of PyTorch (`torch_internals/`)
        place = error.name if isinstance(error, ImportError) else getattr(error.obj, "__name__", "")
        if not f"{place}.".startswith("torch."):
            raise
        from .releases import unknown_part

        raise unknown_part(error) from error
    try:
        return read_source(source, options, report)
    except RecursionError as error:
        raise ResourceLimit(
            f"modules or calls of {source.label} are nested deeper than Python goes, which is "
            f"{sys.getrecursionlimit()} calls within calls",
            hint="call sys.setrecursionlimit with a larger number, or nest them less deep (one Sequential of all)",
        ) from error


def prepare(source: Source, options: Options) -> None:
    """Import what creates a folder at import: PyTorch's compiler, which capture and transformers use.

    Also initializes what PyTorch would otherwise keep with the reading thread.
    """
    with contextlib.suppress(Exception):  # reading reports the error
        from .common.late_imports import import_trace

        import_trace()
        from .torch_internals import keep_device_guard

        keep_device_guard()
        if source.kind == "hf-folder":
            from .files.hugging_face import import_class

            import_class(source.file, options)
        elif source.kind == "diffusers-folder":
            from .files.diffusers_folder import import_component

            import_component(source.file, options)


def load(source: Source, options: Options) -> Any:
    """Return the model as PyTorch runs it: a module in eval mode, an ExportedProgram or a ScriptModule.

    Raises `BadInput`, `UnsafeInput` and `UsageError` as `read` does.
    """
    from .files.loader import load as load_source

    return load_source(source, options)


def find_contradiction(source: Source) -> str:
    """Return what is wrong in an exported program on which a rule failed; "" for other files."""
    if source.kind != "torch-export":
        return ""
    from .files.pt2_archive import read_exported
    from .files.pt2_replay import find_contradiction as find

    return find(read_exported(source.file))


def list_weights(source: Source, options: Options, report: Report) -> list[Tensor] | None:
    """Return the tensors in a file with weights only; None for another kind of file. Raises `BadInput`."""
    if source.kind not in ("torch-state-dict", "safetensors"):
        return None
    from .files.listing import list_weights

    return list_weights(source, options, report)


def names_operator(operator: str) -> bool:
    """Return whether a name is in the form of this frontend's operators: `leaky_relu`, `mine::cube`."""
    return operator.rpartition("::")[2].lstrip("_")[:1].islower()


def skeleton(operator: str) -> str:
    """Return the first lines of a rule for `operator`, made from the schema that PyTorch or the user's library
    declared.
    """
    from convert.rules.skeleton import skeleton as written

    from . import ops  # noqa: F401  (fills the table)
    from .rules import bindable_schema, is_inplace, torch_op
    from .torch_internals import schemas_of_operator

    full = operator if "::" in operator else f"aten::{operator}"
    schemas = schemas_of_operator(full.partition(".")[0])
    plain = [s for s in schemas if not is_inplace(s) and "out" not in s.overload_name]
    wanted = [s for s in plain if s.overload_name == full.partition(".")[2]] or plain
    found = wanted[0] if wanted else None
    schema = None if found is None else bindable_schema(found)
    key = operator.removeprefix("aten::")
    return written(torch_op, key, schema, str(found or ""), __name__, "torch_op")


def preload() -> None:
    """Import the modules needed to read and run models, without starting a thread, because warm workers fork
    afterwards.
    """
    from .common.late_imports import import_trace

    import_trace()
    from . import dispatch, ops, reader  # noqa: F401
    from .export import capture  # noqa: F401
    from .export.lowering import program as lower_exported  # noqa: F401
    from .files import loader  # noqa: F401
    from .runner import run  # noqa: F401
    from .torch_internals import AT_FIRST_CAPTURE, import_compiler
    from .torchscript import lower as lower_torchscript  # noqa: F401

    import_compiler()
    for name in AT_FIRST_CAPTURE:
        with contextlib.suppress(ImportError):  # they are private and may be missing in another version
            importlib.import_module(name)


def operators() -> Iterable[Operator]:
    """Yield the rows of `convert ops --from pytorch`."""
    from . import ops  # noqa: F401  (fills the table)
    from .rules import torch_op

    return operator_rows(torch_op, differences=DIFFERENCES)


def operator_row(name: str) -> Operator | None:
    """Return the row of an operator that the table does not list under this name: with its namespace, an overload, an
    in-place form, or one that PyTorch decomposes. None for an unknown operator.
    """
    from dataclasses import replace

    from convert.plugin import Operator

    from .export.capture.prepare import decomposes

    plain = name.removeprefix("aten::").removeprefix("aten.")
    base, _, overload = plain.partition(".")
    rows = {row.name: row for row in operators()}
    forms = (plain, base, f"{base.removesuffix('_')}.{overload}", base.removesuffix("_"))
    row = next((rows[form] for form in forms if form in rows), None)
    if row is None and decomposes(base.removesuffix("_")):
        row = Operator(name, written_out=True)
    return row and replace(row, name=name)


# The decorator for custom rules. Its old name stays for one release.
__getattr__ = lazy_attributes(__name__, {"torch_op": ".rules"}, renamed={"aten": "torch_op"})
