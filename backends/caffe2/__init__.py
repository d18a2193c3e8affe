"""The Caffe2 backend: writes init_net and predict_net for the runtime of PyTorch 1.x, without needing it installed."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from convert.plugin import Format, Operator

if TYPE_CHECKING:
    import onnx_ir as ir

    from convert.options import Options
    from convert.report import Report

FORMATS = {
    "caffe2": Format(
        "caffe2", ".caffe2", True, "Caffe2: init_net.pb and predict_net.pb, with their text forms", kind="caffe2"
    )
}


def check(model: ir.Model, format: str, options: Options) -> None:
    """Raise one `Unsupported` that lists everything in the model that `write` could not emit; changes nothing."""
    from .emit import emit
    from .files import check_size
    from .legalise import legalise

    copy = model.clone()
    legalise(copy)
    check_size(emit(copy))


def write(model: ir.Model, path: Path, format: str, options: Options, report: Report) -> None:
    """Write the folder `path`. Raises `Unsupported` before anything is written."""
    from .emit import emit
    from .files import check_size, write_folder
    from .legalise import legalise

    legalise(model)
    net = emit(model)
    check_size(net)
    write_folder(net, path, report)


def operators() -> Iterable[Operator]:
    """Every ONNX operator with a rule or a declared gap."""
    from . import ops  # noqa: F401  (fills the table)
    from .rules import onnx

    names = dict.fromkeys(onnx.entries, "") | onnx.gaps
    return [Operator(name, gap) for name, gap in sorted(names.items())]


def __getattr__(name: str) -> Any:
    if name == "onnx":  # the decorator for rules of one's own; it costs an import of onnx
        from .rules import onnx

        return onnx
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
