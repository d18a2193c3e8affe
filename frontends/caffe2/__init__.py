"""The Caffe2 frontend: reads init_net and predict_net into the shared graph, without Caffe2."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from convert.plugin import Operator
from convert.rules.listing import lazy_attributes, operator_rows

if TYPE_CHECKING:
    import onnx_ir as ir

    from convert.outcome.report import Report
    from convert.request.options import Options
    from convert.request.source import Source

    from .rules import caffe2_op as caffe2_op  # type checkers do not look into __getattr__

KINDS = {"caffe2": "a Caffe2 folder with init_net.pb and predict_net.pb"}

READS: dict[str, tuple[str, ...]] = {}


def claims(model: Any) -> str | None:
    """Return None: nets in memory are messages of a runtime that does not exist for this Python."""
    return None


def read(source: Source, options: Options, report: Report) -> ir.Model:
    """Lower the model to the shared graph. Raises `BadInput`, `Unsupported`, `UsageError`."""
    from .reader import read_caffe2

    return read_caffe2(source, options, report)


def preload() -> None:
    """Import the modules needed for reading, without starting a thread, because warm workers fork afterwards."""
    from . import reader  # noqa: F401


def operators() -> Iterable[Operator]:
    """Yield every Caffe2 operator with a rule, and the declared gaps with their reasons."""
    from . import ops  # noqa: F401  (fills the table)
    from .fills import FILLS
    from .rules import caffe2_op

    return sorted(
        [*(Operator(name) for name in FILLS if name not in caffe2_op), *operator_rows(caffe2_op)], key=lambda o: o.name
    )


# The decorator for custom rules. Its old name stays for one release.
__getattr__ = lazy_attributes(__name__, {"caffe2_op": ".rules"}, renamed={"caffe2": "caffe2_op"})
