"""The Caffe2 backend: writes init_net and predict_net for the runtime of PyTorch 1.x, without needing it installed."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from convert.plugin import Format, Operator
from convert.request.naming import TargetNames
from convert.rules.listing import lazy_attributes, operator_rows

from .differences import DIFFERENCES
from .options import LAYOUT, PROFILE

if TYPE_CHECKING:
    import onnx_ir as ir

    from convert.outcome.report import Report
    from convert.request.options import Options

    from .rules import onnx_op as onnx_op  # type checkers do not look into __getattr__

FORMATS = {
    "caffe2": Format(
        "caffe2",
        ".caffe2",
        True,
        "Caffe2: init_net.pb and predict_net.pb, with their text forms",
        kind="caffe2",
        title="Caffe2",
        missing_dtypes=("bfloat16",),
        folder_files=(
            "init_net.pb",
            "init_net.pbtxt",
            "predict_net.pb",
            "predict_net.pbtxt",
            "predictor.minidb",
            "weights.minidb",
        ),
        file_signatures=(("predictor.minidb", b"!!META_NET_DEF"),),
        names=TargetNames(),
        aliases=("c2",),
    )
}
OPTIONS = (PROFILE, LAYOUT)


def check(model: ir.Model, format: str, options: Options) -> None:
    """Raise one `Unsupported` that lists everything in the model that `write` could not emit. Changes nothing."""
    from .emit import emit
    from .legalize import legalize

    copy = model.clone()
    legalize(copy, options)
    emit(copy, aten=PROFILE.of(options) == "aten")


def write(model: ir.Model, path: Path, format: str, options: Options, report: Report) -> None:
    """Write the folder `path`. Raises `Unsupported` before anything is written."""
    from convert.graph.names import rename_io
    from convert.passes.tidy.size_checks import checked_conditions, note_lost_checks

    from .emit import emit
    from .legalize import legalize
    from .writer.profiles import apply_profile
    from .writer.writer import write_folder

    rename_io(model, FORMATS[format].names, report)
    note_lost_checks(checked_conditions(model), "Caffe2", report)
    legalize(model, options)
    profile = PROFILE.of(options)
    net = emit(model, aten=profile == "aten")
    apply_profile(net, profile)
    write_folder(net, path, report, LAYOUT.of(options))


def skeleton(operator: str) -> str:
    """Return the first lines of a rule for the ONNX operator, made from ONNX's schema."""
    from convert.rules.onnx_schemas import onnx_skeleton

    from . import ops  # noqa: F401  (fills the table)
    from .rules import onnx_op

    return onnx_skeleton(onnx_op, operator, __name__)


def preload() -> None:
    """Import the modules needed for writing, without starting a thread, because warm workers fork afterwards."""
    from . import emit, legalize, ops  # noqa: F401
    from .writer import writer  # noqa: F401


def operators(format: str) -> Iterable[Operator]:
    """Yield every ONNX operator with a rule or a declared gap."""
    from convert.legalize.write_out import operators_written_out

    from . import ops  # noqa: F401  (fills the table)
    from .rules import onnx_op

    return operator_rows(onnx_op, differences=DIFFERENCES[format], written_out=operators_written_out())


# The decorator for custom rules. Its old name stays for one release.
__getattr__ = lazy_attributes(__name__, {"onnx_op": ".rules"}, renamed={"onnx": "onnx_op"})
