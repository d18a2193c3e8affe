"""The PyTorch backend: writes exported programs, TorchScript and readable code that need PyTorch only."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from convert.plugin import Format, Operator
from convert.request.naming import IDENTIFIER, WORDS, Naming, TargetNames
from convert.rules.listing import lazy_attributes, operator_rows

from .byte_containers import BYTE_CONTAINERS
from .code.usage import USAGE
from .differences import DIFFERENCES

if TYPE_CHECKING:
    import onnx_ir as ir

    from convert.outcome.report import Report
    from convert.request.options import Options

    from .rules import onnx_op as onnx_op  # type checkers do not look into __getattr__

# Inputs are arguments of forward. Outputs are string keys of the dict that it returns. PyTorch prints forward as code
# with names of its own (torch.fx.graph), which an argument must not shadow.
_OWN = ("torch", "device", "inf", "nan", "NoneType", "fx_pytree", "pytree", "getattr", "slice")
_NAMES = TargetNames(
    replace(IDENTIFIER, reserved={*WORDS, *_OWN}),
    Naming(r"[\"'\\{}()\[\]=;\x00-\x1f\x7f-\x9f\u2028\u2029]"),
    apart=True,
    containers=BYTE_CONTAINERS,
)
# Names that generated code uses in addition.
_IN_CODE = ("F", "Tensor", "float", "int", "itertools", "max", "min", "nn", "range")
_CODE_NAMES = replace(_NAMES, inputs=replace(_NAMES.inputs, reserved={*WORDS, *_OWN, *_IN_CODE}), outputs=Naming())

FORMATS = {
    "torch": Format(
        "torch",
        ".pt2",
        False,
        "PyTorch exported program with trainable parameters, for torch.export.load",
        kind="torch-export",
        title="PyTorch exported program",
        names=_NAMES,
        aliases=("pytorch", "pt2", "torch-export", "exported-program"),
    ),
    "torch-script": Format(
        "torch-script",
        ".pt",
        False,
        "TorchScript archive with trainable parameters, for torch.jit.load",
        kind="torchscript",
        title="TorchScript",
        names=_NAMES,
        single_size_branch=True,
        aliases=("torchscript", "jit", "pt"),
    ),
    "torch-code": Format(
        "torch-code",
        ".torch",
        True,
        "readable PyTorch code with its weights: model.py, model.safetensors",
        kind="torch-code",
        title="PyTorch code",
        # sizes of 0 and 1 are treated like larger ones, so an If on such a size keeps one branch only
        single_size_branch=True,
        folder_files=("model.py", "model.safetensors", "__pycache__/*.pyc"),
        required_files=("model.py", "model.safetensors"),
        file_signatures=(("model.py", USAGE.partition(";")[0].encode()),),
        names=_CODE_NAMES,
        aliases=("pytorch-code", "torch-source", "nn-module"),
    ),
}


def check(model: ir.Model, format: str, options: Options) -> None:
    """Raise one `Unsupported` that lists every operator and dtype that `write` could not emit. Changes nothing.

    A model with control flow is also captured, because only capture shows whether PyTorch can express it.
    """
    from convert.graph.names import rename_io
    from convert.graph.state import states_of
    from convert.outcome.report import Report

    from .emit import check as check_coverage
    from .passes.legalize import legalize
    from .state import state_buffers

    copy = model.clone()
    states = states_of(copy)
    rename_io(copy, FORMATS[format].names, Report("convert"))
    buffers = state_buffers(copy, states)
    legalize(copy, options)
    check_coverage(copy)
    from .writer.exported import export_model, needs_capture

    if needs_capture(copy) and format == "torch-code":
        from .writer.code import code_of

        code_of(copy, buffers)
    elif needs_capture(copy):
        program = export_model(copy, buffers)
        if format == "torch-script":
            from .writer.script import script_of

            script_of(program)


def write(model: ir.Model, path: Path, format: str, options: Options, report: Report) -> None:
    """Write `model` to `path` as an exported program, a TorchScript archive or code. The model is changed.

    Raises `Unsupported` with every operator that has no rule, or with the first node that PyTorch cannot capture.
    """
    from convert.graph.names import rename_io
    from convert.graph.state import states_of

    from .state import state_buffers

    states = states_of(model)
    rename_io(model, FORMATS[format].names, report)
    buffers = state_buffers(model, states, report)
    if format == "torch-script":
        from .writer.script import write_script

        write_script(model, path, options, report, buffers)
        return
    if format == "torch-code":
        from .writer.code import write_code

        write_code(model, path, options, report, buffers)
        return
    from .writer.exported import write_exported

    write_exported(model, path, options, report, buffers)


def skeleton(operator: str) -> str:
    """Return the first lines of a rule for the ONNX operator, made from ONNX's schema."""
    from convert.rules.onnx_schemas import onnx_skeleton

    from . import ops  # noqa: F401  (fills the table)
    from .rules import onnx_op

    return onnx_skeleton(onnx_op, operator, __name__)


def preload() -> None:
    """Import the modules needed for writing, without starting a thread, because warm workers fork afterwards."""
    from . import ops  # noqa: F401
    from .passes import legalize  # noqa: F401
    from .torch_internals import import_compiler
    from .writer import code, script  # noqa: F401

    import_compiler()


def operators(format: str) -> Iterable[Operator]:
    """Yield the ONNX operators that this backend writes, and those that it declares as gaps."""
    from convert.legalize.write_out import operators_written_out

    from . import ops  # noqa: F401  (fills the table)
    from .rules import onnx_op

    if format != "torch-script":
        return operator_rows(onnx_op, differences=DIFFERENCES[format], written_out=operators_written_out())
    from .writer.script import GAPS, LIMITS

    limits = {name: "; ".join(filter(None, (onnx_op.limits.get(name), why))) for name, why in LIMITS.items()}
    return operator_rows(onnx_op, GAPS, limits, DIFFERENCES[format], operators_written_out())


# The decorator for custom rules.
__getattr__ = lazy_attributes(__name__, {"onnx_op": ".rules"})
